"""Runs a command beside a server of its own: with_server.py --server BINARY -- COMMAND…

The command finds the server's endpoint in DANMAKU_URL. Pages from anywhere may connect: a command may
serve one itself.
"""

import os
import subprocess
import sys

from server import Server

if __name__ == "__main__":
    cut = sys.argv.index("--")
    binary = sys.argv[sys.argv.index("--server") + 1]
    os.environ["DANMAKU__HTTP__ORIGINS"] = '["*"]'
    with Server(binary) as server:
        url = f"ws://{server.host}:{server.port}/ws"
        sys.exit(subprocess.run(sys.argv[cut + 1 :], env={**os.environ, "DANMAKU_URL": url}).returncode)

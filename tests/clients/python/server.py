"""Starts the real server on free loopback ports and says where it listens.

In comes the path of the binary; out go the ports that it printed. The server ends with the `with`
block, whatever happened inside it.
"""

import queue
import re
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
LISTENER = re.compile(r"(listening|admin) on http://([0-9.]+):([0-9]+)")



def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def end(process):
    """Asks a process to end, and ends it where it does not."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Server:
    """A running server: `port` for the public, `admin_port` for the operator."""

    def __init__(self, binary, workers=2):
        self.command = [binary, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        self.command += ["--workers", str(workers)]
        self.data = tempfile.TemporaryDirectory()
        self.command += ["--data-dir", self.data.name]
        self.host = "127.0.0.1"
        self.port = None
        self.admin_port = None

    def __enter__(self):
        self._start()
        return self

    def take_over(self):
        """Puts another process in the place of the running one, and waits until that one has ended."""
        old, self.port, self.admin_port = self.process, None, None
        self._start("--take-over")
        if old.wait(STOP_SECONDS_MAX):
            raise RuntimeError(f"the old server ended with {old.returncode}")

    def _start(self, *more):
        # A file and not a pipe: nobody reads while the tests run, and a full pipe would stop the server.
        self.complaints = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*self.command, *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.complaints, text=True
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, args=(self.process, self.lines), daemon=True).start()
        try:
            self._await_listeners()
        except BaseException:
            self.__exit__()
            raise

    @staticmethod
    def _read(process, lines):
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def _await_listeners(self):
        deadline = time.monotonic() + START_SECONDS_MAX
        while self.port is None or self.admin_port is None:
            line = self.lines.get(timeout=max(0, deadline - time.monotonic()))
            if line is None:
                raise RuntimeError(f"the server ended before it listened: {self.said()}")
            found = LISTENER.search(line)
            if found and found[1] == "listening":
                self.port = int(found[3])
            elif found:
                self.admin_port = int(found[3])

    def metric(self, name):
        """A whole number of /metrics."""
        with urllib.request.urlopen(f"http://{self.host}:{self.admin_port}/metrics", timeout=STOP_SECONDS_MAX) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return int(line.split()[1])
        raise AssertionError(f"there is no metric {name}")

    def said(self):
        """What the server wrote to its standard error."""
        self.complaints.seek(0)
        return self.complaints.read().decode(errors="replace")[-2000:]

    def __exit__(self, *_):
        end(self.process)
        self.data.cleanup()

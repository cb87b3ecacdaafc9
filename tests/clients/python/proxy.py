"""nginx or HAProxy in front of a server, each with the file of deploy/.

In come which of them, its path and the server; out go the address where callers connect, and what the two say.
"""

import http.client
import os
import pathlib
import subprocess
import tempfile
import time

from server import end, free_port

DEPLOY = pathlib.Path(__file__).resolve().parents[3] / "deploy"
WAIT_SECONDS_MAX = 30


class Proxy:
    """A proxy in front of a server: `host` and `port` are where callers connect; so many connections it takes at most."""

    def __init__(self, kind, program, server, connections_max=500):
        self.kind, self.program, self.server = kind, program, server
        self.connections_max = connections_max
        self.host, self.port = "127.0.0.1", free_port()

    def configuration(self, folder):
        name = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg"}[self.kind]
        text = (DEPLOY / name).read_text()
        for shown, here in [
            ("listen 80;", f"listen {self.host}:{self.port};"),
            ("bind :80", f"bind {self.host}:{self.port}"),
            ("127.0.0.1:8080", f"127.0.0.1:{self.server.port}"),
            # It would ask for two descriptors each, which a machine for tests may not give.
            ("maxconn 100000", f"maxconn {2 * self.connections_max}"),
            ("port 9090", f"port {self.server.admin_port}"),
        ]:
            text = text.replace(shown, here)
        path = folder / name
        path.write_text(text)
        return path

    def command(self, folder):
        path = self.configuration(folder)
        if self.kind == "haproxy":
            return [self.program, "-db", "-f", str(path)]
        # The file belongs into nginx's own; what else that says is for a machine and not for a test.
        user = "user root;\n" if os.geteuid() == 0 else ""
        temporary = "".join(
            f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        outer = folder / "outer.conf"
        outer.write_text(
            f"{user}daemon off;\npid {folder}/pid;\nerror_log stderr;\n"
            # Each has one on either side.
            f"events {{ worker_connections {2 * self.connections_max}; }}\n"
            f"http {{\naccess_log off;\n{temporary}include {path};\n}}\n"
        )
        return [self.program, "-p", str(folder), "-e", "stderr", "-c", str(outer)]

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.complaints = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            self.command(pathlib.Path(self.folder.name)), stdin=subprocess.DEVNULL, stdout=self.complaints,
            stderr=self.complaints,
        )
        try:
            self._await_answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _await_answer(self):
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.kind} does not answer: {self.said()}")
            try:
                if self.get("/")[0] == 200:
                    return
            except OSError:
                # It is not there yet, or has not found the server yet.
                time.sleep(0.05)

    def said(self):
        """What it wrote, and behind it what the server wrote."""
        self.complaints.seek(0)
        return f"{self.complaints.read().decode(errors='replace')[-2000:]}\n{self.server.said()}"

    def get(self, path, source="127.0.0.9"):
        """Status and body of a page, asked for from an address."""
        connection = http.client.HTTPConnection(
            self.host, self.port, timeout=WAIT_SECONDS_MAX, source_address=(source, 0)
        )
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def __exit__(self, *_):
        end(self.process)
        self.folder.cleanup()

"""What the server says of itself, and what the system says of its process."""

import re
import socket
import time

READ_SECONDS_MAX = 10
NUMBER = re.compile(r"^danmaku_([a-z_0-9]+)(?:\{[a-z]+=\"([a-z_0-9]+)\"\})? ([0-9.e+-]+)$", re.MULTILINE)


def get(address, path):
    """The body of a GET, by a socket of our own: a library would keep the connection."""
    with socket.create_connection(address, timeout=READ_SECONDS_MAX) as asking:
        asking.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        parts = []
        while part := asking.recv(1 << 16):
            parts.append(part)
    head, _, body = b"".join(parts).partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), body.decode()


def counters(admin):
    """Every number of /metrics: `closed_1008`, `refused_overloaded`, `floods`, `connections`."""
    status, text = get(admin, "/metrics")
    if status != 200:
        raise AssertionError(f"/metrics was answered {status}")
    found = {}
    for name, label, value in NUMBER.findall(text):
        name = name.removesuffix("_total")
        found[f"{name}_{label}" if label else name] = float(value)
    return found


class Process:
    """The server's process, where it runs on this machine."""

    def __init__(self, pid):
        self.pid = pid

    def _status(self, name):
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                if line.startswith(name):
                    return int(line.split()[1]) << 10
        raise AssertionError(f"process {self.pid} has no {name}")

    def memory(self):
        """Resident bytes now."""
        return self._status("VmRSS:")

    def peak(self):
        """The most resident bytes since `forget_peak`."""
        return self._status("VmHWM:")

    def forget_peak(self):
        with open(f"/proc/{self.pid}/clear_refs", "w") as references:
            references.write("5")

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def alive(self):
        try:
            with open(f"/proc/{self.pid}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False


def eventually(condition, seconds, what):
    """Looks again until it is so; gives how long that took."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise AssertionError(f"{what} within {seconds:g} s")
        time.sleep(0.05)
    return time.monotonic() - started

"""One hostile connection: a raw socket that may break every rule, and can tell how the server answered.

In come bytes to send and bounds in seconds; out go what was read and how it ended: a close code, an HTTP
status, an end or a reset. Every wait has a bound. It never answers a ping or a close by itself.
"""

import os
import socket
import struct
import time
import zlib

import raw_http

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
LINGER_RESET = struct.pack("ii", 1, 0)
HANDSHAKE_SECONDS_MAX = 20
READ_BYTES = 64 << 10
# What a peer keeps of what it was told: enough for every head and close frame here.
KEPT_BYTES_MAX = 256 << 10
# RFC 6455 section 1.3: any 16 bytes will do, and nobody here checks the answer's digest.
KEY = "AAAAAAAAAAAAAAAAAAAAAA=="


class Ended(Exception):
    """The server ended the connection before it said what was waited for."""


def frame(opcode, payload=b"", **more):
    """One frame, for which masking costs the attacker nothing."""
    return raw_http.frame(opcode, payload, key=raw_http.NO_KEY, **more)


def command(text):
    """A text message."""
    return frame(TEXT, text.encode())


def deflated(payload):
    """The payload of a compressed message (RFC 7692 section 7.2.1)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (packer.compress(payload) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


def request(method, target, host, **headers):
    """The bytes of a request head; underscores in header names stand for hyphens."""
    return raw_http.request(method, target, Host=host, **headers)


def upgrade(room, host, deflate=False, query="&snapshot=none"):
    """The bytes of a WebSocket handshake (RFC 6455 section 4.1)."""
    offer = {"Sec_WebSocket_Extensions": "permessage-deflate"} if deflate else {}
    return raw_http.upgrade(f"/ws?room={room}{query}", Host=host, Sec_WebSocket_Key=KEY, **offer)


class Peer:
    """A connected socket. `got` holds what was read and not yet taken."""

    def __init__(self, address, receive_buffer=None, source=None):
        self.socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source:
            self.socket.bind((source, 0))
        self.socket.settimeout(HANDSHAKE_SECONDS_MAX)
        self.socket.connect(address)
        self.opened = time.monotonic()
        self.got = b""
        self.ended = None

    def fileno(self):
        return self.socket.fileno()

    def send(self, data):
        """Sends all; gives False where the server no longer listens or does not read."""
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def offer(self, data):
        """Sends what fits at once and gives how much that was; -1 where the connection is gone."""
        self.socket.setblocking(False)
        try:
            return self.socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return -1

    def read(self, seconds):
        """Reads once, waiting at most so long. Gives False at the end: `ended` is then `end` or `reset`."""
        if self.ended:
            return False
        self.socket.settimeout(max(seconds, 0.0001))
        try:
            data = self.socket.recv(READ_BYTES)
        except (TimeoutError, BlockingIOError):
            return True
        except OSError:
            self.ended = "reset"
            return False
        if not data:
            self.ended = "end"
            return False
        self.got = (self.got + data)[-KEPT_BYTES_MAX:]
        return True

    def until(self, find, seconds, what):
        """Reads until `find(got)` gives something, and gives that."""
        deadline = time.monotonic() + seconds
        while True:
            found = find(self.got)
            if found is not None:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f"no {what} within {seconds:g} s; read so far: {self.got[:80]!r}")
            if not self.read(left):
                found = find(self.got)
                if found is not None:
                    return found
                raise Ended(f"{self.ended} in place of {what}; read so far: {self.got[:80]!r}")

    def status(self, seconds=HANDSHAKE_SECONDS_MAX):
        """The status of the next response; its head is taken."""
        head = self.until(_head, seconds, "HTTP response")
        self.got = self.got[len(head) :]
        return int(head.split(b" ", 2)[1])

    def open(self, room, host, **options):
        """Becomes a WebSocket session."""
        self.send(upgrade(room, host, **options))
        found = self.status()
        if found != 101:
            raise AssertionError(f"the handshake was answered {found}")
        return self

    def say(self, text):
        """Sends one text message."""
        return self.send(command(text))

    def close_code(self, seconds):
        """The code of the server's close frame: 0 where it has none, None where the end came without one."""
        try:
            return self.until(_close_code, seconds, "close frame")
        except Ended:
            return None

    def end(self, seconds):
        """Waits for the end of the connection: `end` or `reset`."""
        deadline = time.monotonic() + seconds
        while self.read(deadline - time.monotonic()):
            self.got = self.got[-1024:]
            if time.monotonic() >= deadline:
                raise AssertionError(f"still open after {seconds:g} s")
        return self.ended

    def reset(self):
        """Ends with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        self.close()

    def shut(self):
        """Says that nothing more will be sent."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        """Closes; what was not read is lost."""
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def frames(data):
    """The whole frames at the start of `data`, as (opcode, payload), and how many bytes they take."""
    found, at = [], 0
    while at + 2 <= len(data):
        first, length = data[at], data[at + 1]
        head = 2
        if length >= 126:
            head += 2 if length == 126 else 8
            if at + head > len(data):
                break
            length = int.from_bytes(data[at + 2 : at + head], "big")
        if at + head + length > len(data):
            break
        found.append((first & 0x0F, data[at + head : at + head + length]))
        at += head + length
    return found, at


def random_bytes(count):
    """Bytes that mean nothing."""
    return os.urandom(count)


def _head(data):
    end = data.find(b"\r\n\r\n")
    return None if end < 0 else data[: end + 4]


def _close_code(data):
    for opcode, payload in frames(data)[0]:
        if opcode == CLOSE:
            return int.from_bytes(payload[:2], "big")
    return None

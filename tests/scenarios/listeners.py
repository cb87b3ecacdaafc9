"""Raw viewers by the thousand in one process, each of which keeps book: what came, in order, whole and once.

In come addresses and rooms; out go a log per viewer, and per room what anybody was shown. Frames are cut by hand: no
library, and nothing of the project's, stands between the server and the books.
"""

import asyncio
import base64
import json
import os
import struct

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10
JOIN_SECONDS_MAX = 60


class Room:
    """What everybody together knows of a room."""

    def __init__(self, name):
        self.name = name
        # Number to text: as acked to whoever wrote it, and as shown to anybody.
        self.acked, self.shown = {}, {}
        self.epochs = []

    def ack(self, seq, text):
        if self.acked.setdefault(seq, text) != text:
            raise AssertionError(f"{self.name}: {seq} was acked for {self.acked[seq]!r} and for {text!r}")

    def show(self, seq, text):
        if self.shown.setdefault(seq, text) != text:
            raise AssertionError(f"{self.name}: {seq} was shown as {self.shown[seq]!r} and as {text!r}")

    def began(self, epoch, previous):
        """One epoch follows another, the same for everybody: else two would be alive."""
        if epoch not in self.epochs:
            if self.epochs and self.epochs[-1] != previous:
                raise AssertionError(f"{self.name}: {epoch} after {previous}, which is not the last of {self.epochs}")
            self.epochs.append(epoch)
        elif previous is not None and self.epochs[self.epochs.index(epoch) - 1] != previous:
            raise AssertionError(f"{self.name}: {epoch} after {previous}, and others say {self.epochs}")


class Viewer(asyncio.Protocol):
    """One viewer. `wrong` says what it found wrong first; nothing is noted after that."""

    def __init__(self, room, host):
        self.room, self.host = room, host
        self.heard = []
        self.epoch, self.cursor, self.first = None, 0, None
        self.joins = self.recoveries = self.changes = 0
        self.gone = True
        self.wrong = None

    async def join(self, address):
        """Comes in, or comes back with its position."""
        self.got, self.talking, self.gone = b"", False, False
        self.joined = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(JOIN_SECONDS_MAX):
            await asyncio.get_running_loop().create_connection(lambda: self, *address)
            await self.joined

    def cut(self):
        """Away without a word."""
        self.gone = True
        self.transport.abort()

    def connection_made(self, transport):
        self.transport = transport
        since = f"&since={self.epoch}:{self.cursor}" if self.epoch else ""
        key = base64.b64encode(os.urandom(16)).decode()
        transport.write(
            f"GET /ws?room={self.room.name}&snapshot=none{since} HTTP/1.1\r\nHost: {self.host}\r\n"
            f"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
        )

    def connection_lost(self, error):
        if not self.gone:
            self.fail(f"it lost its connection: {error or 'an end'}")

    def data_received(self, data):
        self.got += data
        if not self.talking:
            end = self.got.find(b"\r\n\r\n")
            if end < 0:
                return
            if not self.got.startswith(b"HTTP/1.1 101 "):
                return self.fail(f"its handshake was answered {self.got[:end].splitlines()[0]!r}")
            self.talking, self.got = True, self.got[end + 4 :]
        at = 0
        while (end := frame_end(self.got, at)) is not None:
            head, whole = end
            self.take_frame(self.got[at] & 0x0F, self.got[head:whole])
            at = whole
        self.got = self.got[at:]

    def take_frame(self, opcode, payload):
        if opcode == PING:
            # A key of zeros is a key.
            self.transport.write(struct.pack("!BB4x", 0x80 | PONG, 0x80 | len(payload)) + payload)
        elif opcode == CLOSE:
            self.fail(f"it was closed with {int.from_bytes(payload[:2], 'big')}")
        elif opcode == TEXT and self.wrong is None:
            ((kind, body),) = json.loads(payload).items()
            try:
                self.take(kind, body)
            except AssertionError as error:
                self.fail(str(error))

    def take(self, kind, body):
        if kind == "batch":
            if body["from"] != self.cursor + 1:
                raise AssertionError(f"{body['from']}..{body['to']} came after {self.cursor}")
            self.cursor = body["to"]
            for item in body.get("items", ()):
                seq = item["seq"]
                if not body["from"] <= seq <= body["to"] or self.heard and self.heard[-1] >= seq:
                    raise AssertionError(f"{seq} is out of its place")
                self.heard.append(seq)
                self.room.show(seq, item["text"])
        elif kind == "epoch":
            previous = body.get("prev", {})
            if (previous.get("epoch"), previous.get("seq")) != (self.epoch, self.cursor):
                raise AssertionError(f"an epoch follows {previous}, and it was at {self.epoch}:{self.cursor}")
            self.room.began(body["epoch"], self.epoch)
            self.epoch, self.cursor = body["epoch"], body["seq"]
            self.changes += 1
        elif kind == "joined":
            self.take_joined(body)
        elif kind in ("gap", "error", "reconnect"):
            raise AssertionError(f"it was told {kind}: {body}")

    def take_joined(self, body):
        self.joins += 1
        if self.epoch is None:
            self.epoch, self.cursor, self.first = body["epoch"], body.get("seq", 0), body.get("seq", 0)
            self.room.began(self.epoch, None)
        elif body.get("recovered"):
            self.recoveries += 1
        else:
            raise AssertionError(f"it came back from {self.epoch}:{self.cursor} and was not recovered")
        if not self.joined.done():
            self.joined.set_result(None)

    def fail(self, why):
        self.wrong = self.wrong or f"a viewer of {self.room.name}: {why}"
        if not self.joined.done():
            self.joined.set_result(None)

    def judge(self):
        """What is wrong with its book, now that everything was said; None where nothing is."""
        if self.wrong:
            return self.wrong
        wanted = sorted(seq for seq in self.room.acked if seq > self.first)
        if self.heard != wanted:
            missing, more = set(wanted) - set(self.heard), set(self.heard) - set(wanted)
            return f"a viewer of {self.room.name} has not heard {sorted(missing)[:5]}, or more: {sorted(more)[:5]}"
        return None


def frame_end(data, at):
    """Where the payload of the frame at `at` begins and ends; None while it is not whole."""
    if at + 2 > len(data):
        return None
    length, head = data[at + 1], at + 2
    if length >= 126:
        head += 2 if length == 126 else 8
        if head > len(data):
            return None
        length = int.from_bytes(data[at + 2 : head], "big")
    return (head, head + length) if head + length <= len(data) else None

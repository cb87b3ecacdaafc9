"""HTTP and WebSocket frames written by hand, for what no well-behaved library would send."""

import asyncio
import base64
import contextlib
import os
import struct

WAIT_SECONDS_MAX = 30
# A key is a key: the payload stays as it is, and masking costs the sender nothing.
NO_KEY = b"\0\0\0\0"


@contextlib.asynccontextmanager
async def connection(server):
    """A bare TCP connection: (reader, writer)."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def request(method, target, **headers):
    """The bytes of a request; underscores in header names stand for hyphens, None leaves one out."""
    lines = [f"{method} {target} HTTP/1.1"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items() if value is not None]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def upgrade(target, method="GET", **changes):
    """The bytes of a WebSocket handshake (RFC 6455 section 4.1)."""
    headers = {
        "Host": "127.0.0.1",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec_WebSocket_Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec_WebSocket_Version": "13",
    }
    return request(method, target, **{**headers, **changes})


async def head(reader):
    """Reads a response's head: (status, headers by lower-case name)."""
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        block = await reader.readuntil(b"\r\n\r\n")
    first, *rest = block.decode("latin-1").split("\r\n")
    fields = (line.split(":", 1) for line in rest if line)
    return int(first.split(" ")[1]), {name.lower(): value.strip() for name, value in fields}


def frame(opcode, payload=b"", *, fin=True, masked=True, reserved=0, announced=None, key=None):
    """One frame (RFC 6455 section 5.2); `announced` lies about the length, in 64 bits. A key of its own unless given."""
    first = (0x80 if fin else 0) | reserved | opcode
    length = len(payload)
    mark = 0x80 if masked else 0
    if announced is not None:
        header = struct.pack("!BBQ", first, mark | 127, announced)
    elif length < 126:
        header = struct.pack("!BB", first, mark | length)
    elif length < 1 << 16:
        header = struct.pack("!BBH", first, mark | 126, length)
    else:
        header = struct.pack("!BBQ", first, mark | 127, length)
    if not masked:
        return header + payload
    if key == NO_KEY:
        return header + key + payload
    key = key or os.urandom(4)
    return header + key + bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))


async def close_code(reader):
    """Reads frames until the close frame and the end of the stream behind it; gives the code."""
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while True:
            first, length = await reader.readexactly(2)
            if length >= 126:
                length = int.from_bytes(await reader.readexactly(2 if length == 126 else 8), "big")
            payload = await reader.readexactly(length)
            if first & 0x0F == 8:
                if await reader.read(1):
                    raise AssertionError("bytes after the close frame")
                return int.from_bytes(payload[:2], "big") if payload else None

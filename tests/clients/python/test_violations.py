"""What breaks a protocol is refused with the code that names it, and the code arrives."""

import functools

from battery import equal, main
from raw_http import close_code, connection, frame, head, request, upgrade

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
COMMAND = b'{"ping":{"t":1}}'

# Name, bytes on an open connection, close code.
FRAMES = [
    ("an unmasked frame", frame(TEXT, COMMAND, masked=False), 1002),
    ("a reserved opcode", frame(3, COMMAND), 1002),
    ("a reserved bit", frame(TEXT, COMMAND, reserved=0x20), 1002),
    ("a compressed frame that nobody negotiated", frame(TEXT, COMMAND, reserved=0x40), 1002),
    ("a fragmented ping", frame(PING, b"", fin=False), 1002),
    ("a ping of 126 bytes", frame(PING, b"p" * 126), 1002),
    ("a continuation of nothing", frame(0, COMMAND), 1002),
    ("a message inside a message", frame(TEXT, b"{", fin=False) + frame(TEXT, COMMAND), 1002),
    ("a length with its highest bit set", frame(TEXT, b"", announced=1 << 63), 1002),
    ("a close code that may not be sent", frame(CLOSE, (1005).to_bytes(2, "big")), 1002),
    ("a close frame of one byte", frame(CLOSE, b"\x03"), 1002),
    ("garbage", b"\xff" * 64, 1002),
    ("text that is not JSON", frame(TEXT, b'{"send":'), 1002),
    ("binary where text was agreed", frame(BINARY, COMMAND), 1003),
    ("text that is not UTF-8", frame(TEXT, b'{"ping":"\xc3\x28"}'), 1007),
    ("a surrogate in UTF-8", frame(TEXT, b'{"ping":"\xed\xa0\x80"}'), 1007),
    ("a frame that announces a terabyte", frame(TEXT, b"", announced=1 << 40), 1009),
    ("an ordinary close", frame(CLOSE, (1000).to_bytes(2, "big") + b"bye"), 1000),
]

LONG_ROOM = "r" * 65
INVALID_ROOMS = ["%3E", "*", "a.b", "a%20b", "%00", "..%2Fx", "%C3%A9", LONG_ROOM, ""]

# Name, request, status.
REQUESTS = [
    *((f"a socket for room {room!r}", upgrade(f"/ws?room={room}"), 400) for room in INVALID_ROOMS),
    *(
        (f"events of room {room!r}", request("GET", f"/api/v1/rooms/{room}/events", Host="127.0.0.1"), 400)
        for room in ["a.b", "a%20b", "%00", LONG_ROOM]
    ),
    ("a handshake without its key", upgrade("/ws?room=r", Sec_WebSocket_Key=None), 400),
    ("a handshake of another version", upgrade("/ws?room=r", Sec_WebSocket_Version="8"), 426),
    ("a handshake by POST", upgrade("/ws?room=r", method="POST", Content_Length="0"), 405),
    ("a path that is not there", request("GET", "/nowhere", Host="127.0.0.1"), 404),
]


async def closed_with(server, data, code):
    async with connection(server) as (reader, writer):
        writer.write(upgrade("/ws?room=violations&snapshot=none"))
        status, _ = await head(reader)
        equal(status, 101, "status of the handshake")
        writer.write(data)
        equal(await close_code(reader), code, "close code")


async def answered_with(server, data, status):
    async with connection(server) as (reader, writer):
        writer.write(data)
        found, headers = await head(reader)
        equal(found, status, "status")
        equal(headers.get("content-type"), "application/problem+json", "type of the answer")
        if status == 426:
            equal(headers.get("sec-websocket-version"), "13", "version that would be right")


if __name__ == "__main__":
    main(
        [
            *(
                (f"{name} closes with {code}", functools.partial(closed_with, data=data, code=code))
                for name, data, code in FRAMES
            ),
            *(
                (f"{name} is answered {status}", functools.partial(answered_with, data=data, status=status))
                for name, data, status in REQUESTS
            ),
        ]
    )

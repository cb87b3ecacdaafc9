"""Before there is a session: heads and bodies that never end, are too big, or are no HTTP at all."""

import time

from ground import SLACK_SECONDS, attack, hear, readable
from peer import Ended, random_bytes, request, upgrade

DRIP_SECONDS = 0.25
SLOW_PEERS = 300


def drip(ground, first, bytes_of_drip):
    """Keeps SLOW_PEERS connections that send a byte now and then, and looks that each is ended in time."""
    bound = ground.limits["websocket.handshake"]
    peers = []
    while ground.goes_on():
        while len(peers) < SLOW_PEERS:
            peer = ground.peer()
            peer.send(first)
            peers.append(peer)
            ground.count("connections")
            ground.pace()
        ground.holds.note(handshakes=len(peers))
        note_ended(ground, peers, bound)
        for peer in peers:
            peer.offer(bytes_of_drip)
        time.sleep(DRIP_SECONDS)
    while peers:
        note_ended(ground, peers, bound, DRIP_SECONDS)
        for peer in peers:
            peer.offer(bytes_of_drip)
    ground.moves("limit_met_first_request", ground.done["ended in time"])


def note_ended(ground, peers, bound, seconds=0.0):
    for peer in hear(peers, seconds):
        lived = time.monotonic() - peer.opened
        if lived < bound / 2:
            raise AssertionError(f"ended after {lived:.1f} s, though {bound:g} s are granted")
        ground.count("ended in time")
        peer.close()
        peers.remove(peer)
    now = time.monotonic()
    late = [peer for peer in peers if now - peer.opened > bound + SLACK_SECONDS]
    if late:
        raise AssertionError(f"{len(late)} connections still open {SLACK_SECONDS:g} s after their {bound:g} s")


@attack("silent", "closed when the handshake's time is over")
def silent(ground):
    drip(ground, b"", b"")


@attack("slow-head", "closed when the handshake's time is over, however the head drips")
def slow_head(ground):
    drip(ground, b"GET /ws?room=slow HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ", b"s")


@attack("slow-body", "405 at once where no body is taken; else 408 when the handshake's time is over; then closed")
def slow_body(ground):
    bound = ground.limits["websocket.handshake"]
    length = {"Content_Type": "application/json", "Content_Length": str(ground.limits["http.body_bytes_max"])}
    publish = request("POST", "/api/v1/rooms/slow/danmaku", ground.host, **length)
    nowhere = request("POST", "/ws?room=slow", ground.host, **length)
    peers = []
    while ground.goes_on() or peers:
        while len(peers) < SLOW_PEERS and ground.goes_on():
            peers.append(ground.peer())
            peers[-1].send(publish)
        ground.holds.note(handshakes=SLOW_PEERS + 1)
        with ground.peer() as peer:
            peer.send(nowhere)
            answered(ground, peer, 405)
        for peer in peers:
            peer.offer(b" ")
        for peer in [peer for peer in readable(peers, DRIP_SECONDS) if peer.got or not peer.read(0) or peer.got]:
            answered(ground, peer, 408)
            if time.monotonic() - peer.opened < bound / 2:
                raise AssertionError("408 before the time was over")
            peers.remove(peer)
            peer.close()
        late = [peer for peer in peers if time.monotonic() - peer.opened > bound + SLACK_SECONDS]
        if late:
            raise AssertionError(f"{len(late)} bodies still awaited {SLACK_SECONDS:g} s after their {bound:g} s")
    ground.moves("limit_met_body_time", ground.done.get("answered 408", 0))


def answered(ground, peer, status):
    """The next response must have this status."""
    if (found := peer.status(SLACK_SECONDS)) != status:
        raise AssertionError(f"answered {found} in place of {status}")
    ground.count(f"answered {status}")


@attack("huge-head", "431 for a head, 414 for an address that is too long, as soon as it is; then closed")
def huge_head(ground):
    host = ground.host
    head_bytes = ground.limits["http.head_bytes_max"]
    many = {f"X-H{n}": "v" for n in range(ground.limits["http.headers_max"])}
    cases = [
        (request("GET", "/", host, X_Long="h" * head_bytes), (431,)),
        (request("GET", "/", host, **many), (431,)),
        (request("GET", "/ws?room=r&x=" + "u" * ground.limits["http.target_bytes_max"], host), (414,)),
        (b"GET /" + b"u" * (1 << 20), (414, 431)),
        (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X-Endless: e\r\n" * (1 << 16), (431,)),
    ]
    ground.holds.note(handshakes=1)
    while ground.goes_on():
        for data, allowed in cases:
            with ground.peer() as peer:
                peer.send(data)
                try:
                    found = peer.status(SLACK_SECONDS)
                except Ended:
                    # Whoever goes on sending past the answer may lose it to the reset.
                    if len(data) <= 4 * head_bytes:
                        raise
                    ground.count("cut off")
                    continue
                if found not in allowed:
                    raise AssertionError(f"{data[:24]!r}… was answered {found}")
                ground.count(f"answered {found}")
            ground.pace()
    ground.moves_at_least("limit_met_headers", 1)
    ground.moves_at_least("limit_met_head_bytes", 1)
    ground.moves_at_least("limit_met_target_bytes", 1)


@attack("pipelined-garbage", "what came before is answered; the garbage is 400 or 1002, and the end")
def pipelined_garbage(ground):
    page = request("GET", "/nowhere", ground.host)
    ground.holds.note(handshakes=1, sessions=1)
    while ground.goes_on():
        with ground.peer() as peer:
            peer.send(page * 20 + b"\x16\x03\x01" + random_bytes(512) + b"\r\n\r\n")
            found = []
            while not found or found[-1] != 400:
                found.append(peer.status(SLACK_SECONDS))
                skip_body(peer)
            if len(found) != 21:
                raise AssertionError(f"20 requests and garbage were answered by {found}")
            peer.end(SLACK_SECONDS)
            ground.count("answered 400")
        with ground.peer() as peer:
            peer.send(upgrade("hostile", ground.host) + b"\xff" * 512)
            if (found := peer.status(SLACK_SECONDS)) != 101:
                raise AssertionError(f"the handshake was answered {found}")
            ground.closed_with(peer, 1002)
        with ground.peer() as peer:
            peer.send(b"\x00" + random_bytes(64) + b"\r\n\r\n")
            answered(ground, peer, 400)
            peer.end(SLACK_SECONDS)


def skip_body(peer):
    """Takes what stands before the next response, for bodies that hold none."""
    at = peer.got.find(b"HTTP/1.1 ")
    while at < 0 and peer.read(0.5):
        at = peer.got.find(b"HTTP/1.1 ")
    peer.got = peer.got[max(at, 0) :]


@attack("unread-pages", "answers that nobody reads are given up with the connection")
def unread_pages(ground):
    """The kernel's own bound for bytes that nobody takes (TCP_USER_TIMEOUT): 30 s and its next probe."""
    page = request("GET", "/", ground.host)
    peers = [ground.peer(receive_buffer=4096) for _ in range(20 if ground.quick else 200)]
    ground.holds.note(handshakes=len(peers))
    for peer in peers:
        peer.offer(page * 200)
        ground.pace()
    ground.count("connections", len(peers))
    while ground.goes_on():
        for peer in peers:
            peer.offer(page)
        time.sleep(DRIP_SECONDS)
    for peer in peers:
        peer.reset()

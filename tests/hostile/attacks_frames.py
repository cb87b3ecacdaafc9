"""On an open session: frames that break a rule or a limit, each answered by the code that names it."""

import time

from ground import SLACK_SECONDS, attack, hear
from peer import CLOSE, PING, PONG, TEXT, command, deflated, frame, frames, random_bytes

PING_COMMAND = '{"ping":{"t":7}}'
DRIPPERS = 50
HOLDERS = 100


def repeat(ground, data, code, count=1, **options):
    """Opens sessions one after the other that send `data` and must be closed with `code`."""
    ground.holds.note(sessions=1)
    while ground.goes_on():
        for _ in range(count):
            peer = ground.session(**options)
            peer.send(data)
            ground.closed_with(peer, code)
            ground.pace()


@attack("unmasked", "1002")
def unmasked(ground):
    repeat(ground, frame(TEXT, PING_COMMAND.encode(), masked=False), 1002)


@attack("claims", "a length of 2^63 is 1002, one below it 1009, both before a byte of it has come")
def claims(ground):
    ground.holds.note(sessions=2)
    while ground.goes_on():
        for announced, code in ((1 << 63, 1002), ((1 << 63) - 1, 1009), (1 << 40, 1009)):
            peer = ground.session()
            peer.send(frame(TEXT, b"", announced=announced))
            ground.closed_with(peer, code)
            ground.pace()


@attack("one-byte-frames", "answered as if whole; the message in more frames than it may have is 1009")
def one_byte_frames(ground):
    peers = ground.sessions(DRIPPERS, room="drip")
    whole = command(PING_COMMAND)
    sent = 0
    while ground.goes_on():
        for at in range(len(whole)):
            for peer in peers:
                peer.send(whole[at : at + 1])
            hear(peers)
            ground.pace()
        sent += 1
        split = frame(TEXT, b"{", fin=False) + frame(0, b" ", fin=False) * ground.limits["websocket.fragments_max"]
        peer = ground.session()
        peer.send(split)
        ground.closed_with(peer, 1009)
        ground.moves("limit_met_fragments", 1)
    for peer in peers:
        peer.until(lambda got: got.count(b'{"pong":{"t":7}}') >= sent or None, SLACK_SECONDS, f"{sent} pongs")
        peer.close()
    ground.count("frames in single bytes", sent * DRIPPERS)


@attack("endless-continuation", "1009 at the bound of frames, or of bytes; what is incomplete stays within its bound")
def endless_continuation(ground):
    limits = ground.limits
    piece = max(limits["websocket.message_bytes_max"] // 32, 1)
    first, more = frame(TEXT, b"", fin=False), frame(0, b"c" * piece, fin=False)
    holders = ground.sessions(HOLDERS, room="held")
    held = limits["websocket.message_bytes_max"] // piece - 1
    for peer in holders:
        peer.send(first + more * held)
        ground.pace()
    ground.holds.note(sessions=HOLDERS + 1)
    while ground.goes_on():
        many = first + frame(0, b"", fin=False) * limits["websocket.fragments_max"]
        for data, limit in ((first + more * 40, "message_bytes"), (many, "fragments")):
            peer = ground.session()
            peer.send(data)
            ground.closed_with(peer, 1009)
            ground.moves(f"limit_met_{limit}", 1)
            ground.pace()
    for peer in holders:
        peer.send(frame(PING, b"still here"))
        peer.until(lambda got: True if PONG in dict(frames(got)[0]) else None, SLACK_SECONDS, "pong")
        peer.send(more * 2)
        ground.closed_with(peer, 1009)
        ground.moves("limit_met_message_bytes", 1)


@attack("ping-flood", "1008; whoever stays below `frames_per_s` is answered")
def ping_flood(ground):
    per_s = ground.limits["websocket.frames_per_s"]
    polite = ground.sessions(4, room="pings")
    flood = frame(PING, b"p" * 16) * (2 * per_s + 2)
    sent, started = 0, time.monotonic()
    ground.holds.note(sessions=5)
    while ground.goes_on():
        peer = ground.session()
        peer.send(flood)
        ground.closed_with(peer, 1008)
        ground.moves("limit_met_frames_per_s", 1)
        if sent < (time.monotonic() - started) * 0.7 * per_s:
            for other in polite:
                other.send(command(PING_COMMAND))
            sent += 1
            hear(polite)
    for other in polite:
        other.until(lambda got: got.count(b'"pong"') >= sent or None, SLACK_SECONDS, f"{sent} pongs")
        other.close()


@attack("bombs", "1009 as soon as it is inflated beyond the bound; many in a second are 1008")
def bombs(ground):
    limits = ground.limits
    bound = limits["websocket.message_bytes_max"]
    # 64 KiB of wire are 64 MiB inflated: what DEFLATE can do at most.
    big = deflated(bytes(min(bound * 1000, 64 << 20)))[: limits["websocket.frame_bytes_max"]]
    ground.ready()
    small = deflated(b'{"x":"' + b"y" * (bound // 2) + b'"}')
    many = 2 * (int(limits["websocket.inflated_bytes_per_s"]) // (bound // 2)) + 2
    ground.holds.note(sessions=1)
    while ground.goes_on():
        for data, code in ((frame(TEXT, big, reserved=0x40), 1009), (frame(TEXT, small, reserved=0x40) * many, 1008)):
            peer = ground.session(deflate=True)
            peer.send(data)
            ground.closed_with(peer, code)
            ground.pace()
        ground.moves("limit_met_inflated_bytes_per_s", 1)
        ground.moves("limit_met_message_bytes", 1)


@attack("error-flood", "`errors_per_s` errors, then one with a count; nobody is closed")
def error_flood(ground):
    per_s = ground.limits["websocket.frames_per_s"]
    peers = ground.sessions(8, room="errors")
    batch = per_s // 20
    wrong = command('{"dance":{}}') * batch
    told_per_s = ground.limits["websocket.errors_per_s"]
    sent, started = 0, time.monotonic()
    while ground.goes_on():
        for peer in peers:
            peer.send(wrong)
        sent += batch
        hear(peers)
        # 70 % of the bound, whatever the machine does meanwhile.
        time.sleep(max(0, started + sent / (0.7 * per_s) - time.monotonic()))
    seconds = time.monotonic() - started
    for peer in peers:
        peer.send(frame(CLOSE, (1000).to_bytes(2, "big")))
        ground.closed_with(peer, 1000)
        told = peer.got.count(b'"unknown_command"')
        if told > told_per_s * (seconds + 2):
            raise AssertionError(f"{told} errors in {seconds:.1f} s")
        ground.count("errors told", told)
    ground.count("bad commands", sent * len(peers))
    ground.moves("refused_unknown_command", sent * len(peers))


@attack("garbage-after-close", "the close is answered, what follows is dropped, and cut off when it is too much")
def garbage_after_close(ground):
    close = frame(CLOSE, (1000).to_bytes(2, "big"))
    junk = random_bytes(1 << 20)
    ground.holds.note(sessions=1)
    while ground.goes_on():
        for behind in (junk[:4096], junk):
            with ground.session() as peer:
                peer.send(close)
                if (found := peer.close_code(SLACK_SECONDS)) != 1000:
                    raise AssertionError(f"a close was answered {found}")
                peer.send(behind)
                peer.end(SLACK_SECONDS)
                ground.moves("closed_1000", 1)
                ground.count("closed with 1000")
            ground.pace()

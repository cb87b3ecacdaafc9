"""Against rooms: joins without end, names without end, talk that nobody may have, and readers who never read."""

import itertools
import time

from ground import SLACK_SECONDS, attack, hear
from peer import CLOSE, command, frames

LOOPERS = 10
JOINERS = 80
UNREAD = 100
TALKERS = 60
# For the talk to fill every buffer on the way.
UNREAD_SECONDS_MAX = 60
JOINED = b'{"joined":'


@attack("join-loop", "`joins_per_s` are answered by `joined`, the rest by `rate_limited`; above `frames_per_s` 1008")
def join_loop(ground):
    limits = ground.limits
    per_s = limits["websocket.frames_per_s"]
    peers = ground.sessions(LOOPERS, room="loop-0")
    heard = dict.fromkeys(peers, 0)
    batch = max(per_s // 20, 1)
    sent, started = 0, time.monotonic()
    while ground.goes_on():
        joins = b"".join(command(f'{{"join":{{"room":"loop-{(sent + n) % 7}"}}}}') for n in range(batch))
        for peer in peers:
            peer.send(joins)
        sent += batch
        for peer in peers:
            peer.read(0)
            heard[peer] += take(peer, JOINED)
        time.sleep(max(0, started + sent / (0.7 * per_s) - time.monotonic()))
    for peer in peers:
        peer.send(command('{"ping":{"t":7}}'))
        peer.until(lambda got: True if b'{"pong":{"t":7}}' in got else None, SLACK_SECONDS, "pong")
        heard[peer] += take(peer, JOINED)
        peer.close()
    seconds = time.monotonic() - started + 1
    # The room that it is in already may be joined again without end: a seventh of all, and the handshake's own.
    allowed = limits["limits.joins_burst"] + limits["limits.joins_per_s"] * seconds + sent / 7 + 2
    for joined in heard.values():
        if not 1 <= joined <= max(allowed, 1):
            raise AssertionError(f"{joined} joins answered in {seconds:.1f} s, where {allowed:.0f} may be")
    ground.count("joins", sent * LOOPERS)
    ground.count("answered by joined", sum(heard.values()))
    if limits["limits.joins_per_s"] < per_s // 4:
        ground.moves_at_least("limit_met_joins", sent * LOOPERS - int(allowed * LOOPERS))
    peer = ground.session("loop-0")
    peer.send(command('{"join":{"room":"loop-1"}}') * (2 * per_s + 2))
    ground.closed_with(peer, 1008)
    ground.moves("limit_met_frames_per_s", 1)


def take(peer, mark):
    """How often the mark came; what holds it is forgotten, but for a part that may be its beginning."""
    times = peer.got.count(mark)
    peer.got = peer.got[-(len(mark) - 1) :]
    return times


@attack("comment-flood", "within the user's share accepted, else `rate_limited`; nobody is closed")
def comment_flood(ground):
    per_s = ground.limits["websocket.frames_per_s"]
    peers = ground.sessions(LOOPERS, room="flood")
    batch = max(per_s // 20, 1)
    sent, started = 0, time.monotonic()
    while ground.goes_on():
        texts = (command(f'{{"send":{{"id":"{sent + n}","text":"buy now {sent + n}"}}}}') for n in range(batch))
        said = b"".join(texts)
        for peer in peers:
            peer.send(said)
        sent += batch
        hear(peers)
        time.sleep(max(0, started + sent / (0.7 * per_s) - time.monotonic()))
    seconds = time.monotonic() - started + 2
    ground.count("comments sent", sent * LOOPERS)
    allowed = ground.limits["limits.user_burst"] + ground.limits["limits.user_per_s"] * seconds
    ground.holds.note(said_bytes=int(allowed * LOOPERS * 1000))
    ground.moves_at_least("refused_rate_limited", int((sent - allowed) * LOOPERS))
    for peer in peers:
        peer.send(command('{"ping":{"t":7}}'))
        peer.until(lambda got: True if b'{"pong":{"t":7}}' in got else None, SLACK_SECONDS, "pong")
        peer.close()


@attack("unread", "out of the passes while the socket is full; after `grace` 4008, or a reset where none can be queued")
def unread(ground):
    """A room that talks, and members with a small window who never read."""
    grace = ground.limits["slow_consumer.grace"]
    deaf = ground.sessions(UNREAD, room="unread", receive_buffer=4096, query="&snapshot=none&tier=full")
    ground.holds.note(sessions=UNREAD + TALKERS, unread=UNREAD)
    talkers, said = [], 0
    text = "文" * min(ground.limits["limits.text_chars_max"], ground.limits["limits.text_bytes_max"] // 3)
    before = ground.counter("slow_consumers")
    bound = UNREAD_SECONDS_MAX + grace
    deadline = time.monotonic() + bound
    # Each guest may say a burst at once: fresh ones come for as long as somebody is still there.
    while (over := ground.counter("slow_consumers") - before) < UNREAD:
        if time.monotonic() > deadline:
            raise AssertionError(f"only {over:.0f} of {UNREAD} were ended within {bound:g} s")
        if len(talkers) >= TALKERS:
            talkers.pop(0).close()
        talker = ground.session("unread")
        for n in range(int(ground.limits["limits.user_burst"])):
            talker.say(f'{{"send":{{"id":"{n}","text":"{text}"}}}}')
            said += 1
        talkers.append(talker)
        hear(talkers)
        ground.pace()
        time.sleep(0.05)
    ground.holds.note(said_bytes=said * 600)
    ground.count("comments", said)
    ground.moves("slow_consumers", UNREAD)
    ground.moves("closed_4008", UNREAD)
    for peer in deaf:
        code = peer.close_code(SLACK_SECONDS)
        if code not in (4008, None):
            raise AssertionError(f"closed with {code}")
        ground.count("read 4008" if code else "reset")
        peer.close()
    for peer in talkers:
        peer.close()


@attack("random-rooms", "at `rooms_max` further ones are refused; memory stays within its bound")
def random_rooms(ground):
    """New names as fast as may be: by new connections, and by joins where `joins_per_s` allows many."""
    limits = ground.limits
    per_s = min(limits["limits.joins_per_s"], int(0.7 * limits["websocket.frames_per_s"]))
    by_joins = per_s >= 100
    names = (f"n{number:x}-{id(ground):x}" for number in itertools.count())
    peers = ground.sessions(JOINERS, room="names") if by_joins else []
    ground.holds.note(sessions=JOINERS + 1)
    batch = per_s // 10
    made, refused, turn, started = 0, 0, 0, time.monotonic()
    while made < ground.names or ground.goes_on():
        if by_joins:
            refused += join_names(ground, peers, names, batch)
            made += batch * len(peers)
        else:
            with ground.session(next(names)) as peer:
                refused += peer.until(first_word, SLACK_SECONDS, "word") != b"joined"
            made += 1
        turn += 1
        ground.pace()
        if by_joins:
            time.sleep(max(0, started + turn / 10 - time.monotonic()))
    seconds = time.monotonic() - started
    # An empty room is remembered for a while by those who followed it, then by its owner; each worker keeps
    # `rooms_max`.
    remembered = 2 * limits["room.linger"] + 2
    place = ground.workers * limits["server.rooms_max"]
    kept = min(made, made / seconds * remembered, place)
    ground.holds.note(rooms=int(kept))
    ground.count("rooms asked for", made)
    ground.count("refused", refused)
    if seconds < limits["room.linger"] and made > 2 * place:
        ground.moves_at_least("limit_met_rooms", made - 2 * place)
    for peer in peers:
        peer.close()
    until_forgotten(ground, remembered)


def join_names(ground, peers, names, batch):
    """A share of names for each; gives how many had to be replaced, since a refusal may close a session."""
    refused = 0
    for at, peer in enumerate(peers):
        joins = b"".join(command(f'{{"join":{{"room":"{name}"}}}}') for name in itertools.islice(names, batch))
        if not peer.send(joins) or not peer.read(0):
            peer.close()
            refused += 1
            peers[at] = ground.session("names")
        peer.got = b""
    return refused


def until_forgotten(ground, remembered):
    """The names are forgotten, and whoever comes with a new one is served again."""
    deadline = time.monotonic() + remembered + SLACK_SECONDS
    while True:
        with ground.session(f"fresh-{time.monotonic_ns():x}") as peer:
            said = peer.until(first_word, SLACK_SECONDS, "word")
        if said == b"joined":
            return
        ground.count(f"then answered {said.decode()}")
        if time.monotonic() > deadline:
            raise AssertionError(f"still answered {said!r} {SLACK_SECONDS:g} s after the last room was to be forgotten")
        time.sleep(0.25)


def first_word(data):
    """The first message's kind; of an error its code."""
    for opcode, payload in frames(data)[0]:
        if opcode == CLOSE:
            return str(int.from_bytes(payload[:2], "big")).encode()
        if payload.startswith(b'{"error"'):
            return payload.partition(b'"code":"')[2].partition(b'"')[0]
        if payload.startswith(b'{"joined"'):
            return b"joined"
    return None

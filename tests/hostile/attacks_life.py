"""Connections that come, go, half go and vanish: at rate, and in every state that a connection has."""

from ground import SLACK_SECONDS, attack
from peer import CLOSE, PING, TEXT, command, frame, request, upgrade

ORDINARY_CLOSE = frame(CLOSE, (1000).to_bytes(2, "big"))


def connected(ground):
    return ground.peer()


def amid_head(ground):
    peer = ground.peer()
    peer.send(upgrade("states", ground.host)[:40])
    return peer


def asked(ground):
    peer = ground.peer()
    peer.send(request("GET", "/nowhere", ground.host))
    return peer


def shaking_hands(ground):
    peer = ground.peer()
    peer.send(upgrade("states", ground.host))
    return peer


def in_room(ground):
    return ground.session("states")


def amid_header(ground):
    return sent(ground, frame(TEXT, b"x" * 200)[:3])


def amid_frame(ground):
    return sent(ground, frame(TEXT, b"x" * 200)[:100])


def amid_message(ground):
    return sent(ground, frame(TEXT, b'{"ping"', fin=False))


def owed_pongs(ground):
    return sent(ground, frame(PING, b"p" * 100) * 40)


def joining(ground):
    return sent(ground, command('{"join":{"room":"elsewhere"}}'))


def publishing(ground):
    return sent(ground, command('{"send":{"id":"1","text":"gone"}}'))


def closing(ground):
    return sent(ground, ORDINARY_CLOSE)


def refused(ground):
    return sent(ground, frame(TEXT, b"x", masked=False))


def sent(ground, data):
    peer = ground.session("states")
    peer.send(data)
    return peer


STATES = [
    connected,
    amid_head,
    asked,
    shaking_hands,
    in_room,
    amid_header,
    amid_frame,
    amid_message,
    owed_pongs,
    joining,
    publishing,
    closing,
    refused,
]


@attack("half-close", "what was asked is answered, then the server closes too, at once, in every state")
def half_close(ground):
    ground.holds.note(sessions=1)
    while ground.goes_on():
        for state in STATES:
            with state(ground) as peer:
                peer.shut()
                if state is asked and (found := peer.status(SLACK_SECONDS)) != 404:
                    raise AssertionError(f"asked before the half-close, answered {found}")
                try:
                    peer.end(SLACK_SECONDS)
                except AssertionError as error:
                    raise AssertionError(f"{state.__name__}: {error}") from None
                ground.count("half-closed")
            ground.pace()


@attack("reset", "the session and its descriptor are gone at once, in every state")
def reset(ground):
    ground.holds.note(sessions=len(STATES), handshakes=len(STATES))
    while ground.goes_on():
        for peer in [state(ground) for state in STATES]:
            peer.reset()
            ground.count("resets")
        ground.pace()


@attack("close-storm", "each close is answered 1000, as fast as they come")
def close_storm(ground):
    ground.holds.note(sessions=1)
    while ground.goes_on():
        with ground.session("storm") as peer:
            peer.send(ORDINARY_CLOSE)
            if (found := peer.close_code(SLACK_SECONDS)) != 1000:
                raise AssertionError(f"closed with {found}")
        ground.count("sessions")
        ground.moves("closed_1000", 1)
        ground.moves("joins", 1)

"""A room with a crowd in it: everybody hears every comment once, in order, byte for byte."""

import asyncio

from battery import equal, main, sentence
from session import Session, fresh_room
from texts import NASTY

SUBSCRIBERS = 200
PUBLISHERS = 4
COMMENTS = 100


async def speak(author, who):
    """Publishes a share of the comments; each is like no other, so that nothing is folded away."""
    sent = {}
    for n in range(COMMENTS):
        # The start of a nasty text keeps every comment within its 100 characters.
        text = f"{who}/{n} {NASTY[(who + n) % len(NASTY)][:80]}"
        sent[await author.publish(text)] = text
    return sent


async def every_subscriber_hears_every_comment_once_and_in_order(server):
    room = fresh_room("crowd")
    opening = (
        Session.open(server, room, deflate=n % 2 == 1, query="&tier=full&snapshot=none")
        for n in range(SUBSCRIBERS)
    )
    subscribers = await asyncio.gather(*opening)
    authors = await asyncio.gather(*(Session.open(server, room) for _ in range(PUBLISHERS)))
    shares = await asyncio.gather(*(speak(author, who) for who, author in enumerate(authors)))
    sent = {seq: text for share in shares for seq, text in share.items()}
    equal(len(sent), PUBLISHERS * COMMENTS, "different sequences")
    last = max(sent)
    await asyncio.gather(*(subscriber.shown(last) for subscriber in subscribers))
    for number, subscriber in enumerate(subscribers):
        # Holes, doubles and disorder have been refused by the log of each subscriber on the way.
        heard = {seq: text.encode() for seq, text in subscriber.log.texts().items()}
        equal(heard == {seq: text.encode() for seq, text in sent.items()}, True, f"log of {number}")
        equal([kind for kind, _ in subscriber.messages if kind == "gap"], [], f"gaps of {number}")
    await asyncio.gather(*(session.close() for session in (*subscribers, *authors)))


CASES = [every_subscriber_hears_every_comment_once_and_in_order]

if __name__ == "__main__":
    main([(sentence(case), case) for case in CASES])

"""A session of the `websockets` library lives across two take-overs: the same socket, every comment once."""

import asyncio
import itertools

from battery import equal, main, sentence
from session import Session, fresh_room


async def publish_until(stop, session, sent):
    for n in itertools.count():
        if stop.is_set():
            return
        text = f"comment {n}"
        sent[await session.publish(text)] = text


async def sessions_stay_while_the_process_changes_twice(server):
    room = fresh_room("handover")
    listeners = [
        await Session.open(server, room, deflate=deflate, query="&tier=full&snapshot=none")
        for deflate in (False, True)
    ]
    author = await Session.open(server, room, query="&tier=full&snapshot=none")
    stop, sent = asyncio.Event(), {}
    publishing = asyncio.create_task(publish_until(stop, author, sent))
    for _ in range(2):
        await author.until(lambda: sent or publishing.done(), "first comment")
        await asyncio.to_thread(server.take_over)
        so_far = len(sent)
        await author.until(lambda: len(sent) > so_far + 2 or publishing.done(), "comment after it")
    stop.set()
    await publishing
    last = max(sent)
    for number, listener in enumerate((*listeners, author)):
        # Holes, doubles and disorder have been refused by the log on the way.
        await listener.shown(last)
        equal(listener.log.texts(), sent, f"log of {number}")
        kinds = [kind for kind, _ in listener.messages]
        equal(kinds.count("joined"), 1, f"joins of {number}")
        equal(kinds.count("epoch"), 2, f"changes of owner that {number} was told")
        equal([kind for kind in kinds if kind in ("gap", "reconnect")], [], f"what {number} lost")
    # A comment from before the first take-over is known after the second.
    first = min(sent)
    again = [body for kind, body in author.messages if kind == "ack" and body["seq"] == first]
    equal(await author.publish(sent[first], id=again[0]["id"]), first, "number of a comment sent again")
    for session in (*listeners, author):
        await session.close()


CASES = [sessions_stay_while_the_process_changes_twice]

if __name__ == "__main__":
    main([(sentence(case), case) for case in CASES])

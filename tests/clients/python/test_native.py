"""The native JSON protocol as Python's `websockets` sees it, without and with compression."""

import functools

from battery import equal, main, sentence
from session import JSON_SUBPROTOCOL, Session, fresh_room
from texts import NASTY

TEXT_CHARACTERS_MAX = 100


async def a_join_is_answered_with_the_room_and_a_snapshot(server, deflate):
    room = fresh_room("join")
    async with await Session.open(server, room, deflate=deflate) as viewer:
        equal(viewer.joined["room"], room, "room")
        equal(bool(viewer.joined["epoch"] and viewer.joined["you"]["id"]), True, "epoch and own id")
        _, snapshot = await viewer.next("snapshot")
        equal(snapshot["epoch"], viewer.joined["epoch"], "epoch of the snapshot")
        equal(snapshot.get("items", []), [], "entries of a new room")


async def subprotocol_and_compression_are_what_was_asked_for(server, deflate):
    async with await Session.open(server, fresh_room("offer"), deflate=deflate) as viewer:
        equal(viewer.socket.subprotocol, JSON_SUBPROTOCOL, "subprotocol")
        answer = viewer.socket.response.headers.get("Sec-WebSocket-Extensions", "")
        equal("permessage-deflate" in answer, deflate, f"compression in {answer!r}")
        if deflate:
            # One compressed frame goes to everybody, so that no frame may build on an earlier one.
            equal("server_no_context_takeover" in answer, True, f"no context takeover in {answer!r}")
    async with await Session.open(server, fresh_room("offer"), deflate=deflate, subprotocols=()) as viewer:
        equal(viewer.socket.subprotocol, None, "subprotocol that nobody offered")


async def a_comment_is_acknowledged_and_echoed_under_one_sequence(server, deflate):
    async with await Session.open(server, fresh_room("echo"), deflate=deflate) as author:
        seq = await author.publish("hello", mode="top", color=255, size=30)
        item = await author.shown(seq)
        equal(item["text"], "hello", "text")
        equal(item["user"]["id"], author.joined["you"]["id"], "author")
        equal((item["mode"], item["color"], item["size"]), ("top", 255, 30), "looks")
        equal(item["at"] > 1_600_000_000_000, True, "server time in milliseconds")


async def nasty_texts_reach_the_other_side_byte_for_byte(server, deflate):
    room = fresh_room("nasty")
    async with await Session.open(server, room, deflate=deflate, query="&tier=full") as viewer:
        async with await Session.open(server, room, deflate=deflate) as author:
            sent = {await author.publish(text): text for text in NASTY}
            await viewer.shown(max(sent))
            for seq, text in sent.items():
                equal(viewer.log.items[seq]["text"].encode(), text.encode(), f"text {seq}")


async def a_latecomer_finds_earlier_comments_in_the_snapshot(server, deflate):
    room = fresh_room("late")
    async with await Session.open(server, room, deflate=deflate) as author:
        sent = {await author.publish(f"early {n}"): f"early {n}" for n in range(5)}
        async with await Session.open(server, room, deflate=deflate) as latecomer:
            await latecomer.next("snapshot")
            equal(latecomer.log.texts(), sent, "snapshot")
            seq = await author.publish("live")
            equal((await latecomer.shown(seq))["text"], "live", "first live comment")
        async with await Session.open(server, room, deflate=deflate, query="&snapshot=none") as latecomer:
            await latecomer.heard_all()
            equal([kind for kind, _ in latecomer.messages if kind == "snapshot"], [], "unwanted snapshot")


async def a_resumed_session_has_neither_hole_nor_double(server, deflate):
    room = fresh_room("resume")
    async with await Session.open(server, room, deflate=deflate) as author:
        viewer = await Session.open(server, room, deflate=deflate)
        before = await author.publish("before")
        await viewer.shown(before)
        await viewer.close()
        since = (viewer.log.epoch, viewer.log.cursor)
        away = {await author.publish(f"away {n}"): f"away {n}" for n in range(5)}
        async with await Session.open(server, room, since=since, deflate=deflate) as back:
            equal(back.joined.get("recovered"), True, "recovered")
            live = await author.publish("live again")
            await back.shown(live)
            equal(back.log.texts(), {**away, live: "live again"}, "what was missed and what came after")
            equal([kind for kind, _ in back.messages if kind in ("snapshot", "gap")], [], "repairs")


async def a_resume_from_an_unknown_epoch_starts_over(server, deflate):
    room = fresh_room("unknown")
    async with await Session.open(server, room, deflate=deflate) as author:
        seq = await author.publish("here")
        async with await Session.open(server, room, since=("never-was", 1), deflate=deflate) as viewer:
            equal(viewer.joined.get("recovered", False), False, "recovered")
            await viewer.next("snapshot")
            equal(viewer.log.texts(), {seq: "here"}, "snapshot")


async def a_session_that_moves_hears_only_its_new_room(server, deflate):
    left, entered = fresh_room("left"), fresh_room("entered")
    async with await Session.open(server, left, deflate=deflate) as stays:
        async with await Session.open(server, entered, deflate=deflate) as waits:
            async with await Session.open(server, left, deflate=deflate) as moves:
                await moves.heard_all()
                start = len(moves.messages)
                await moves.command("join", {"room": entered})
                moved, joined = await moves.next("joined", after=start)
                equal(joined["room"], entered, "room")
                await moves.next("snapshot", after=moved)
                await stays.publish("in the room that was left")
                seq = await waits.publish("in the room that was entered")
                await moves.shown(seq)
                await moves.heard_all()
                equal(moves.log.texts(), {seq: "in the room that was entered"}, "comments heard")
                own = await moves.publish("from the one that moved")
                equal((await waits.shown(own))["text"], "from the one that moved", "comment in the new room")


async def a_ping_is_answered_at_both_layers(server, deflate):
    async with await Session.open(server, fresh_room("ping"), deflate=deflate) as viewer:
        await viewer.command("ping", {"t": 1234})
        _, pong = await viewer.next("pong")
        equal(pong["t"], 1234, "what the ping carried")
        await (await viewer.socket.ping(b"payload"))


async def refuse(server, deflate, command, body, code):
    """Sends a command and expects an error that leaves the connection open."""
    async with await Session.open(server, fresh_room("refuse"), deflate=deflate) as viewer:
        start = len(viewer.messages)
        await viewer.command(command, body)
        _, error = await viewer.next("error", after=start)
        equal(error["code"], code, "code")
        equal(error.get("id"), body.get("id"), "id of what was refused")
        await viewer.heard_all()


async def a_command_that_cannot_be_done_is_refused_by_name(server, deflate):
    for command, body, code in [
        ("dance", {"with": "me"}, "unknown_command"),
        ("react", {"kind": "like"}, "not_supported"),
        ("report", {"seq": 1, "reason": "spam"}, "bad_request"),
        ("send", {"id": "empty", "text": ""}, "text_empty"),
        ("send", {"id": "long", "text": "汉" * (TEXT_CHARACTERS_MAX + 1)}, "text_too_long"),
        ("send", {"id": "control", "text": "a\u0000b"}, "text_invalid"),
        ("join", {"room": "a.b"}, "room_invalid"),
    ]:
        await refuse(server, deflate, command, body, code)


async def a_repeated_id_gets_the_same_answer_and_one_entry(server, deflate):
    async with await Session.open(server, fresh_room("again"), deflate=deflate) as author:
        first = await author.publish("once", id="same")
        equal(await author.publish("once", id="same"), first, "sequence of the repetition")
        kind, body = await author.fate("same", "something else")
        equal((kind, body.get("code")), ("error", "id_reused"), "other text under the same id")
        last = await author.publish("after")
        await author.shown(last)
        equal(author.log.texts(), {first: "once", last: "after"}, "entries")


CASES = [
    a_join_is_answered_with_the_room_and_a_snapshot,
    subprotocol_and_compression_are_what_was_asked_for,
    a_comment_is_acknowledged_and_echoed_under_one_sequence,
    nasty_texts_reach_the_other_side_byte_for_byte,
    a_latecomer_finds_earlier_comments_in_the_snapshot,
    a_resumed_session_has_neither_hole_nor_double,
    a_resume_from_an_unknown_epoch_starts_over,
    a_session_that_moves_hears_only_its_new_room,
    a_ping_is_answered_at_both_layers,
    a_command_that_cannot_be_done_is_refused_by_name,
    a_repeated_id_gets_the_same_answer_and_one_entry,
]

if __name__ == "__main__":
    main(
        [
            (f"{sentence(case)} ({how})", functools.partial(case, deflate=deflate))
            for deflate, how in ((False, "plain"), (True, "deflate"))
            for case in CASES
        ]
    )

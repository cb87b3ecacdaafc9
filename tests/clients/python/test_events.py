"""Server-sent events, read as any HTTP client would, for networks that break WebSocket."""

import asyncio
import http.client
import json

from battery import equal, main, sentence
from session import RoomLog, Session, fresh_room
from texts import NASTY

WAIT_SECONDS_MAX = 30


class Events:
    """A stream of events; blocking, so that the library does the chunks."""

    def __init__(self, server, room, last_id=None):
        self.connection = http.client.HTTPConnection(server.host, server.port, timeout=WAIT_SECONDS_MAX)
        headers = {"Accept": "text/event-stream"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        self.connection.request("GET", f"/api/v1/rooms/{room}/events?tier=full", headers=headers)
        self.response = self.connection.getresponse()
        equal(self.response.status, 200, "status")
        equal(self.response.headers.get_content_type(), "text/event-stream", "type")
        epoch, _, seq = (last_id or "").rpartition(":")
        self.log = RoomLog(epoch or None, int(seq or 0))
        self.last_id = last_id
        self.joined = self._until(lambda: self.kind == "joined").body

    def _next(self):
        """Reads one event (WHATWG HTML section 9.2.6) into `kind` and `body`."""
        data = []
        while True:
            line = self.response.readline()
            if not line:
                raise ConnectionError("the stream ended")
            field, _, value = line.decode().rstrip("\r\n").partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                data.append(value)
            elif field == "id":
                self.last_id = value
            elif not field and not value and data:
                break
        message = json.loads("\n".join(data))
        ((self.kind, self.body),) = message.items()
        self.log.take(self.kind, self.body)

    def _until(self, condition):
        self._next()
        while not condition():
            self._next()
        return self

    def shown(self, seq):
        if self.log.cursor < seq:
            self._until(lambda: self.log.cursor >= seq)
        return self.log.items[seq]

    def close(self):
        self.response.close()
        self.connection.close()


async def events_carry_the_same_texts_as_a_socket(server):
    room = fresh_room("events")
    async with await Session.open(server, room) as author:
        events = await asyncio.to_thread(Events, server, room)
        sent = {await author.publish(text): text for text in NASTY}
        await asyncio.to_thread(events.shown, max(sent))
        equal(events.log.texts(), sent, "comments")
        equal(events.last_id, f"{events.log.epoch}:{events.log.cursor}", "id of the last event")
        events.close()


async def events_go_on_after_the_last_id(server):
    room = fresh_room("events")
    async with await Session.open(server, room) as author:
        events = await asyncio.to_thread(Events, server, room)
        first = await author.publish("before")
        await asyncio.to_thread(events.shown, first)
        events.close()
        away = {await author.publish(f"away {n}"): f"away {n}" for n in range(3)}
        again = await asyncio.to_thread(Events, server, room, events.last_id)
        equal(again.joined.get("recovered"), True, "recovered")
        live = await author.publish("live")
        await asyncio.to_thread(again.shown, live)
        equal(again.log.texts(), {**away, live: "live"}, "comments")
        again.close()


def post(server, room, comment, guest=None):
    """Sends a comment; status and body of the answer."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=WAIT_SECONDS_MAX)
    headers = {"Content-Type": "application/json"}
    if guest:
        headers["Authorization"] = f"Bearer {guest}"
    connection.request("POST", f"/api/v1/rooms/{room}/danmaku", json.dumps(comment), headers)
    response = connection.getresponse()
    body = json.loads(response.read())
    connection.close()
    return response.status, body


async def a_client_without_a_socket_is_a_whole_client(server):
    room = fresh_room("events")
    async with await Session.open(server, room) as other:
        events = await asyncio.to_thread(Events, server, room)
        you = events.joined["you"]
        sent = {}
        for n, text in enumerate(NASTY):
            comment = {"id": f"k-{n}", "text": text}
            status, body = await asyncio.to_thread(post, server, room, comment, you["guest"])
            while status == 429:
                await asyncio.sleep(body["retryAfterMs"] / 1000)
                status, body = await asyncio.to_thread(post, server, room, comment, you["guest"])
            equal((status, body["ack"]["id"]), (200, f"k-{n}"), "answer")
            again = await asyncio.to_thread(post, server, room, comment, you["guest"])
            equal(again, (status, body), "answer to the same once more")
            sent[body["ack"]["seq"]] = text
        # Its own comments come back to it under its own name, and to the others as anybody's.
        await asyncio.to_thread(events.shown, max(sent))
        equal(events.log.texts(), sent, "comments on the stream")
        equal({item["user"]["id"] for item in events.log.items.values()}, {you["id"]}, "authors")
        heard = await other.publish("heard")
        await asyncio.to_thread(events.shown, heard)
        await other.shown(max(sent))
        equal(other.log.texts(), {**sent, heard: "heard"}, "comments on the socket")
        events.close()
        again = await asyncio.to_thread(Events, server, room, events.last_id)
        equal(again.joined.get("recovered"), True, "recovered")
        again.close()


CASES = [events_carry_the_same_texts_as_a_socket, events_go_on_after_the_last_id]
CASES.append(a_client_without_a_socket_is_a_whole_client)

if __name__ == "__main__":
    main([(sentence(case), case) for case in CASES])

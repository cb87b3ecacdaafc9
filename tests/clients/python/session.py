"""A native JSON session over the `websockets` library, with a client's view of the room's log.

The log checks what every client may rely on: ranges follow each other without a hole, and no entry
comes twice.
"""

import asyncio
import itertools
import json

import websockets

WAIT_SECONDS_MAX = 30
JSON_SUBPROTOCOL = "danmaku.v1.json"
_rooms = itertools.count(1)


def fresh_room(name):
    """A room that no other case uses."""
    return f"{name}-{next(_rooms)}"


class RoomLog:
    """What a client knows of a room: its position and the entries it was shown."""

    def __init__(self, epoch=None, cursor=0):
        self.epoch = epoch
        self.cursor = cursor
        self.items = {}

    def take(self, kind, body):
        if kind == "joined":
            self.epoch = body["epoch"]
            if not body.get("recovered"):
                self.cursor = body.get("seq", 0)
        elif kind == "snapshot":
            self.epoch, self.cursor = body["epoch"], body.get("seq", 0)
            self._add(body.get("items", []), 1, self.cursor)
        elif kind == "epoch":
            self.epoch, self.cursor = body["epoch"], body.get("seq", 0)
        elif kind == "gap":
            self.cursor = body["to"]
        elif kind == "batch":
            self._take_batch(body)

    def _take_batch(self, body):
        first, last = body["from"], body["to"]
        # A range that is known already carries what only its author sees.
        if last > self.cursor:
            if first != self.cursor + 1:
                raise AssertionError(f"range {first}..{last} after {self.cursor}")
            self.cursor = last
        self._add(body.get("items", []), first, last)

    def _add(self, items, first, last):
        previous = 0
        for item in items:
            seq = item["seq"]
            if not first <= seq <= last:
                raise AssertionError(f"entry {seq} outside {first}..{last}")
            if seq in self.items:
                raise AssertionError(f"entry {seq} came twice")
            if seq < previous:
                raise AssertionError(f"entry {seq} after {previous}")
            previous = seq
            self.items[seq] = item

    def texts(self):
        """Texts of comments by sequence."""
        return {seq: item["text"] for seq, item in sorted(self.items.items()) if "type" not in item}


class Session:
    """One connection; `messages` holds everything received, in order, as (kind, body)."""

    @classmethod
    async def open(cls, server, room, *, since=None, deflate=False, query="", subprotocols=(JSON_SUBPROTOCOL,), tls=False, **more):
        session = cls()
        at = f"wss://{server.host}:{server.tls_port}" if tls else f"ws://{server.host}:{server.port}"
        url = f"{at}/ws?room={room}{query}"
        if since:
            url += f"&since={since[0]}:{since[1]}"
        session.log = RoomLog(*(since or (None, 0)))
        session.messages = []
        session.changed = asyncio.Condition()
        session.broken = None
        session.ids = itertools.count(1)
        session.socket = await websockets.connect(
            url,
            subprotocols=list(subprotocols) or None,
            compression="deflate" if deflate else None,
            open_timeout=WAIT_SECONDS_MAX,
            proxy=None,
            **more,
        )
        session.reader = asyncio.create_task(session._read())
        _, session.joined = await session.next("joined")
        return session

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def close(self):
        await self.socket.close()
        await self.reader

    async def _read(self):
        try:
            async for text in self.socket:
                message = json.loads(text)
                if not isinstance(text, str) or len(message) != 1:
                    raise AssertionError(f"not one text message of one key: {text!r}")
                ((kind, body),) = message.items()
                self.log.take(kind, body)
                await self._note((kind, body))
            self.broken = self.broken or ConnectionError(f"closed with {self.socket.close_code}")
        except Exception as error:  # noqa: BLE001 - whoever waits is told what went wrong
            self.broken = error
        async with self.changed:
            self.changed.notify_all()

    async def _note(self, message):
        async with self.changed:
            self.messages.append(message)
            self.changed.notify_all()

    async def until(self, condition, what):
        """Waits until `condition()` gives something true, and gives that."""

        def done():
            return condition() or self.broken

        async with self.changed:
            try:
                async with asyncio.timeout(WAIT_SECONDS_MAX):
                    await self.changed.wait_for(done)
            except TimeoutError:
                raise AssertionError(f"no {what} within {WAIT_SECONDS_MAX} s") from None
        found = condition()
        if not found:
            raise self.broken
        return found

    async def next(self, kind, after=0, where=lambda body: True):
        """The first message of a kind, from index `after` on: (index of the one behind it, body)."""

        def find():
            for index, (name, body) in enumerate(self.messages[after:], after):
                if name == kind and where(body):
                    return index + 1, body
            return None

        return await self.until(find, kind)

    async def command(self, name, body):
        await self.socket.send(json.dumps({name: body}, ensure_ascii=False))

    async def fate(self, id, text, **more):
        """Publishes once and gives the answer: ("ack", body) or ("error", body)."""
        start = len(self.messages)

        def answer():
            answers = (m for m in self.messages[start:] if m[0] in ("ack", "error") and m[1].get("id") == id)
            return next(answers, None)

        await self.command("send", {"id": id, "text": text, **more})
        return await self.until(answer, f"fate of {id}")

    async def publish(self, text, id=None, **more):
        """Publishes until accepted, waiting as long as the server asks; gives the sequence."""
        id = id or f"p-{next(self.ids)}"
        while True:
            kind, body = await self.fate(id, text, **more)
            if kind == "ack":
                return body["seq"]
            if not body.get("retryAfterMs"):
                raise AssertionError(f"publish refused: {body}")
            await asyncio.sleep(body["retryAfterMs"] / 1000)

    async def shown(self, seq):
        """Waits until the log reaches a sequence; gives the entry, or None where it was not for us."""
        await self.until(lambda: self.log.cursor >= seq, f"entry {seq}")
        return self.log.items.get(seq)

    async def heard_all(self):
        """Waits until everything that the server had sent before is here."""
        start = len(self.messages)
        mark = 10_000 + start
        await self.command("ping", {"t": mark})
        return await self.next("pong", after=start, where=lambda body: body.get("t") == mark)

"""One scenario on its stage: a scripted server, a driver, and what each of them said.

In come steps, one after the other; a step that is not fulfilled raises a Failure. Everything waits for
something to happen and for 30 s at most; nothing sleeps.
"""

import asyncio
import collections
import json
import time
import urllib.parse

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from matching import complete, filled, mismatch

# A busy machine may take long to start a driver.
WAIT_SECONDS_MAX = 30
NOTES_MAX = 400
NOTE_CHARS_MAX = 500
# Timers of platforms may run this much early.
EARLY_MS_MAX = 2
SUBPROTOCOL = "danmaku.v1.json"
# What these tell must come exactly as expected, in one order.
SHOWN = ("reset", "item", "remove", "gap")
FATES = ("ack", "refused")
# What `opened` plays.
EPOCH, SEQ = "7-k2", 41
YOU = {"id": "u1", "name": "Ann"}


class Failure(Exception):
    """The client did not do what a step expects."""


class Arrival:
    """A connection: first its handshake, which waits for a step to answer it, then its messages."""

    def __init__(self, request):
        address = urllib.parse.urlsplit(request.path)
        self.path = address.path
        self.query = dict(urllib.parse.parse_qsl(address.query, keep_blank_values=True))
        offered = request.headers.get_all("Sec-WebSocket-Protocol")
        self.subprotocols = [name.strip() for line in offered for name in line.split(",")]
        self.at = time.monotonic()
        self.answer = asyncio.get_running_loop().create_future()
        self.opened = asyncio.get_running_loop().create_future()
        self.messages = collections.deque()
        self.code = None


class Stage:
    """The server, the driver and the present connection of one scenario."""

    def __init__(self, driver, variables):
        self.driver = driver
        self.variables = dict(variables)
        self.notes = collections.deque(maxlen=NOTES_MAX)
        self.arrivals = collections.deque()
        self.events = []
        self.news = asyncio.Condition()
        self.present = None
        self.sent_at = 0.0
        self.tags = 0
        self.tasks = []

    async def __aenter__(self):
        self.server = await serve(
            self.hold_connection,
            "127.0.0.1",
            0,
            process_request=self.answer_handshake,
            select_subprotocol=lambda _, offered: SUBPROTOCOL if SUBPROTOCOL in offered else None,
            ping_interval=None,
            close_timeout=1,
        )
        port = self.server.sockets[0].getsockname()[1]
        self.variables["URL"] = f"ws://127.0.0.1:{port}/ws"
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*self.driver, stdin=pipe, stdout=pipe, stderr=pipe)
        self.tasks = [asyncio.create_task(self.read_events()), asyncio.create_task(self.read_complaints())]
        return self

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        for arrival in self.arrivals:
            arrival.answer.cancel()
        self.server.close(close_connections=True)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    # ---- What happens by itself

    def note(self, line):
        self.notes.append(line if len(line) <= NOTE_CHARS_MAX else f"{line[:NOTE_CHARS_MAX]}…")

    async def announce(self):
        async with self.news:
            self.news.notify_all()

    async def answer_handshake(self, connection, request):
        arrival = connection.arrival = Arrival(request)
        self.note(f"client connects to {request.path} with {arrival.subprotocols}")
        self.arrivals.append(arrival)
        await self.announce()
        status = await arrival.answer
        return connection.respond(status, "refused by the scenario\n") if status else None

    async def hold_connection(self, connection):
        arrival = connection.arrival
        arrival.opened.set_result(connection)
        try:
            async for text in connection:
                self.note(f"client says {text}")
                message = json.loads(text)
                if "ping" in message:
                    await connection.send(json.dumps({"pong": message["ping"]}))
                else:
                    arrival.messages.append(message)
                    await self.announce()
        except ConnectionClosed:
            pass
        except (ValueError, TypeError) as error:
            arrival.messages.append({"not JSON": str(error)})
        arrival.code = connection.close_code or 1006
        self.note(f"connection ends with {arrival.code}")
        await self.announce()

    async def read_events(self):
        while line := await self.process.stdout.readline():
            text = line.decode("utf-8").strip()
            self.note(f"driver says {text}")
            try:
                event = complete(json.loads(text))
            except ValueError:
                event = {"event": f"a line that is not JSON: {text}"}
            self.events.append(event)
            await self.announce()
        await self.announce()

    async def read_complaints(self):
        while line := await self.process.stderr.readline():
            self.note(f"driver complains: {line.decode('utf-8', 'replace').rstrip()}")

    # ---- Waiting

    async def until(self, find, what):
        """Waits until `find` gives something true, and gives that."""

        async def wait():
            async with self.news:
                while not (found := find()):
                    if self.process.returncode is not None and self.process.stdout.at_eof():
                        code = self.process.returncode
                        raise Failure(f"the driver ended with {code} while the script waits for {what}")
                    await self.news.wait()
                return found

        try:
            return await asyncio.wait_for(wait(), WAIT_SECONDS_MAX)
        except asyncio.TimeoutError:
            raise Failure(f"within {WAIT_SECONDS_MAX} s there was no {what}") from None

    # ---- Steps

    async def play(self, step):
        [(name, body)] = ((key, value) for key, value in step.items())
        act = getattr(self, f"step_{name}", None)
        if act is None:
            raise Failure(f"the scenario has a step {name!r} that this script does not know")
        await act(body)

    async def step_driver(self, command):
        line = json.dumps(filled(command, self.variables), ensure_ascii=False)
        self.process.stdin.write(f"{line}\n".encode())
        await self.process.stdin.drain()

    async def next_arrival(self):
        await self.until(lambda: self.arrivals, "connection")
        return self.arrivals.popleft()

    async def step_refuse(self, status):
        (await self.next_arrival()).answer.set_result(status)

    async def step_accept(self, wanted):
        arrival = await self.next_arrival()
        early = self.sent_at + wanted.get("after_ms", 0) / 1000 - arrival.at
        if early * 1000 > EARLY_MS_MAX:
            raise Failure(f"the connection came {early * 1000:.0f} ms too early")
        query = filled(wanted.get("query", {}), self.variables)
        what = mismatch(query, arrival.query, self.variables, "query") or mismatch(
            filled(wanted.get("path", "/ws"), self.variables), arrival.path, self.variables, "path"
        )
        for name in wanted.get("absent", []):
            what = what or (name in arrival.query and f"the query holds {name!r}")
        for name in [SUBPROTOCOL, *wanted.get("subprotocols", [])]:
            what = what or (name not in arrival.subprotocols and f"subprotocol {name} is not offered")
        for start in wanted.get("no_subprotocols", []):
            what = what or next((f"{n} is offered" for n in arrival.subprotocols if n.startswith(start)), None)
        if what:
            raise Failure(what)
        arrival.answer.set_result(None)
        self.connection = await asyncio.wait_for(arrival.opened, WAIT_SECONDS_MAX)
        self.present = arrival

    async def step_client(self, wanted):
        present = self.present
        await self.until(lambda: present.messages or present.code, f"message {json.dumps(wanted)} of the client")
        if not present.messages:
            raise Failure(f"the connection ended with {present.code} while the script waits for {json.dumps(wanted)}")
        what = mismatch(wanted, present.messages.popleft(), self.variables, "the client's message")
        if what:
            raise Failure(what)

    async def step_server(self, message):
        await self.step_raw(json.dumps(filled(message, self.variables), ensure_ascii=False))

    async def step_raw(self, text):
        self.note(f"server says {text}")
        # Before it is on its way, so that nothing that follows can be earlier.
        self.sent_at = time.monotonic()
        try:
            await self.connection.send(text)
        except ConnectionClosed:
            raise Failure("the connection ended before the server could speak") from None

    async def step_close(self, how):
        how = filled(how, self.variables)
        how = how if isinstance(how, dict) else {"code": how}
        await self.connection.close(how["code"], how.get("reason", ""))

    async def step_drop(self, _):
        self.connection.transport.abort()
        await self.step_closed(True)

    async def step_closed(self, wanted):
        present = self.present
        await self.until(lambda: present.code, "end of the connection")
        if isinstance(wanted, dict) and present.code != wanted["code"]:
            raise Failure(f"the client closed with {present.code}: it should be {wanted['code']}")

    async def step_event(self, wanted):
        wanted = complete(wanted)
        kind = wanted["event"]
        what = f"event {json.dumps(wanted, ensure_ascii=False)}"
        if kind in SHOWN:
            event = await self.until(lambda: self.first(lambda e: e["event"] in SHOWN), what)
        elif kind in FATES:
            is_fate = lambda e: e["event"] in FATES and e.get("tag") == wanted["tag"]
            event = await self.until(lambda: self.first(is_fate), what)
        else:
            fits = lambda e: e["event"] == kind and not mismatch(wanted, e, dict(self.variables))
            too_late = lambda e: kind == "state" and e["event"] == "state" and e.get("state") == "closed"
            event = await self.until(lambda: self.first(fits) or self.first(too_late), what)
        at = self.events.index(event)
        del self.events[at]
        if kind == "state":
            self.events[:at] = [passed for passed in self.events[:at] if passed["event"] != "state"]
        difference = mismatch(wanted, event, self.variables, "the event")
        if difference:
            raise Failure(f"{difference}; the event is {json.dumps(event, ensure_ascii=False)}")

    def first(self, fits):
        return next((event for event in self.events if fits(event)), None)

    async def ask(self, command, answer):
        """A command that the driver answers by an event with the same tag."""
        self.tags += 1
        tag = f"asked-{self.tags}"
        await self.step_driver({command: {"tag": tag}})
        event = await self.until(lambda: self.first(lambda e: e["event"] == answer and e.get("tag") == tag), answer)
        self.events.remove(event)
        return event

    async def step_position(self, wanted):
        # What the server has said is taken in by then.
        await self.ask("ping", "pong")
        event = await self.ask("position", "position")
        what = mismatch(wanted, event.get("position"), self.variables, "the position")
        if what:
            raise Failure(what)

    async def step_settled(self, _):
        await self.ask("ping", "pong")
        if self.present.messages:
            raise Failure(f"the client said what no step expects: {self.present.messages[0]}")
        self.check_nothing_more()

    def check_nothing_more(self):
        extra = self.first(lambda e: e["event"] in SHOWN + FATES or e["event"].startswith("a line"))
        if extra:
            raise Failure(f"the client told what no step expects: {json.dumps(extra, ensure_ascii=False)}")
        if self.arrivals:
            raise Failure("the client connected once more than any step expects")

    async def step_end(self, _):
        await self.ask("position", "position")
        if self.present and self.present.messages:
            raise Failure(f"the client said what no step expects: {self.present.messages[0]}")
        self.check_nothing_more()
        self.process.stdin.close()
        try:
            code = await asyncio.wait_for(self.process.wait(), WAIT_SECONDS_MAX)
        except asyncio.TimeoutError:
            raise Failure("the driver did not end when its input did") from None
        if code:
            raise Failure(f"the driver ended with {code}")
        if self.arrivals:
            raise Failure("the client connected once more than any step expects")

    async def step_opened(self, options):
        """The usual beginning: connected, joined, one comment in the snapshot."""
        connect = {"url": "$URL", "room": "r1", "backoffBaseMs": 1, "backoffCapMs": 5, **options}
        joined = {"room": connect["room"], "epoch": EPOCH, "seq": SEQ, "online": 2, "you": YOU}
        item = {"seq": SEQ, "user": {"id": "u2"}, "text": "before", "at": 1700000000000}
        for step in (
            {"driver": {"connect": connect}},
            {"accept": {"query": {"room": connect["room"]}, "absent": ["since"]}},
            {"server": {"joined": joined}},
            {"server": {"snapshot": {"epoch": EPOCH, "seq": SEQ, "items": [item], "room": {"online": 2}}}},
            {"event": {"event": "state", "state": "open"}},
            {"event": {"event": "reset", "reason": "snapshot"}},
            {"event": {"event": "item", "item": item, "source": "snapshot", "own": False, "epoch": EPOCH}},
        ):
            await self.play(step)

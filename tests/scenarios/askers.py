"""Who asks over HTTP at a steady rate, on connections that are kept or made anew: every answer is judged.

In come an address, rooms and a rate; out go how many were answered as they should be, and what went wrong.
"""

import asyncio
import json

ANSWER_SECONDS_MAX = 20


class Connection:
    """One connection to ask on."""

    @classmethod
    async def open(cls, address):
        connection = cls()
        connection.reader, connection.writer = await asyncio.open_connection(*address)
        return connection

    async def ask(self, method, path, host, body=None):
        """Status, body, and whether another request may follow."""
        head = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        self.writer.write("\r\n".join([*head, "", body or ""]).encode())
        block = await self.reader.readuntil(b"\r\n\r\n")
        first, *rest = block.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in rest if line)
        content = await self.reader.readexactly(int(fields.get("content-length", 0)))
        return int(first.split(" ")[1]), content, fields.get("connection") != "close"

    def close(self):
        self.writer.close()


class Askers:
    """All of them: half keep their connections; one request in ten is a comment."""

    def __init__(self, address, rooms, per_second, tasks=20):
        self.address, self.rooms = address, rooms
        self.host = f"{address[0]}:{address[1]}"
        self.every, self.count = tasks / per_second, tasks
        self.answered, self.longest, self.wrong = 0, 0.0, []

    def start(self, group, stop):
        for number in range(self.count):
            group.create_task(self.run(number, stop))

    async def run(self, number, stop):
        loop, connection, n = asyncio.get_running_loop(), None, 0
        due = loop.time() + self.every * number / self.count
        while not stop.is_set():
            await asyncio.sleep(due - loop.time())
            due += self.every
            n += 1
            try:
                began = loop.time()
                async with asyncio.timeout(ANSWER_SECONDS_MAX):
                    connection = connection or await Connection.open(self.address)
                    again = await self.ask(connection, f"{number}-{n}", n)
                self.longest = max(self.longest, loop.time() - began)
            except (OSError, EOFError, TimeoutError, AssertionError) as error:
                self.wrong.append(f"request {n} of asker {number}: {type(error).__name__}: {error}")
                again = False
            if connection and not (again and number % 2):
                connection.close()
                connection = None
        if connection:
            connection.close()

    async def ask(self, connection, id, n):
        room = self.rooms[n % len(self.rooms)]
        if n % 10 == 0:
            text = f"over HTTP {id}"
            status, body, again = await connection.ask(
                "POST", f"/api/v1/rooms/{room.name}/danmaku", self.host, json.dumps({"id": id, "text": text})
            )
            if status != 200:
                raise AssertionError(f"a comment was answered {status}: {body[:200]!r}")
            room.ack(json.loads(body)["ack"]["seq"], text)
        else:
            path, wanted = (f"/route?room={room.name}", 307) if n % 2 else ("/app.css", 200)
            status, _, again = await connection.ask("GET", path, self.host)
            if status != wanted:
                raise AssertionError(f"{path} was answered {status}")
        self.answered += 1
        return again

"""The client of the documentation, written from the protocol's page alone, in the hands of a user whose
network breaks and whose server restarts."""

import asyncio
import json
import pathlib
import sys

import websockets

from battery import equal, main, sentence
from session import WAIT_SECONDS_MAX, fresh_room

CLIENT = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python" / "client.py"
LINES_MAX = 60


class Relay:
    """A way to the server that can be cut: connections end, and new ones are let in again."""

    def __init__(self, server):
        self.server, self.open = server, set()

    async def __aenter__(self):
        self.listener = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self.listener.sockets[0].getsockname()[1]
        return self

    async def _carry(self, reader, writer):
        far_reader, far_writer = await asyncio.open_connection(self.server.host, self.server.port)
        self.open |= {writer, far_writer}

        async def copy(source, sink):
            try:
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            except OSError:
                pass
            sink.close()

        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        self.open -= {writer, far_writer}

    def cut(self):
        for writer in list(self.open):
            writer.transport.abort()

    async def __aexit__(self, *_):
        self.listener.close()
        self.cut()


class Typist:
    """The client as a process: lines in, lines out."""

    def __init__(self, port, room):
        self.arguments = [sys.executable, str(CLIENT), f"ws://127.0.0.1:{port}/ws", room]

    async def __aenter__(self):
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*self.arguments, stdin=pipe, stdout=pipe)
        return self

    async def types(self, text):
        self.process.stdin.write(f"{text}\n".encode())
        await self.process.stdin.drain()

    async def reads(self):
        """The text of the next line that it prints."""
        line = await asyncio.wait_for(self.process.stdout.readline(), WAIT_SECONDS_MAX)
        return line.decode().rstrip("\n").split(": ", 1)[-1]

    async def __aexit__(self, *_):
        self.process.kill()
        await self.process.wait()


async def publish(server, room, texts):
    """Somebody else's comments, each acknowledged before the next."""
    async with websockets.connect(f"ws://{server.host}:{server.port}/ws?room={room}&snapshot=none") as socket:
        for number, text in enumerate(texts):
            await socket.send(json.dumps({"send": {"id": f"{text}-{number}", "text": text}}))
            while "ack" not in json.loads(await asyncio.wait_for(socket.recv(), WAIT_SECONDS_MAX)):
                pass


async def the_documented_client_shows_and_sends(server):
    room = fresh_room("example")
    await publish(server, room, ["before"])
    async with Typist(server.port, room) as typist:
        equal(await typist.reads(), "before", "the snapshot")
        await typist.types("hello 弹幕 🎉")
        equal(await typist.reads(), "hello 弹幕 🎉", "its own comment")
        await publish(server, room, ["after"])
        equal(await typist.reads(), "after")
        await typist.types("x" * 500)
        assert (await typist.reads()).startswith("The text is over"), "a refusal is told"


async def a_cut_connection_leaves_neither_hole_nor_double(server):
    room = fresh_room("example-cut")
    async with Relay(server) as relay, Typist(relay.port, room) as typist:
        await typist.types("one")
        equal(await typist.reads(), "one")
        for round in range(3):
            relay.cut()
            texts = [f"missed {round}.{n}" for n in range(5)]
            await publish(server, room, texts)
            # Typed while nothing may be connected: it is sent until it is answered.
            await typist.types(f"typed {round}")
            shown = [await typist.reads() for _ in range(6)]
            equal(sorted(shown), sorted([*texts, f"typed {round}"]), f"round {round}")
            equal([text for text in shown if text in texts], texts, f"the order of round {round}")


async def it_is_as_short_as_the_documentation_says(server):
    lines = CLIENT.read_text().splitlines()
    assert len(lines) < LINES_MAX, f"{len(lines)} lines"
    assert all(len(line) <= 120 for line in lines)


if __name__ == "__main__":
    CASES = [the_documented_client_shows_and_sends, a_cut_connection_leaves_neither_hole_nor_double]
    CASES.append(it_is_as_short_as_the_documentation_says)
    main([(sentence(case), case) for case in CASES])

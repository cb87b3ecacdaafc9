"""The server behind nginx and behind HAProxy, each with the file of deploy/, as `websockets` and plain HTTP see it.

`--proxy` says which, `--program` where it is. Callers have addresses of their own on loopback: 127.0.0.2, 127.0.0.3 and so on.
"""

import argparse
import asyncio
import http.client
import json
import os
import sys

import websockets

from battery import equal, run, sentence
from proxy import WAIT_SECONDS_MAX, Proxy
from server import Server
from session import JSON_SUBPROTOCOL, Session, fresh_room

CONNECTIONS_MAX = 2
SETTINGS = {
    "DANMAKU__SERVER__TRUSTED_PROXIES": '["127.0.0.1"]',
    "DANMAKU__CONNECTIONS__PER_IPV4": str(CONNECTIONS_MAX),
}
LIES = {
    "X-Forwarded-For": {"X-Forwarded-For": "203.0.113.9"},
    "Forwarded": {"Forwarded": "for=203.0.113.9"},
    "both": {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"},
    "X-Real-IP": {"X-Real-IP": "203.0.113.9"},
    "a quote": {"X-Forwarded-For": '"', "Forwarded": 'for="'},
}


async def refused(proxy, source, headers=None, query=""):
    """The status with which a handshake from an address is refused; none where it is not."""
    try:
        async with websockets.connect(
            f"ws://{proxy.host}:{proxy.port}/ws?room=refused{query}",
            subprotocols=[JSON_SUBPROTOCOL], local_addr=(source, 0), additional_headers=headers or {},
            open_timeout=WAIT_SECONDS_MAX, proxy=None,
        ):
            return None
    except websockets.InvalidStatus as answer:
        return answer.response.status_code


async def everybody_is_gone(proxy):
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while proxy.server.metric("danmaku_connections"):
            await asyncio.sleep(0.05)


async def a_client_joins_sends_and_hears(proxy):
    for deflate in (False, True):
        room = fresh_room("proxy")
        async with await Session.open(proxy, room, deflate=deflate, local_addr=("127.0.0.2", 0)) as viewer:
            async with await Session.open(proxy, room, deflate=deflate, local_addr=("127.0.0.3", 0)) as author:
                seq = await author.publish("through it 弹幕")
                equal((await viewer.shown(seq))["text"], "through it 弹幕", "text")
    await everybody_is_gone(proxy)


async def events_come_as_they_happen(proxy):
    room = fresh_room("events")
    connection = http.client.HTTPConnection(
        proxy.host, proxy.port, timeout=WAIT_SECONDS_MAX, source_address=("127.0.0.2", 0)
    )
    connection.request("GET", f"/api/v1/rooms/{room}/events", headers={"Accept": "text/event-stream"})
    response = connection.getresponse()
    equal(response.status, 200, "status")

    def data_with(word):
        while True:
            line = response.readline().decode()
            if not line:
                raise ConnectionError("the stream ended")
            if line.startswith("data:") and word in line:
                return line

    await asyncio.to_thread(data_with, '"room"')
    async with await Session.open(proxy, room, local_addr=("127.0.0.3", 0)) as author:
        await author.publish("at once")
        await asyncio.to_thread(data_with, "at once")
    response.close()
    connection.close()
    await everybody_is_gone(proxy)


async def a_comment_goes_over_http(proxy):
    room = fresh_room("post")
    async with await Session.open(proxy, room, local_addr=("127.0.0.2", 0)) as viewer:
        connection = http.client.HTTPConnection(
            proxy.host, proxy.port, timeout=WAIT_SECONDS_MAX, source_address=("127.0.0.3", 0)
        )
        body = json.dumps({"id": "a", "text": "posted"})
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"/api/v1/rooms/{room}/danmaku", body=body, headers=headers)
        answer = connection.getresponse()
        equal(answer.status, 200, "status")
        seq = json.loads(answer.read())["ack"]["seq"]
        equal((await viewer.shown(seq))["text"], "posted", "text")
        connection.close()
    await everybody_is_gone(proxy)


async def each_address_has_its_own_limit_and_lies_do_not_help(proxy):
    held = [await Session.open(proxy, fresh_room("held"), local_addr=("127.0.0.2", 0)) for _ in range(CONNECTIONS_MAX)]
    equal(await refused(proxy, "127.0.0.2"), 429, "one too many")
    equal(await refused(proxy, "127.0.0.3"), None, "a neighbour")
    for name, headers in LIES.items():
        equal(await refused(proxy, "127.0.0.2", headers), 429, f"one too many with {name}")
    # Whoever claims to be another takes nothing from that one.
    held += [
        await Session.open(
            proxy, fresh_room("liar"), local_addr=("127.0.0.4", 0),
            additional_headers={"X-Forwarded-For": "127.0.0.3"},
        )
        for _ in range(CONNECTIONS_MAX)
    ]
    equal(await refused(proxy, "127.0.0.4"), 429, "the liar's own limit")
    equal(await refused(proxy, "127.0.0.3"), None, "the one that was named")
    for session in held:
        await session.close()
    await everybody_is_gone(proxy)
    equal(await refused(proxy, "127.0.0.2"), None, "after all have gone")


async def nobody_is_local_through_a_proxy(proxy):
    for source in ("127.0.0.1", "127.0.0.2"):
        equal(await refused(proxy, source, query="&tier=full"), 403, f"the full stream from {source}")


async def connections_to_the_server_are_kept(proxy):
    before = proxy.server.metric("danmaku_connections_accepted_total")
    for _ in range(20):
        equal(proxy.get("/app.css")[0], 200, "status")
    equal(proxy.server.metric("danmaku_connections_accepted_total") - before <= 2, True, "kept connections")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, help="path of the danmaku binary")
    parser.add_argument("--proxy", required=True, choices=["nginx", "haproxy"])
    parser.add_argument("--program", required=True, help="path of the proxy")
    arguments = parser.parse_args()
    cases = [
        a_client_joins_sends_and_hears,
        events_come_as_they_happen,
        a_comment_goes_over_http,
        each_address_has_its_own_limit_and_lies_do_not_help,
        nobody_is_local_through_a_proxy,
    ]
    if arguments.proxy == "nginx":
        cases.append(connections_to_the_server_are_kept)
    else:
        SETTINGS["DANMAKU__SERVER__PROXY_PROTOCOL"] = "required"
    os.environ.update(SETTINGS)
    with Server(arguments.server) as server, Proxy(arguments.proxy, arguments.program, server) as proxy:
        failed = asyncio.run(run([(sentence(case), case) for case in cases], proxy))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

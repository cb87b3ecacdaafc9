"""Prints a room's comments, sends what is typed: python client.py ws://127.0.0.1:8080/ws lobby"""
import asyncio, contextlib, itertools, json, random, secrets, sys, websockets

url, room = sys.argv[1:3]
socket, guest, epoch, cursor = None, None, None, 0  # the position (epoch, cursor) is how far we have been told
unanswered = {}                        # what we sent and whose fate we do not know yet, by id
prefix, counter = secrets.token_hex(4), itertools.count()

def show(items, after):
    for item in items:
        if item["seq"] > after and "type" not in item:
            print(f'{item["user"].get("name") or item["user"]["id"]}: {item["text"]}', flush=True)

def take(kind, body):
    """One message of the server. False if something is missing that nobody told us of."""
    global guest, epoch, cursor
    if kind == "joined":
        guest = body["you"].get("guest", guest)  # shown next time: else what we send again is somebody else's
        epoch, cursor = (epoch, cursor) if body.get("recovered") or body["epoch"] == epoch else (body["epoch"], 0)
    elif kind in ("snapshot", "epoch"):
        show(body.get("items", []), cursor)
        epoch, cursor = body["epoch"], body["seq"]
    elif kind == "batch":
        if body["from"] > cursor + 1:
            return False
        show(body["items"], cursor)
        cursor = max(cursor, body["to"])
    elif kind == "gap":
        cursor = body["to"]
    elif kind in ("ack", "error") and unanswered.pop(body.get("id"), None) and kind == "error":
        print(f'-- not sent: {body["message"]}', flush=True)
    return True

async def publish(id):
    with contextlib.suppress(websockets.ConnectionClosed, AttributeError):
        await socket.send(json.dumps({"send": {"id": id, "text": unanswered[id]}}))

async def type_and_send():
    while line := await asyncio.to_thread(sys.stdin.readline):
        unanswered[id := f"{prefix}-{next(counter)}"] = line.strip()
        await publish(id)

async def main():
    global socket
    typing, delay = asyncio.ensure_future(type_and_send()), 0.5
    while True:
        since = f"&since={epoch}:{cursor}" if epoch else ""
        shown = {"Authorization": f"Bearer {guest}"} if guest else {}
        with contextlib.suppress(OSError, websockets.WebSocketException):
            async with websockets.connect(f"{url}?room={room}{since}", additional_headers=shown) as socket:
                for id in list(unanswered):  # the same id and text: it appears once however often it is sent
                    await publish(id)
                async for message in socket:
                    delay = 0.5
                    if not all(take(kind, body) for kind, body in json.loads(message).items()):
                        break
        await asyncio.sleep(random.uniform(0, delay := min(30, 2 * delay)))  # jitter: not everybody comes at once

asyncio.run(main())

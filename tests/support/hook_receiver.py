"""A receiver of docs/webhook.md for the tests of the server: it does what the text says.

Prints its port, then a line of JSON for every post. Whatever is not signed as the document says gets 403. Ends when stdin does.
"""

import hashlib
import hmac
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = b"0123456789abcdef0123456789abcdef"
SAYS = threading.Lock()


def verdict(text):
    if "refuse" in text:
        return {"verdict": "drop", "reason": "no"}
    if "review" in text:
        return {"verdict": "hold"}
    if "cover" in text:
        return {"verdict": "mask"}
    if "change" in text:
        return {"verdict": "replace", "text": text.replace("change ", "")}
    if "nonsense" in text:
        return {"verdict": "perhaps"}
    return {"verdict": "pass"}


def answer(question):
    return {"id": question["id"], **verdict(question["text"])}


def slowness(question):
    texts = [one["text"] for one in question.get("questions", [question]) if "text" in one]
    return max([float(word[4:]) for text in texts for word in text.split() if word.startswith("slow")] or [0])


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def is_signed(self, body):
        stamp = self.headers.get("x-danmaku-timestamp", "")
        if not stamp.isdigit() or abs(time.time() - int(stamp)) > 60:
            return False
        signed = b"\n".join([self.command.encode(), self.path.encode(), stamp.encode(), body])
        expected = "v1=" + hmac.new(SECRET, signed, hashlib.sha256).hexdigest()
        return hmac.compare_digest(expected, self.headers.get("x-danmaku-signature", ""))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if not self.is_signed(body):
            self.send_response(403)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        question = json.loads(body)
        with SAYS:
            print(json.dumps(question), flush=True)
        time.sleep(slowness(question))
        if question["type"] == "messages":
            reply = {"answers": [answer(one) for one in question["questions"]]}
        elif question["type"] == "message":
            reply = answer(question)
        elif "x-stay-out" in question["headers"]:
            reply = {"verdict": "deny"}
        elif "x-user" in question["headers"]:
            name = question["headers"]["x-user"]
            reply = {"verdict": "allow", "claims": {"sub": name, "role": "vip"}}
        else:
            reply = {"verdict": "allow"}
        reply = json.dumps(reply).encode()
        # Head and body in one write: two would wait for an acknowledgement between them.
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(reply)}\r\n\r\n"
        self.wfile.write(head.encode() + reply)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()

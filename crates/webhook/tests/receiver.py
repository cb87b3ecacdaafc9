"""A receiver written from docs/webhook.md alone: Python's own HTTP server and hmac.

Prints its port, and a line whenever a connection has ended; answers "drop" for a text with "spam" in it, "pass" for others. Whatever is not signed
as the document says gets 403. Closes connections that are idle for a second. Ends when stdin does.
"""

import hashlib
import hmac
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = b"0123456789abcdef0123456789abcdef"


def answer(question):
    verdict = "drop" if "spam" in question["text"] else "pass"
    return {"id": question["id"], "verdict": verdict}


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 1

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
        if question["type"] == "messages":
            reply = {"answers": [answer(one) for one in question["questions"]]}
        elif question["type"] == "message":
            reply = answer(question)
        else:
            reply = {"verdict": "allow", "claims": {"sub": question["headers"].get("x-user", "nobody")}}
        reply = json.dumps(reply).encode()
        # Head and body in one write: two would wait for an acknowledgement between them.
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(reply)}\r\n\r\n"
        self.wfile.write(head.encode() + reply)

    def finish(self):
        super().finish()
        print("closed", flush=True)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()

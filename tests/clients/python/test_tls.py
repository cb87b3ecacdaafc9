"""`https` and `wss` as OpenSSL, `websockets` and an independent scanner see them.

`--openssl` and `--sslscan` say where the programs are.
"""

import argparse
import asyncio
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.request
import xml.etree.ElementTree

import websockets

from battery import equal, run, sentence
from server import Server, free_port
from session import JSON_SUBPROTOCOL, Session, fresh_room

COMMAND_SECONDS_MAX = 60
# What deploy/danmaku.toml promises where nothing is set: all that is safe. OpenSSL's names for TLS 1.2, IANA's for 1.3.
TLS13 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
TLS12 = {"ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-GCM-SHA256"}


class Secured:
    """A server with a certificate of its own; `tls_port` is where TLS is spoken."""

    def __init__(self, arguments, **settings):
        self.openssl, self.sslscan, self.settings = arguments.openssl, arguments.sslscan, settings
        self.server = Server(arguments.server)
        self.host = self.server.host

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name)
        self.cert, key = path / "cert.pem", path / "key.pem"
        subprocess.run(
            [self.openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
             "-keyout", str(key), "-out", str(self.cert)],
            check=True, capture_output=True, timeout=COMMAND_SECONDS_MAX,
        )  # fmt: skip
        self.tls_port = free_port()
        told = {"listen": f"{self.host}:{self.tls_port}", "cert": self.cert, "key": key, **self.settings}
        # Of this process, and so of the server that it starts.
        self.told = {f"DANMAKU__TLS__{name.upper()}": str(value) for name, value in told.items()}
        os.environ.update(self.told)
        self.server.__enter__()
        return self

    def __exit__(self, *error):
        self.server.__exit__(*error)
        for name in self.told:
            del os.environ[name]
        self.folder.cleanup()

    def said(self):
        return self.server.said()

    def context(self, version=None):
        context = ssl.create_default_context(cafile=self.cert)
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def scan(self):
        """Protocols that are enabled, and ciphers by protocol."""
        scanned = subprocess.run(
            [self.sslscan, "--xml=-", f"{self.host}:{self.tls_port}"],
            check=True, capture_output=True, timeout=COMMAND_SECONDS_MAX,
        )  # fmt: skip
        found = xml.etree.ElementTree.fromstring(scanned.stdout)
        protocols = {p.get("type") + p.get("version") for p in found.iter("protocol") if p.get("enabled") == "1"}
        ciphers = {}
        for cipher in found.iter("cipher"):
            ciphers.setdefault(cipher.get("sslversion"), set()).add(cipher.get("cipher"))
        weak = [h.get("sslversion") for h in found.iter("heartbleed") if h.get("vulnerable") != "0"]
        renegotiates = [r.get("supported") for r in found.iter("renegotiation")]
        return protocols, ciphers, weak, renegotiates


async def comments_go_both_ways_in_both_versions(secured):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for deflate in (False, True):
            room = fresh_room("tls")
            options = {"deflate": deflate, "ssl": secured.context(version), "tls": True}
            async with await Session.open(secured, room, **options) as author:
                async with await Session.open(secured, room, **options) as viewer:
                    seq = await author.publish("over TLS")
                    equal((await viewer.shown(seq))["text"], "over TLS", f"text with {version.name}")
                    spoken = author.socket.transport.get_extra_info("ssl_object").version()
                    equal(spoken.replace(".", "_"), version.name, "version")


async def the_page_and_its_stream_are_served(secured):
    def get(path):
        url = f"https://{secured.host}:{secured.tls_port}{path}"
        return urllib.request.urlopen(url, context=secured.context(), timeout=COMMAND_SECONDS_MAX)

    with await asyncio.to_thread(get, "/") as page:
        equal(page.status, 200, "status")
        equal(b"</html>" in page.read(), True, "a page")
    with await asyncio.to_thread(get, f"/api/v1/rooms/{fresh_room('tls')}/events") as events:
        equal((await asyncio.to_thread(events.readline)).startswith(b"data: {\"joined\""), True, "joined")


async def a_ticket_resumes_a_session(secured):
    context = secured.context(ssl.TLSVersion.TLSv1_3)

    def visit(session=None):
        with socket.create_connection((secured.host, secured.tls_port), COMMAND_SECONDS_MAX) as plain:
            with context.wrap_socket(plain, server_hostname="localhost", session=session) as secure:
                secure.sendall(b"GET /app.css HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                # The ticket comes with the first answer.
                while secure.recv(1 << 16):
                    pass
                return secure.session, secure.session_reused

    session, reused = await asyncio.to_thread(visit)
    equal(reused, False, "the first visit is resumed")
    for _ in range(5):
        # A ticket is good on whichever worker takes the connection.
        session, reused = await asyncio.to_thread(visit, session)
        equal(reused, True, "a later visit is resumed")


async def an_unknown_certificate_is_not_shown_to_be_another(secured):
    try:
        await websockets.connect(
            f"wss://{secured.host}:{secured.tls_port}/ws?room=r1", subprotocols=[JSON_SUBPROTOCOL], proxy=None
        )
    except ssl.SSLCertVerificationError:
        return
    raise AssertionError("a client that does not know the certificate connected")


async def a_scanner_finds_what_is_documented(secured):
    protocols, ciphers, weak, renegotiates = await asyncio.to_thread(secured.scan)
    equal(protocols, {"tls1.2", "tls1.3"}, "protocols")
    equal(ciphers, {"TLSv1.3": TLS13, "TLSv1.2": TLS12}, "ciphers")
    equal(weak, [], "versions with heartbleed")
    equal(renegotiates, ["0"], "renegotiation")


async def a_scanner_finds_no_more_than_is_set(secured):
    protocols, ciphers, _, _ = await asyncio.to_thread(secured.scan)
    equal(protocols, {"tls1.3"}, "protocols")
    equal(ciphers, {"TLSv1.3": {"TLS_AES_128_GCM_SHA256"}}, "ciphers")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, help="path of the danmaku binary")
    parser.add_argument("--openssl", required=True, help="path of openssl")
    parser.add_argument("--sslscan", required=True, help="path of sslscan")
    arguments = parser.parse_args()
    cases = [
        comments_go_both_ways_in_both_versions,
        the_page_and_its_stream_are_served,
        a_ticket_resumes_a_session,
        an_unknown_certificate_is_not_shown_to_be_another,
        a_scanner_finds_what_is_documented,
    ]
    narrow = {"min_version": "1.3", "ciphers": '["TLS_AES_128_GCM_SHA256"]'}
    failed = 0
    with Secured(arguments) as secured:
        failed += asyncio.run(run([(sentence(case), case) for case in cases], secured))
    with Secured(arguments, **narrow) as secured:
        case = a_scanner_finds_no_more_than_is_set
        failed += asyncio.run(run([(sentence(case), case)], secured))
    print(f"{len(cases) + 1 - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

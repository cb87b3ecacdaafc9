"""Tokens that a library of others signs, with keys that it made, published over `https` as an identity provider does."""

import argparse
import asyncio
import contextlib
import datetime
import http.server
import ipaddress
import json
import os
import pathlib
import ssl
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import jwt
import websockets
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from battery import equal, run, sentence
from server import Server
from session import JSON_SUBPROTOCOL, WAIT_SECONDS_MAX, Session, fresh_room

SECRET = "a secret of at least thirty-two bytes"
NAMES = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}


def pairs():
    return {
        "RS256": rsa.generate_private_key(public_exponent=65537, key_size=2048),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    }


def pem(public):
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


class Provider:
    """An identity provider: keys of every kind, some configured by file and some published over https."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.configured, self.published, self.asked = pairs(), pairs(), 0
        keys = []
        for algorithm, pair in self.published.items():
            key = NAMES[algorithm].to_jwk(pair.public_key(), as_dict=True)
            keys.append({**key, "kid": f"published-{algorithm}", "use": "sig"})
        self.key_set = json.dumps({"keys": keys}).encode()
        self._serve(self._certificate())
        told = [{"id": "HS256", "secret": SECRET}]
        for algorithm, pair in self.configured.items():
            file = self.path / f"{algorithm}.pem"
            file.write_bytes(pem(pair.public_key()))
            told.append({"id": algorithm, "algorithm": algorithm, "public_key": str(file)})
        inline = ", ".join("{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in key.items()) + " }" for key in told)
        self.told = {
            "DANMAKU__AUTH__KEYS": f"[{inline}]",
            "DANMAKU__AUTH__JWKS": f"https://localhost:{self.http.server_port}/keys",
            "DANMAKU__AUTH__JWKS_CA": str(self.path / "cert.pem"),
            "DANMAKU__AUTH__JWKS_ALLOW_PRIVATE": '["127.0.0.0/8", "::1"]',
            "DANMAKU__AUTH__AUDIENCE": "chat",
            "DANMAKU__AUTH__STAFF_AUDIENCE": "chat-staff",
            "DANMAKU__AUTH__ISSUER": "https://id.example",
            "DANMAKU__AUTH__LEEWAY": "1s",
            "DANMAKU__AUTH__REMIND_BEFORE": "2s",
        }
        # Of this process, and so of the server that it starts.
        os.environ.update(self.told)
        return self

    def __exit__(self, *_):
        for name in self.told:
            del os.environ[name]
        self.http.shutdown()
        self.http.server_close()
        self.folder.cleanup()

    def _certificate(self):
        """A certificate that signs itself, for this machine."""
        pair, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        now = datetime.datetime.now(datetime.UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = x509.CertificateBuilder(name, name, pair.public_key(), x509.random_serial_number(), now, now + datetime.timedelta(days=7))
        cert = builder.add_extension(x509.SubjectAlternativeName(names), False).sign(pair, hashes.SHA256())
        (self.path / "cert.pem").write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        private = pair.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (self.path / "key.pem").write_bytes(private)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path / "cert.pem", self.path / "key.pem")
        return context

    def _serve(self, context):
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                provider.asked += 1
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(provider.key_set)))
                self.end_headers()
                self.wfile.write(provider.key_set)

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def keys(self):
        """Every key that signs, by the name that tokens give it."""
        published = {f"published-{algorithm}": (algorithm, pair) for algorithm, pair in self.published.items()}
        return {"HS256": ("HS256", SECRET), **{algorithm: (algorithm, pair) for algorithm, pair in self.configured.items()}, **published}

    def token(self, kid="ES256", lives_s=600, **claims):
        algorithm, key = self.keys()[kid]
        said = {"sub": "u1", "aud": "chat", "iss": "https://id.example", "iat": int(time.time()), "exp": int(time.time()) + lives_s, **claims}
        return jwt.encode({name: value for name, value in said.items() if value is not None}, key, algorithm, headers={"kid": kid})


def headers(token):
    return {"additional_headers": {"Authorization": f"Bearer {token}"}}


async def refusal(server, token):
    """The code with which a token is refused; none where it is taken."""
    try:
        socket = await websockets.connect(f"ws://{server.host}:{server.port}/ws?room=r1", subprotocols=[JSON_SUBPROTOCOL], proxy=None, **headers(token))
    except websockets.InvalidStatus as refused:
        equal(refused.response.status_code, 401, "status")
        return json.loads(refused.response.body)["code"]
    await socket.close()
    return None


async def tokens_of_every_key_are_taken(server, provider):
    for number, kid in enumerate(provider.keys()):
        token = provider.token(kid, sub=f"u{number}", name="Ann 安")
        async with await Session.open(server, fresh_room("keys"), **headers(token)) as session:
            equal(session.joined["you"], {"id": f"u{number}", "name": "Ann 安"}, kid)
    equal(provider.asked, 1, "times that the key set was asked for")


async def what_is_not_right_is_refused_with_one_code(server, provider):
    now = int(time.time())
    strange = ec.generate_private_key(ec.SECP256R1())
    good = {"sub": "u1", "aud": "chat", "iss": "https://id.example", "exp": now + 600}
    for token, wanted in [
        (provider.token(), None),
        (provider.token(aud=["other", "chat"]), None),
        (provider.token(aud="chat-staff", role="staff", **{"global": True}), None),
        (provider.token(role="staff", **{"global": True}), "token_invalid"),
        (provider.token(aud="other"), "token_invalid"),
        (provider.token(aud=None), "token_invalid"),
        (provider.token(iss=None), "token_invalid"),
        (provider.token(exp=None), "token_invalid"),
        (provider.token(nbf=now + 60), "token_invalid"),
        (provider.token(exp=now - 2), "token_expired"),
        (provider.token(exp=now + 2 * 86_400), "token_invalid"),
        (jwt.encode(good, None, "none"), "token_invalid"),
        (jwt.encode(good, SECRET, "HS512", headers={"kid": "HS256"}), "token_invalid"),
        (jwt.encode(good, SECRET, "HS256", headers={"kid": "RS256"}), "token_invalid"),
        (jwt.encode(good, strange, "ES256", headers={"kid": "ES256"}), "token_invalid"),
        (jwt.encode(good, strange, "ES256", headers={"kid": "published-ES256"}), "token_invalid"),
        (jwt.encode(good, strange, "ES256", headers={"kid": "ES256", "jku": "https://id.example/keys"}), "token_invalid"),
    ]:
        equal(await refusal(server, token), wanted, repr(jwt.decode(token, options={"verify_signature": False})))


async def a_session_lives_from_token_to_token(server, provider):
    async with await Session.open(server, fresh_room("lives"), **headers(provider.token(lives_s=3))) as session:
        at = 0
        for _ in range(2):
            at, told = await session.next("auth", at)
            assert told["expiresInMs"] <= 2_000 and "you" not in told, f"{told}"
            await session.socket.send(json.dumps({"auth": {"token": provider.token("published-EdDSA", lives_s=4)}}))
            at, told = await session.next("auth", at)
            assert 2_000 < told["expiresInMs"] <= 4_000, f"{told}"
        # How the library says that the connection is closed depends on the code.
        with contextlib.suppress(Exception):
            await session.next("nothing more")
        equal(session.socket.close_code, 4001, "close code")


async def a_ticket_stands_in_an_address_once(server, provider):
    room = fresh_room("ticket")

    def made():
        request = urllib.request.Request(f"http://{server.host}:{server.port}/api/v1/tickets", json.dumps({"room": room}).encode())
        request.add_header("Authorization", f"Bearer {provider.token(sub='u7')}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS_MAX) as answer:
            return json.load(answer)["ticket"]

    ticket = await asyncio.to_thread(made)
    async with await Session.open(server, room, query=f"&ticket={ticket}") as session:
        equal(session.joined["you"], {"id": "u7"}, "who")
    try:
        await Session.open(server, room, query=f"&ticket={ticket}")
    except websockets.InvalidStatus as refused:
        equal(refused.response.status_code, 401, "status")
    else:
        raise AssertionError("a ticket was taken twice")


CASES = [
    tokens_of_every_key_are_taken,
    what_is_not_right_is_refused_with_one_code,
    a_session_lives_from_token_to_token,
    a_ticket_stands_in_an_address_once,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, help="path of the danmaku binary")
    with Provider() as provider, Server(parser.parse_args().server) as server:
        cases = [(sentence(case), lambda server, case=case: case(server, provider)) for case in CASES]
        failed = asyncio.run(run(cases, server))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

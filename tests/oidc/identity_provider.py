"""A token endpoint on loopback for client credentials and assertions, which issues valid JWTs, and fails on request."""

from __future__ import annotations

import base64
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

KEY_ID = "test"
ISSUER = "https://identity.example.org"
AUDIENCE = "kafka"

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


class IdentityProvider:
    """Serves ``/token`` in threads. ``clients`` are names and secrets; ``life_s`` is the lifetime of tokens."""

    def __init__(self, clients: dict[str, str], life_s: float = 300) -> None:
        self.clients = clients
        self.life_s = life_s
        self.forms: list[dict[str, str]] = []
        """Requests received; "client" and "secret" hold the client's credentials, however they were sent."""
        self.instead: Callable[[], Answer] | None = None
        """Returns the answer in place of a token."""
        self.released = threading.Event()
        """Set at the end, to release requests that wait for it."""
        self._key = _key()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://localhost:{self._server.server_address[1]}/token"

    def jwt(self, subject: str, life_s: float | None = None, **claims: Any) -> str:
        """Return a signed token for a user."""
        now = time.time()
        content = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": subject,
            "scope": "kafka",
            "iat": int(now),
            "exp": now + (self.life_s if life_s is None else life_s),
            "jti": str(len(self.forms)),
            **claims,
        }
        header = {"alg": "RS256", "typ": "at+jwt", "kid": KEY_ID}
        signed = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(content).encode())}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"

    def answer(self, form: dict[str, str]) -> Answer:
        """Return the answer to a client's form."""
        return self.answer_now(form) if self.instead is None else self.instead()

    def answer_now(self, form: dict[str, str]) -> Answer:
        """Return the answer without failures."""
        by_secret = form.get("grant_type") == "client_credentials" and "client_assertion" not in form
        if by_secret and self.clients.get(form["client"]) != form["secret"]:
            return json_answer(401, error="invalid_client", error_description="client authentication failed")
        token = self.jwt(form.get("client") or "assertion")
        return json_answer(200, access_token=token, token_type="Bearer", expires_in=int(self.life_s))

    @contextmanager
    def running(self, port: int = 0) -> Iterator[IdentityProvider]:
        """Serve until the block ends."""
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                form = dict(urllib.parse.parse_qsl(self.rfile.read(length).decode()))
                client, secret = form.get("client_id", ""), form.get("client_secret", "")
                scheme, _, encoded = self.headers.get("Authorization", "").partition(" ")
                if scheme == "Basic":
                    client, _, secret = base64.b64decode(encoded).decode().partition(":")
                form |= {"client": client, "secret": secret}
                provider.forms.append(form)
                status, headers, body = provider.answer(form)
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    return  # the client has disconnected

            def log_message(self, format: str, *args: object) -> None:
                """Keep requests out of the log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def jwks() -> str:
    """Return the public key of all providers of this process, as brokers read it (RFC 7517)."""
    return json.dumps({"keys": [public_jwk(_key().public_key(), KEY_ID)]})


def private_jwk() -> dict[str, str]:
    """Return the key itself (RFC 7517), for another provider that has to sign with it."""
    secret = _key().private_numbers()
    public = secret.public_numbers
    key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID}
    numbers = {
        "n": public.n, "e": public.e, "d": secret.d, "p": secret.p, "q": secret.q,
        "dp": secret.dmp1, "dq": secret.dmq1, "qi": secret.iqmp,
    }  # fmt: skip
    return key | {name: _number(value) for name, value in numbers.items()}


def public_jwk(key: rsa.RSAPublicKey, key_id: str) -> dict[str, str]:
    """Return a public key (RFC 7517)."""
    numbers = key.public_numbers()
    described = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": key_id}
    return described | {"n": _number(numbers.n), "e": _number(numbers.e)}


@cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def json_answer(status: int, **content: Any) -> Answer:
    body = json.dumps(content).encode()
    return status, {"Content-Type": "application/json", "Content-Length": str(len(body))}, body


def _number(value: int) -> str:
    return _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()

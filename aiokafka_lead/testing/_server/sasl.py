"""Who a client is: the server's side of SASL PLAIN (RFC 4616) and SCRAM (RFC 5802)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Protocol

from ..._wire import ApiKey
from ...errors import SaslAuthenticationFailedError, UnsupportedSaslMechanismError

_BEFORE_AUTHENTICATION = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
_SCRAM_ITERATIONS = 4096
_SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

MECHANISMS = ("PLAIN", *_SCRAM_HASHES)


class _Exchange(Protocol):
    def step(self, message: bytes) -> tuple[bytes, str | None]:
        """The answer to a client's message, and the user once he is known."""
        ...


class Authentication:
    """One connection's way to a user."""

    def __init__(self, users: Mapping[str, str] | None) -> None:
        self._users = users
        # The user, once known; None before, and where there is no authentication.
        self.user: str | None = None
        self._exchange: _Exchange | None = None

    def permits(self, api_key: int) -> bool:
        """Whether the connection may use an API now."""
        return self._users is None or self.user is not None or api_key in _BEFORE_AUTHENTICATION

    def begin(self, mechanism: str) -> None:
        if self._users is None or mechanism not in MECHANISMS:
            raise UnsupportedSaslMechanismError(f"mechanism {mechanism} is not enabled")
        self._exchange = _Plain(self._users) if mechanism == "PLAIN" else _Scram(self._users, _SCRAM_HASHES[mechanism])

    def step(self, message: bytes) -> bytes:
        """Answer a message of the mechanism. Raises SaslAuthenticationFailedError."""
        if self._exchange is None:
            raise SaslAuthenticationFailedError("SaslAuthenticate before SaslHandshake")
        answer, self.user = self._exchange.step(message)
        return answer


class _Plain:
    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def step(self, message: bytes) -> tuple[bytes, str | None]:
        parts = message.split(b"\0")
        if len(parts) != 3:
            raise SaslAuthenticationFailedError("Invalid SASL/PLAIN message")
        user, password = parts[1].decode(errors="replace"), parts[2]
        expected = self._users.get(user)
        if expected is None or not hmac.compare_digest(expected.encode(), password):
            raise SaslAuthenticationFailedError("Authentication failed: Invalid username or password")
        return b"", user


class _Scram:
    def __init__(self, users: Mapping[str, str], hash_name: str) -> None:
        self._users = users
        self._hash = hash_name
        self._user = ""
        self._salted_password = b""
        self._first_bare = b""
        self._server_first = b""
        self._nonce = b""

    def step(self, message: bytes) -> tuple[bytes, str | None]:
        return self._first(message) if not self._server_first else self._final(message)

    def _first(self, message: bytes) -> tuple[bytes, str | None]:
        header, _, rest = message.partition(b",")
        _authzid, _, bare = rest.partition(b",")
        fields = _fields(bare)
        if header not in (b"n", b"y") or "n" not in fields or "r" not in fields:
            raise SaslAuthenticationFailedError("Invalid SCRAM client first message")
        self._user = fields["n"].decode(errors="replace").replace("=2C", ",").replace("=3D", "=")
        password = self._users.get(self._user)
        if password is None:
            raise SaslAuthenticationFailedError(
                "Authentication failed during authentication due to invalid credentials"
            )
        salt = secrets.token_bytes(16)
        self._salted_password = hashlib.pbkdf2_hmac(self._hash, password.encode(), salt, _SCRAM_ITERATIONS)
        self._first_bare = bare
        self._nonce = fields["r"] + secrets.token_hex(12).encode()
        self._server_first = b"r=%b,s=%b,i=%d" % (self._nonce, base64.b64encode(salt), _SCRAM_ITERATIONS)
        return self._server_first, None

    def _final(self, message: bytes) -> tuple[bytes, str | None]:
        without_proof, _, encoded = message.rpartition(b",p=")
        fields = _fields(without_proof)
        client_key = self._hmac(self._salted_password, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        auth_message = b",".join((self._first_bare, self._server_first, without_proof))
        signature = self._hmac(stored_key, auth_message)
        expected = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        try:
            proof = base64.b64decode(encoded, validate=True)
        except ValueError:
            proof = b""
        if fields.get("r") != self._nonce or not hmac.compare_digest(proof, expected):
            raise SaslAuthenticationFailedError(
                "Authentication failed during authentication due to invalid credentials"
            )
        server_key = self._hmac(self._salted_password, b"Server Key")
        return b"v=" + base64.b64encode(self._hmac(server_key, auth_message)), self._user

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._hash).digest()


def _fields(message: bytes) -> dict[str, bytes]:
    """The attributes of a SCRAM message: letter=value, between commas."""
    return {part[:1].decode("latin-1"): part[2:] for part in message.split(b",") if part[1:2] == b"="}

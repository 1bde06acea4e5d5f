"""The server's side of SASL SCRAM (RFC 5802), for users and for delegation tokens (KIP-48)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from ..._cpython import naming
from ...errors import SaslAuthenticationFailedError

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS = 4096


class DelegationToken(NamedTuple):
    """A substitute for a user's password; clients log in with ``token_id`` and ``hmac``."""

    owner: str
    token_id: str
    hmac: str
    """In base64, as clients use it."""


naming.show_in("aiokafka_lead.testing.security_controls", DelegationToken)


class ScramExchange:
    """The server's side of one authentication."""

    ends_at = math.inf

    def __init__(self, users: Mapping[str, str], tokens: Mapping[str, DelegationToken], hash_name: str) -> None:
        self._users = users
        self._tokens = tokens
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
        self._user, password = self._known(bare, fields["n"])
        if password is None:
            raise SaslAuthenticationFailedError(
                "Authentication failed during authentication due to invalid credentials"
            )
        salt = secrets.token_bytes(16)
        self._salted_password = hashlib.pbkdf2_hmac(self._hash, password.encode(), salt, _ITERATIONS)
        self._first_bare = bare
        self._nonce = fields["r"] + secrets.token_hex(12).encode()
        self._server_first = b"r=%b,s=%b,i=%d" % (self._nonce, base64.b64encode(salt), _ITERATIONS)
        return self._server_first, None

    def _known(self, bare: bytes, encoded: bytes) -> tuple[str, str | None]:
        """Return the user and the password; for a delegation token, its owner and its HMAC."""
        name = encoded.decode(errors="replace").replace("=2C", ",").replace("=3D", "=")
        if b"tokenauth=true" not in bare.split(b","):
            return name, self._users.get(name)
        token = self._tokens.get(name)
        return (name, None) if token is None else (token.owner, token.hmac)

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
    """Return the attributes of a SCRAM message: letter=value, separated by commas."""
    return {part[:1].decode("latin-1"): part[2:] for part in message.split(b",") if part[1:2] == b"="}

"""The server's side of SASL: PLAIN (RFC 4616), SCRAM (RFC 5802) and OAUTHBEARER (RFC 7628)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple, Protocol

from ..._cpython import naming
from ..._wire import ApiKey
from ...errors import IllegalSaslStateError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError

SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS = 4096


class DelegationToken(NamedTuple):
    """A delegation token of a user. Clients log in with ``token_id`` as user name and ``hmac`` as password."""

    owner: str
    token_id: str
    hmac: str
    """HMAC in base64, as used by clients."""


naming.show_in("aiokafka_lead.testing.controls", DelegationToken)


class ScramExchange:
    """The server's side of one authentication with SCRAM."""

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
        """Return the user and the password or, for a delegation token, its owner and its HMAC."""
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
    """Return the attributes of a SCRAM message, which has the form letter=value, separated by commas."""
    return {part[:1].decode("latin-1"): part[2:] for part in message.split(b",") if part[1:2] == b"="}


_BEFORE_AUTHENTICATION = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})

OAuthValidator = Callable[[str, Mapping[str, str]], str | tuple[str, float] | None]
"""Takes a token and its extensions. Returns the user, or a pair of the user and the expiry in seconds since the epoch,
or None to refuse the token."""


@dataclass(frozen=True)
class SaslOptions:
    """The settings with which all brokers authenticate clients."""

    # Password of each user, for PLAIN and SCRAM.
    users: Mapping[str, str] | None = None
    # Validates tokens, for OAUTHBEARER.
    oauth_validator: OAuthValidator | None = None
    # The service's keytab, for GSSAPI.
    keytab: str | None = None
    # Delegation tokens (KIP-48) by their ids.
    tokens: dict[str, DelegationToken] = field(default_factory=dict)
    # Lifetime of sessions (KIP-368). With None, they last until the connection ends or a token expires.
    session_ms: float | None = None

    @cached_property
    def exchanges(self) -> dict[str, Callable[[], _Exchange]]:
        """Functions that begin an exchange, by mechanism. Empty if clients need no authentication."""
        offered: dict[str, Callable[[], _Exchange]] = {}
        if self.users is not None:
            offered["PLAIN"] = partial(_Plain, self.users)
            for mechanism, hash_name in SCRAM_HASHES.items():
                offered[mechanism] = partial(ScramExchange, self.users, self.tokens, hash_name)
        if self.oauth_validator is not None:
            offered["OAUTHBEARER"] = partial(_OAuthBearer, self.oauth_validator)
        if self.keytab is not None:
            offered["GSSAPI"] = partial(_gssapi, self.keytab)
        return offered


class _Exchange(Protocol):
    @property
    def ends_at(self) -> float:
        """Time at which the client's credentials expire, in wall-clock seconds."""
        ...

    def step(self, message: bytes) -> tuple[bytes, str | None]:
        """Respond to a client's message. Return the response, and the user once the exchange has identified it."""
        ...


class Authentication:
    """The SASL state of one connection: the exchange in progress, and then the session that results from it."""

    def __init__(self, options: SaslOptions) -> None:
        self._options = options
        # The user, or None before or without authentication.
        self.user: str | None = None
        # End of the session, in wall-clock seconds.
        self._ends_at = math.inf
        self._exchange: _Exchange | None = None

    def permits(self, api_key: int) -> bool:
        """Return True if the connection may use this API in its present state."""
        if not self._options.exchanges or api_key in _BEFORE_AUTHENTICATION:
            return True
        return self.user is not None and time.time() < self._ends_at

    def begin(self, mechanism: str) -> None:
        """Begin an exchange with this mechanism.

        Raises UnsupportedSaslMechanismError for an unknown mechanism, and IllegalSaslStateError if the listener does
        not use SASL.
        """
        exchanges = self._options.exchanges
        if not exchanges:
            raise IllegalSaslStateError("this listener does not use SASL")
        if mechanism not in exchanges:
            raise UnsupportedSaslMechanismError(f"mechanism {mechanism} is not enabled")
        self._exchange = exchanges[mechanism]()

    def step(self, message: bytes) -> bytes:
        """Return the response to a message of the mechanism. Raises SaslAuthenticationFailedError."""
        if self._exchange is None:
            raise SaslAuthenticationFailedError("SaslAuthenticate was received before SaslHandshake")
        answer, user = self._exchange.step(message)
        if self.user is not None and user not in (None, self.user):
            raise SaslAuthenticationFailedError(
                f"Cannot change principals during re-authentication from User.{self.user}: User.{user}"
            )
        if user is not None:
            session_ms = self._options.session_ms
            self._ends_at = min(
                self._exchange.ends_at, math.inf if session_ms is None else time.time() + session_ms / 1000
            )
        self.user = user
        return answer

    @property
    def lifetime_ms(self) -> int:
        """Remaining lifetime of the session, or 0 if unlimited (KIP-368)."""
        if self.user is None or self._ends_at == math.inf:
            return 0
        return max(0, int((self._ends_at - time.time()) * 1000))


def _gssapi(keytab: str) -> _Exchange:
    from .gssapi_exchange import GssapiExchange  # needs an extra

    return GssapiExchange(keytab)


class _OAuthBearer:
    _MESSAGE = re.compile(rb"n,(?:a=[^,\x01]*)?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)+)\x01", re.DOTALL)
    _TOKEN = re.compile(r"Bearer +([-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)

    def __init__(self, validator: OAuthValidator) -> None:
        self.ends_at = math.inf
        self._validator = validator
        # The message that the client must acknowledge before it gets the error.
        self._refusal: bytes | None = None

    def step(self, message: bytes) -> tuple[bytes, str | None]:
        if self._refusal is not None:
            raise SaslAuthenticationFailedError(self._refusal.decode())
        match = self._MESSAGE.fullmatch(message)
        pairs = [] if match is None else [part.split("=", 1) for part in match["pairs"].decode().split("\x01")[:-1]]
        extensions = dict(pairs)
        token = self._TOKEN.fullmatch(extensions.pop("auth", ""))
        if token is None or len(extensions) != len(pairs) - 1:
            raise SaslAuthenticationFailedError("Invalid OAUTHBEARER client first message")
        known = self._validator(token[1], extensions)
        user, ends_at = known if isinstance(known, tuple) else (known, math.inf)
        if user is None or ends_at <= time.time():
            self._refusal = b'{"status":"invalid_token"}'
            return self._refusal, None
        self.ends_at = ends_at
        return b"", user


class _Plain:
    ends_at = math.inf

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

"""SCRAM (RFC 5802, RFC 7677). Both sides prove that they know the password's keys, and neither sends the password.

Names and passwords are encoded in UTF-8 without SASLprep, because Kafka stores and checks them in this form
(``ScramFormatter``). With SASLprep, a password such as "Ⅸ" would not match the password that ``kafka-configs`` has
stored.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode

from ...._values import NamedTuple
from ....errors import SaslAuthenticationFailedError
from . import Credentials

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash function of each mechanism."""

MIN_ITERATIONS = 4096
"""The minimum of RFC 7677 and of Kafka. With fewer iterations, a password could be guessed from a captured exchange."""

MAX_ITERATIONS = 1_000_000
"""Limits the CPU time that a hostile server can demand to about a second. Kafka's own maximum is 16384."""

_CHANNEL_BINDING = "biws"  # base64 of "n,,", which means no channel binding and no authorization identity
_NONCE_BYTES = 24


class SaltedPassword(NamedTuple):
    """A password with the server's salt. Deriving the key from it takes most of the time of SCRAM."""

    hash_name: str
    salt: bytes
    iterations: int

    def derive(self, password: str) -> bytes:
        """Derive the key from the password. This takes between a few milliseconds and a second."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), self.salt, self.iterations)


def keep_key(credentials: Credentials, derived_by: SaltedPassword, key: bytes) -> None:
    """Cache the key for later connections, replacing the previous one. A user has the same salt at every broker."""
    credentials.derived_keys.clear()
    credentials.derived_keys[derived_by] = key


class Scram:
    """One SCRAM authentication with the given hash function.

    ``nonce`` is the client's part of the nonce. It is random except in test vectors.
    """

    def __init__(self, credentials: Credentials, hash_name: str, nonce: str | None = None) -> None:
        self.done = False
        self._credentials = credentials
        self._hash_name = hash_name
        self._nonce = nonce if nonce is not None else secrets.token_urlsafe(_NONCE_BYTES)
        self._first_bare = f"n={_sasl_name(credentials.username)},r={self._nonce}"
        if credentials.is_delegation_token:
            self._first_bare += ",tokenauth=true"  # declares a delegation token (KIP-48; Java: ScramExtensions)
        self._server_signature: bytes | None = None
        """The server's expected response to the final message, or None before that message is sent."""

    def start(self) -> bytes:
        """Return the client-first-message, with the user name and the client's nonce."""
        return f"n,,{self._first_bare}".encode()

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to the server's message.

        The first message of the server is answered with the client-final-message, and its final message with no bytes.
        Raises `SaslAuthenticationFailedError` if the server does not prove that it knows the password's keys.
        """
        text = _decoded(challenge)
        if self._server_signature is None:
            return self._prove(text)
        self._verify(text, self._server_signature)
        self.done = True
        return b""

    def missing_key(self, challenge: bytes) -> SaltedPassword | None:
        """Return the key that `respond` must derive for this challenge, or None if it is cached or not needed."""
        if self._server_signature is not None:
            return None
        _, wanted = self._server_first(_decoded(challenge))
        return None if wanted in self._credentials.derived_keys else wanted

    def _server_first(self, server_first: str) -> tuple[str, SaltedPassword]:
        fields = _fields(server_first)
        if fields[0][0] == "m":
            raise SaslAuthenticationFailedError(
                "the server requires a SCRAM extension that this client does not support"
            )
        if [name for name, _ in fields[:3]] != ["r", "s", "i"]:
            raise SaslAuthenticationFailedError("the server's first SCRAM message lacks nonce, salt or iterations")
        nonce, salt, iterations = fields[0][1], _base64(fields[1][1]), _iterations(fields[2][1])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise SaslAuthenticationFailedError("the server's SCRAM nonce does not begin with the client's")
        if not salt:
            raise SaslAuthenticationFailedError("the server's SCRAM salt is empty")
        return nonce, SaltedPassword(self._hash_name, salt, iterations)

    def _prove(self, server_first: str) -> bytes:
        nonce, wanted = self._server_first(server_first)
        if wanted not in self._credentials.derived_keys:
            keep_key(self._credentials, wanted, wanted.derive(self._credentials.password))
        salted = self._credentials.derived_keys[wanted]
        final_bare = f"c={_CHANNEL_BINDING},r={nonce}"
        auth_message = f"{self._first_bare},{server_first},{final_bare}".encode()
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        signature = self._hmac(stored_key, auth_message)
        proof = bytes(key ^ sign for key, sign in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), auth_message)
        return f"{final_bare},p={b64encode(proof).decode()}".encode()

    def _verify(self, server_final: str, expected: bytes) -> None:
        name, value = _fields(server_final)[0]
        if name == "e":
            # The value should be one of the words that RFC 5802 defines. Other text is untrusted, so it is not
            # repeated.
            reason = value if value.replace("-", "").isalpha() and len(value) < 50 else "unknown error"
            raise SaslAuthenticationFailedError(f"the server refused the SCRAM proof: {reason}")
        if name != "v" or not hmac.compare_digest(_base64(value), expected):
            raise SaslAuthenticationFailedError(
                "the server's SCRAM signature is wrong: the server may not be a Kafka broker of this cluster"
            )

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash_name)


def _decoded(challenge: bytes) -> str:
    try:
        return challenge.decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationFailedError("the server's SCRAM message is not UTF-8") from None


def _sasl_name(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _fields(message: str) -> list[tuple[str, str]]:
    """Parse the attributes of a message in the expected order.

    Errors name missing attributes, but never repeat contents.
    """
    fields = []
    for part in message.split(","):
        name, equals, value = part.partition("=")
        if len(name) != 1 or not equals:
            raise SaslAuthenticationFailedError("the server's SCRAM message is malformed")
        fields.append((name, value))
    return fields


def _base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise SaslAuthenticationFailedError("the server's SCRAM message contains invalid base64") from None


def _iterations(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise SaslAuthenticationFailedError("the server's SCRAM iteration count is not a number")
    count = int(text)
    if not MIN_ITERATIONS <= count <= MAX_ITERATIONS:
        raise SaslAuthenticationFailedError(
            f"the server requires {count} SCRAM iterations; this client accepts {MIN_ITERATIONS} to {MAX_ITERATIONS}"
        )
    return count

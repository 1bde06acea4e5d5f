"""SASL OAUTHBEARER (RFC 7628, KIP-255, KIP-342): a bearer token. Any holder may use it, so it needs TLS."""

from __future__ import annotations

from ...._options.token import Token
from ....errors import SaslAuthenticationFailedError
from ....errors.shown import shown

__all__ = ["OAuthBearer"]

_KVSEP = "\x01"


class OAuthBearer:
    """One OAUTHBEARER authentication with a token whose characters are checked (`Token`)."""

    def __init__(self, token: Token) -> None:
        self.done = False
        self._token = token
        self.refused: str | None = None
        """The broker's reason for refusing the token, made safe to show; None unless it has sent one."""

    def start(self) -> bytes:
        """Return the token and its extensions."""
        pairs = {"auth": f"Bearer {self._token.value}", **self._token.extensions}
        return f"n,,{_KVSEP}{''.join(f'{name}={value}{_KVSEP}' for name, value in pairs.items())}{_KVSEP}".encode()

    def respond(self, challenge: bytes) -> bytes:
        """Return an empty message if the broker accepts; else the reply that makes it send its error (RFC 7628)."""
        if self.refused is not None:
            raise SaslAuthenticationFailedError(f"the broker refused the token: {self.refused}")
        if challenge:
            self.refused = shown(challenge)
            return _KVSEP.encode()
        self.done = True
        return b""

"""SASL OAUTHBEARER (RFC 7628, KIP-255, KIP-342). Anybody who sees the bearer token can use it, so it needs TLS."""

from __future__ import annotations

from collections.abc import Callable

from ...._options.token import Token
from ...._values import NamedTuple
from ....errors import SaslAuthenticationFailedError
from ....errors.shown import shown
from ...chance import random

_KVSEP = "\x01"


class OAuthBearer:
    """One OAUTHBEARER authentication. The characters of the `Token` have been checked."""

    def __init__(self, token: Token) -> None:
        self.done = False
        self._token = token
        self.refused: str | None = None
        """The broker's reason for refusing the token, with unprintable characters removed, or None."""

    def start(self) -> bytes:
        """Return the first message, with the token and its extensions."""
        pairs = {"auth": f"Bearer {self._token.value}", **self._token.extensions}
        return f"n,,{_KVSEP}{''.join(f'{name}={value}{_KVSEP}' for name, value in pairs.items())}{_KVSEP}".encode()

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to the broker's challenge.

        An empty challenge means that the broker has accepted the token. Any other challenge contains the broker's
        error. The response to it is a separator, after which the broker refuses the login (RFC 7628). If the broker
        sends another challenge instead, raises `SaslAuthenticationFailedError` with the error.
        """
        if self.refused is not None:
            raise SaslAuthenticationFailedError(f"the broker refused the token: {self.refused}")
        if challenge:
            self.refused = shown(challenge)
            return _KVSEP.encode()
        self.done = True
        return b""


class RefreshWindow(NamedTuple):
    """The options ``sasl_login_refresh_*`` (Java: ``ExpiringCredentialRefreshingLogin.refreshMs``)."""

    factor: float
    """Fraction of a token's lifetime after which it is refreshed."""
    jitter: float
    """Largest random fraction of the lifetime that is added to ``factor``."""
    min_period_s: float
    buffer_s: float

    def refresh_after_s(self, left_s: float, rng: Callable[[], float] = random) -> float:
        """Return the seconds until the refresh of a token that expires in ``left_s`` seconds.

        At least ``min_period_s`` pass, and at least ``buffer_s`` of the lifetime remain. Both are ignored if the
        lifetime is shorter than their sum.
        """
        proposed_s = left_s * (self.factor + self.jitter * rng())
        if self.min_period_s + self.buffer_s > left_s:
            return max(0.0, proposed_s)
        return min(max(proposed_s, self.min_period_s), left_s - self.buffer_s)

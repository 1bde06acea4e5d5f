"""Authentication with OAUTHBEARER, with tokens that are refreshed in the background."""

from __future__ import annotations

import math
import time
from typing import Any

from ..._core.backoff import Backoff
from ..._core.connection.sasl.oauthbearer import OAuthBearer, RefreshWindow
from ..._options.logs import client_log
from ..._options.token import Token
from ...config import ClientConfig
from ...errors import KafkaError, SaslAuthenticationFailedError
from ..loop import Spawner, sleep_until
from .token_source import Fetching, TokenSource, source_of

RETRY_REFRESH_S = 10.0
"""Delay in seconds after a failed refresh while the current token is still valid, as in Java."""


class OAuthLogin:
    """The login with ``sasl_oauth_token_provider``. All clients with the same provider share a `TokenSource`."""

    mechanism = "OAUTHBEARER"
    readable = True

    def __init__(self, config: ClientConfig, tasks: Spawner) -> None:
        self._provider: Any = config.sasl_oauth_token_provider
        self._fetching = Fetching(
            tasks,
            config.sasl_oauth_token_timeout_ms / 1000,
            Backoff(config.sasl_login_retry_backoff_ms, config.sasl_login_retry_backoff_max_ms),
        )
        self._window = RefreshWindow(
            config.sasl_login_refresh_window_factor,
            config.sasl_login_refresh_window_jitter,
            config.sasl_login_refresh_min_period_seconds,
            config.sasl_login_refresh_buffer_seconds,
        )
        self._source: TokenSource | None = None
        self._refreshing = False
        self._log = client_log("oauth", config.client_id)

    def exchange(self, host: str) -> OAuthExchange:
        return OAuthExchange(self)

    async def token(self) -> Token:
        """Return a valid token for a new connection. The first call also starts the refreshing of tokens in the
        background.

        Raises the same errors as `TokenSource.token`.
        """
        if self._source is None:
            self._source = source_of(self._provider)
        token = await self._source.token(self._fetching)
        if token.expires_at is not None and not self._refreshing:
            self._refreshing = True
            self._fetching.tasks.start_soon(self._keep_fresh, self._source, name="kafka token refresh")
        return token

    def accepted(self) -> None:
        """End the backoff after earlier failures, because the broker has accepted the token."""
        assert self._source is not None
        self._source.accepted()

    def refused(self, token: Token, reason: str) -> None:
        """Discard a token that the broker has refused. ``reason`` is the broker's message."""
        assert self._source is not None
        error = SaslAuthenticationFailedError(f"the broker refused the token: {reason}")
        self._source.refused(token, error, self._fetching.backoff)

    async def _keep_fresh(self, source: TokenSource) -> None:
        """Refresh the token before it expires. Return if a token never expires.

        All clients with the same provider do this. The first of them fetches the token for all.
        """
        try:
            while (token := source.current) is not None and token.expires_at is not None:
                fetched_at = source.fetched_at
                life_s = _life_s(token, fetched_at) - source.margin_s
                await sleep_until(fetched_at + self._window.refresh_after_s(life_s))
                while source.fetched_at == fetched_at and source.current is token:
                    try:
                        await source.refresh(self._fetching)
                    except KafkaError as error:
                        self._log.warning(
                            "the token could not be refreshed, so the old one stays in use: %s", error.message
                        )
                        await sleep_until(time.monotonic() + min(RETRY_REFRESH_S, _left_s(token) / 2 + 0.1))
        finally:
            # The next connection that needs a token will start this task again.
            self._refreshing = False


def _life_s(token: Token, fetched_at: float) -> float:
    """Return the token's lifetime in seconds at the time at which it was fetched."""
    return _left_s(token) + time.monotonic() - fetched_at


def _left_s(token: Token) -> float:
    return math.inf if token.expires_at is None else max(0.0, token.expires_at - time.time())


class OAuthExchange:
    """The authentication of one connection by OAUTHBEARER. `start` waits for the token."""

    def __init__(self, login: OAuthLogin) -> None:
        self._login = login
        self._token: Token | None = None
        self._mechanism: OAuthBearer | None = None

    @property
    def done(self) -> bool:
        return self._mechanism is not None and self._mechanism.done

    async def start(self) -> bytes:
        self._token = await self._login.token()
        self._mechanism = OAuthBearer(self._token)
        return self._mechanism.start()

    async def respond(self, challenge: bytes) -> bytes:
        assert self._mechanism is not None
        assert self._token is not None
        response = self._mechanism.respond(challenge)
        if self.done:
            self._login.accepted()
        elif self._mechanism.refused is not None:
            self._login.refused(self._token, self._mechanism.refused)
        return response

    def refused(self, reason: str) -> None:
        """Discard the token that the broker has refused. Contrary to RFC 7628, some brokers send no challenge first."""
        if self._token is not None and self._mechanism is not None and self._mechanism.refused is None:
            self._login.refused(self._token, reason or "without a reason")

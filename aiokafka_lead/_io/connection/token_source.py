"""Tokens for all connections that use the same provider, which are refreshed before they expire."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import anyio

from ..._core.backoff import Backoff
from ..._options.checks import function_of
from ..._options.token import Token
from ..._values import NamedTuple
from ...errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailedError, TokenProviderError
from ...errors.base import own_copy, without_frames
from ...errors.shown import shown
from ..cancellation import outlives_cancellation
from ..loop import Spawner, Waiter, loop_token, sleep_until
from ..threads import BlockingCalls

KEPT_WITHOUT_END_S = 1.0
"""Seconds for which a token without a known expiry is used. This lets a client's simultaneous connections share it."""

MARGIN_S, MARGIN_PART = 1.0, 0.1
"""Minimum remaining lifetime of a token for new connections, in seconds and as a fraction of the lifetime."""

WAITED_OUT_S = 1.0
"""Maximum remaining backoff in seconds for which a call waits.

If more remains, the last error is raised again at once.
"""

_MAX_LOST = 3
"""Maximum number of abandoned calls of a provider that are still running."""


class Fetching(NamedTuple):
    """The settings of one client for calls of its token provider."""

    tasks: Spawner
    timeout_s: float
    """Time limit in seconds for a call of the provider."""
    backoff: Backoff
    """Delay between a failure and the next call."""


class TokenSource:
    """Fetches a provider's token and keeps it, for all connections on one event loop."""

    def __init__(self, provider: Any, loop: object) -> None:
        self.provider = provider
        self.loop = loop
        self.fetched_at = 0.0
        """Time at which the token was fetched, in monotonic seconds."""
        self._token: Token | None = None
        self.margin_s = 0.0
        """Minimum remaining lifetime in seconds for a new connection, whose session ends together with the token.

        Brokers count whole seconds, and fetching takes time, so the session ends earlier than the token appears to.
        """
        self._flight: Waiter[None] | None = None
        """Completed when the current fetch ends, or None if there is none."""
        self._failures = 0
        """Number of consecutive failed fetches and refused tokens."""
        self._error: KafkaError | None = None
        self._retry_at = 0.0
        self._calls = _Calls()

    @property
    def current(self) -> Token | None:
        """The token while it is valid, otherwise None."""
        token = self._token
        if token is None:
            return None
        if token.expires_at is None:
            return token if time.monotonic() < self.fetched_at + KEPT_WITHOUT_END_S else None
        return token if time.time() < token.expires_at - self.margin_s else None

    async def token(self, fetching: Fetching) -> Token:
        """Return the current token, or fetch a new one.

        Raises `TokenProviderError` (retriable) or `SaslAuthenticationFailedError`. During the backoff after a failure,
        the same error is raised again.
        """
        while (token := self.current) is None:
            await self.refresh(fetching)
        return token

    async def refresh(self, fetching: Fetching) -> None:
        """Fetch a new token, or wait for a fetch already in progress. The current token is kept until then.

        Raises the same errors as `token`.
        """
        flight = self._flight
        if flight is None:
            if self._error is not None and time.monotonic() < self._retry_at - WAITED_OUT_S:
                raise own_copy(self._error)
            flight = self._flight = Waiter()
            try:
                fetching.tasks.start_soon(self._fly, flight, fetching, name="kafka token provider")
            except BaseException:
                self._flight = None
                raise
        await flight.wait()

    def accepted(self) -> None:
        """End the backoff, because a broker has accepted the token."""
        self._failures = 0
        self._error = None

    def refused(self, token: Token, error: KafkaError, backoff: Backoff) -> None:
        """Record that a broker has refused the token. It is not used again. A new one is fetched after a delay."""
        if self._token is token:
            self._token = None
            self._note(error, backoff)

    async def _fly(self, flight: Waiter[None], fetching: Fetching) -> None:
        """Run the current fetch in a separate task, so that it outlasts the setup of the connection that needs it."""
        error: KafkaError | None = None
        try:
            await sleep_until(self._retry_at)
            error = await self._fetch(fetching)
        finally:
            self._flight = None
            if error is not None:
                self._note(error, fetching.backoff)
                flight.set_error(error)
            else:
                # Continue even if this client has stopped, because other clients may be waiting.
                flight.set_result(None)

    def _note(self, error: KafkaError, backoff: Backoff) -> None:
        self._failures += 1
        self._error = without_frames(error)
        self._retry_at = time.monotonic() + backoff.delay_s(self._failures)

    async def _fetch(self, fetching: Fetching) -> KafkaError | None:
        """Fetch a token.

        Returns the error instead of raising it, because its traceback would keep local variables alive.
        """
        try:
            with anyio.fail_after(fetching.timeout_s):
                token = await self._ask()
        except TimeoutError:
            return TokenProviderError(f"the token provider has not answered within {fetching.timeout_s * 1000:.0f} ms")
        except KafkaError as error:
            if isinstance(error, TokenProviderError | SaslAuthenticationFailedError):
                return without_frames(error)
            if isinstance(error, KafkaConnectionError):
                return TokenProviderError(f"the token provider failed: {error.message}")
            return SaslAuthenticationFailedError(f"the token provider's token cannot be used: {error.message}")
        except asyncio.CancelledError:
            if not await outlives_cancellation():
                raise
            return TokenProviderError("the token provider was cancelled")
        except Exception as error:
            text = f"the token provider failed: {type(error).__name__}: {shown(str(error))}"
            failure = TokenProviderError(text)
            failure.__cause__ = error
            return failure
        if token.expires_at is not None:
            left_s = token.expires_at - time.time()
            if left_s <= 0:
                return TokenProviderError(f"the token provider returned a token that expired {-left_s:.1f} s ago")
            self.margin_s = min(MARGIN_S, left_s * MARGIN_PART)
        self._token = token
        self.fetched_at = time.monotonic()
        if not isinstance(self._error, SaslAuthenticationFailedError):
            self.accepted()
        return None

    async def _ask(self) -> Token:
        """Call the provider once, and return its token with the extensions of the provider, if any.

        Raises `SaslAuthenticationFailedError` if the result is neither a str nor a `Token`.
        """
        provider = self.provider
        method = getattr(provider, "token", None)
        given = await self._calls.call(method if callable(method) else provider, self)
        if isinstance(given, Token):
            if given.extensions:
                return given
        elif isinstance(given, str):
            given = Token(given)
        else:
            raise SaslAuthenticationFailedError(
                f"the token provider must return a str or a Token, not {type(given).__name__}"
            )
        extensions = getattr(provider, "extensions", None)
        if not callable(extensions):
            return given
        return Token(given.value, given.expires_at, await self._calls.call(extensions, self) or {})


class _Calls:
    """Calls the application's token provider: coroutine functions in the event loop, other functions in threads."""

    def __init__(self) -> None:
        self._threads = BlockingCalls("token provider", at_once=1, max_lost=_MAX_LOST)

    async def call(self, function: Callable[[], Any], source: TokenSource) -> Any:
        """Call a function and return its result. The call keeps the source alive, even if all clients are gone."""
        if inspect.iscoroutinefunction(function_of(function)):
            return await function()
        given = await self._threads.run(partial(_call, function, source))
        return await given if isinstance(given, Awaitable) else given


def _call(function: Callable[[], Any], _: TokenSource) -> Any:
    return function()


_sources: WeakValueDictionary[tuple[int, int], TokenSource] = WeakValueDictionary()


def source_of(provider: Any) -> TokenSource:
    """Return the source for a provider on the running event loop, shared by all clients with this provider."""
    loop = loop_token()
    # A source keeps the loop and the provider alive, so their ids cannot be reused.
    key = (id(loop), id(provider))
    source = _sources.get(key)
    if source is None:
        source = _sources[key] = TokenSource(provider, loop)
    return source

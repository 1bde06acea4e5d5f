"""One token for all connections that use the same provider: fetched once at a time, and anew ahead of its end."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import anyio

from ..._core.backoff import Backoff
from ..._options.callables import function_of
from ..._options.token import Token
from ...errors import KafkaError, SaslAuthenticationFailedError, TokenProviderError
from ...errors.base import own_copy, without_frames
from ...errors.shown import shown
from ..cancellation import outlives_cancellation
from ..loop import Spawner, Waiter, loop_token, sleep_until
from ..threads import BlockingCalls

__all__ = ["Fetching", "TokenSource", "source_of"]

KEPT_WITHOUT_END_S = 1.0
"""How long a token is used whose end is not known: the connections that a client makes at a time share it."""

MARGIN_S, MARGIN_PART = 1.0, 0.1
"""A token is not used for new connections when this much of its life is left, or this part if that is less."""

WAITED_OUT_S = 1.0
"""So much of a backoff is waited out; where more of it is left, its error is raised again at once."""

_MAX_LOST = 3
"""Calls of a provider that may still be running though nobody waits for them any more."""


class Fetching(NamedTuple):
    """How a client has tokens fetched."""

    tasks: Spawner
    timeout_s: float
    """The most that a provider may take."""
    backoff: Backoff
    """What lies between a failure and the next call."""


class TokenSource:
    """The token of one provider on one event loop. Synchronous but for what says ``async``."""

    def __init__(self, provider: Any, loop: object) -> None:
        self.provider = provider
        self.loop = loop
        self.fetched_at = 0.0
        """When the token came, in monotonic seconds."""
        self._token: Token | None = None
        self.margin_s = 0.0
        """What must be left of its life for a new connection, whose session ends with it.

        Brokers count whole seconds, and the way from the provider takes time: the end is sooner than it seems.
        """
        self._flight: Waiter[None] | None = None
        """Done when the fetch that is under way has ended, however it did; None while there is none."""
        self._failures = 0
        """Fetches that failed and tokens that were refused, in a row."""
        self._error: KafkaError | None = None
        self._retry_at = 0.0
        self._calls = _Calls()

    @property
    def current(self) -> Token | None:
        """The token, while it can be used."""
        token = self._token
        if token is None:
            return None
        if token.expires_at is None:
            return token if time.monotonic() < self.fetched_at + KEPT_WITHOUT_END_S else None
        return token if time.time() < token.expires_at - self.margin_s else None

    async def token(self, fetching: Fetching) -> Token:
        """The current one, else a new one.

        Raises `TokenProviderError` (retriable) or `SaslAuthenticationFailedError`; where the provider failed and is not
        to be called again soon, the same error again.
        """
        while (token := self.current) is None:
            await self.refresh(fetching)
        return token

    async def refresh(self, fetching: Fetching) -> None:
        """Have the provider called, unless it is already; the token so far is kept until the new one is there.

        Raises as `token` does.
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
        """A broker has taken the token."""
        self._failures = 0
        self._error = None

    def refused(self, token: Token, error: KafkaError, backoff: Backoff) -> None:
        """A broker has not: it is not used again, and the provider is asked for another one after a while."""
        if self._token is token:
            self._token = None
            self._note(error, backoff)

    async def _fly(self, flight: Waiter[None], fetching: Fetching) -> None:
        """The call that is under way, in a task that no connection's set-up can cancel."""
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
                # Also where this client ends meanwhile: those of others that wait go on without it.
                flight.set_result(None)

    def _note(self, error: KafkaError, backoff: Backoff) -> None:
        self._failures += 1
        self._error = without_frames(error)
        self._retry_at = time.monotonic() + backoff.delay_s(self._failures)

    async def _fetch(self, fetching: Fetching) -> KafkaError | None:
        """Take a new token, or return why there is none: raised here, the error would hold what was half done."""
        try:
            with anyio.fail_after(fetching.timeout_s):
                token = await self._ask()
        except TimeoutError:
            return TokenProviderError(f"the token provider has not answered within {fetching.timeout_s * 1000:.0f} ms")
        except KafkaError as error:
            if isinstance(error, TokenProviderError | SaslAuthenticationFailedError):
                return without_frames(error)
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
                return TokenProviderError(f"the token provider gave a token that ended {-left_s:.1f} s ago")
            self.margin_s = min(MARGIN_S, left_s * MARGIN_PART)
        self._token = token
        self.fetched_at = time.monotonic()
        if not isinstance(self._error, SaslAuthenticationFailedError):
            self.accepted()
        return None

    async def _ask(self) -> Token:
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
                f"the token provider must give a str or a Token, not {type(given).__name__}"
            )
        extensions = getattr(provider, "extensions", None)
        if not callable(extensions):
            return given
        return Token(given.value, given.expires_at, await self._calls.call(extensions, self) or {})


class _Calls:
    """Calls of the application's provider: coroutine functions are awaited, others run in threads."""

    def __init__(self) -> None:
        self._threads = BlockingCalls("token provider", at_once=1, max_lost=_MAX_LOST)

    async def call(self, function: Callable[[], Any], source: TokenSource) -> Any:
        """What it returns. The source lives on for as long as the call does, though all clients may be gone by then."""
        if inspect.iscoroutinefunction(function_of(function)):
            return await function()
        if self._threads.full:
            raise TokenProviderError(f"{self._threads.running} calls of the token provider have not returned")
        given = await self._threads.run(partial(_call, function, source))
        return await given if isinstance(given, Awaitable) else given


def _call(function: Callable[[], Any], _: TokenSource) -> Any:
    return function()


_sources: WeakValueDictionary[tuple[int, int], TokenSource] = WeakValueDictionary()


def source_of(provider: Any) -> TokenSource:
    """The running event loop's only source for a provider: all clients that are given the same object share it."""
    loop = loop_token()
    # A source keeps both alive, so that nothing else can have their identities while it is found here.
    key = (id(loop), id(provider))
    source = _sources.get(key)
    if source is None:
        source = _sources[key] = TokenSource(provider, loop)
    return source

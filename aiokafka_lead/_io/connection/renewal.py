"""Replacing a connection before its session ends (KIP-368).

Java authenticates again on the current connection, while requests wait. Here, requests wait only for responses to
earlier requests, not for TLS, the SASL exchange or a token provider. The new login may also use another principal.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio

from ..._core.backoff import Backoff
from ..._options.logs import ClientLog
from ...errors import KafkaConnectionError, KafkaError
from ..loop import sleep_until
from .connection import Connection

_BACKOFF = Backoff(100, 1_000)
"""Delays between attempts. The current connection stays usable."""
_LEAST_DELAY = 1 / 8
"""Minimum delay as a fraction of the remaining time.

A token provider may return the same token for minutes, and each attempt costs the broker a login.
"""

_GAIN_S = 0.5
"""Number of seconds by which a new session must outlast the current one. With the same token, it would not."""


class Renewal:
    """Opens the successor of the connection ``current`` before its session ends, and lets the successor take over."""

    def __init__(
        self,
        current: Connection,
        new: Callable[[], Connection],
        set_up: Callable[[Callable[[], Connection]], Awaitable[Connection]],
        log: ClientLog,
        moved_within_s: float,
    ) -> None:
        """Replace ``current`` by a connection that ``new`` creates and ``set_up`` makes ready.

        ``set_up`` may raise an error. ``moved_within_s`` is the time limit of a request, and of moving the state bound
        to ``current``.
        """
        self._current = current
        self._new = new
        self._set_up = set_up
        self._log = log
        self._moved_within_s = moved_within_s
        self._attempt: Connection | None = None
        self._done = False
        """True once the connection of the current attempt is ready."""
        self._scope = anyio.CancelScope()

    async def run(self) -> None:
        """Replace the connection before its session ends. Return once the new connection is ready.

        Failed attempts are repeated after a backoff. `stop` ends the task early.
        """
        with self._scope:
            await sleep_until(self._current.session.renew_at)
            failures = 0
            while not await self._try():
                failures += 1
                left_s = self._current.session.retire_at - time.monotonic()
                await anyio.sleep(max(_BACKOFF.delay_s(failures), left_s * _LEAST_DELAY))

    async def _try(self) -> bool:
        """Open a new connection and move the state of the current one to it. Return True if it takes over."""
        try:
            attempt = await self._set_up(self._new_attempt)
        except KafkaError as error:
            if not self._scope.cancel_called:  # otherwise, `stop` has ended the attempt
                self._end_attempt(error)
                self._log.warning("the session ends soon, and no new connection could be opened yet: %s", error)
            return False
        if attempt.session.ends_at < self._current.session.ends_at + _GAIN_S:
            same = KafkaConnectionError("the new session would not outlast the current one", broker=attempt.label)
            attempt.close(same, expected=True)
            return False
        self._done = True
        self._current.handing_over = True
        with anyio.move_on_after(self._moved_within_s):
            for move in self._current.on_successor:
                await move(attempt)
        self._current.step_down()
        return True

    def take(self) -> Connection | None:
        """Return the new connection, which the caller then owns, or None if it is not ready or has closed."""
        if not self._done or self._attempt is None or self._attempt.closed_by is not None:
            return None
        taken, self._attempt = self._attempt, None
        return taken

    def stop(self) -> None:
        """Stop renewing, and close the new connection unless it has been taken."""
        self._scope.cancel()
        self._end_attempt(KafkaConnectionError("no longer wanted", broker=self._current.label))

    def _new_attempt(self) -> Connection:
        self._attempt = self._new()
        return self._attempt

    def _end_attempt(self, error: KafkaError) -> None:
        if self._attempt is not None:
            self._attempt.close(error, expected=True)

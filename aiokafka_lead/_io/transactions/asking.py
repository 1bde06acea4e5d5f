"""Requests to coordinators, with retries. A wait blocks only the calling task."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ..._core.backoff import Backoff
from ..._core.connection.in_flight import OnDone
from ..._core.transactions.errand import Errand
from ..._core.transactions.verdicts import Call, Verdict, verdict_of
from ..._wire import ApiVersions, Request
from ...errors import ConcurrentTransactionsError, KafkaError
from ..client import Client
from ..connection.connection import Connection
from ..deadline import Deadline
from ..group.coordinators import CoordinatorKind, Coordinators, Key, moved

SOON_MS = 1
"""Milliseconds after which a request is repeated that was refused because the previous transaction is still ending.

Ending takes milliseconds. The delay must also be short because a coordinator without other requests may need this
request to proceed (see `EndPace`).
"""

LONGEST_MS = 20
"""Maximum of these delays in milliseconds. Each is half of the time passed so far."""

Shape = Callable[[ApiVersions], tuple[Request[Any], int]]
"""Function that returns a request and its version, given the versions that a broker supports."""


def soon_s(passed_s: float) -> float:
    """Return the delay in seconds before a request is repeated that was refused with `ConcurrentTransactionsError`.

    ``passed_s`` is the time in seconds since the first refusal. The coordinator is usually ready soon.
    """
    return min(LONGEST_MS / 1000, max(SOON_MS / 1000, passed_s / 2))


class Asking:
    """Sends requests to the coordinators of a transactional id and of groups. Repeats them until they are answered."""

    def __init__(self, client: Client, coordinators: Coordinators, transactional_id: str) -> None:
        self._client = client
        self._coordinators = coordinators
        self._own: Key = (CoordinatorKind.TRANSACTION, transactional_id)
        config = client.config
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._longest_s = config.retry_backoff_ms / 1000

    def at_once(self, errand: Errand, answered: Callable[[Verdict | None], None]) -> bool:
        """Send the errand's first request without a task. Return False if this would have to wait.

        ``answered`` is called with the verdict, or None if the errand has advanced. `run` continues the errand with
        this verdict.
        """
        node_id = self._coordinators.known(*self._own)
        if node_id is None:
            return False
        done = False

        def on_done(response: Any, error: KafkaError | None) -> None:
            nonlocal done
            if done:
                return  # the response arrived after the request had been given up
            done = True
            self._coordinators.end_wait(wait)
            if error is None:
                verdict = errand.answered(response)
            else:
                errand.lost()
                verdict = errand.failed(error)
            self._coordinators.answered(*self._own, node_id, errand.latest, wait.since)
            answered(verdict)

        wait = self._coordinators.begin_wait(self._own, node_id, lambda: on_done(None, moved(node_id)))
        if self.submit(errand.request, on_done) is None:
            self._coordinators.end_wait(wait)
            return False
        return True

    def submit(self, shape: Shape, on_done: OnDone) -> int | None:
        """Send a request to the transaction coordinator now, and return its node id.

        Returns None if no request can be sent now. ``on_done`` is called with the response or the error.
        """
        connection = self._coordinators.ready(*self._own)
        if connection is None:
            return None
        try:
            request, version = shape(connection.versions)
            connection.submit(request, on_done, version=version)
        except KafkaError:
            return None
        return connection.node_id

    async def run(self, errand: Errand, advanced: Callable[[Errand], None], verdict: Verdict | None = None) -> None:
        """Carry out the rest of an errand.

        ``advanced`` is called after each step. ``verdict`` comes from `at_once`.
        """
        failures, since = 0, time.monotonic()
        node_id = None  # `at_once` does not report which coordinator it has asked, so the next request may go to any
        while errand.call is not None:
            if verdict is not None:
                failures += 1
                await self._back_off(self._own, node_id, errand.latest, failures, since)
            node_id, verdict = await self._ask(errand)
            if verdict is None:
                failures, since = 0, time.monotonic()
                advanced(errand)

    async def _ask(self, errand: Errand) -> tuple[int | None, Verdict | None]:
        """Send the next request.

        Returns the coordinator's node id (None if it could not be reached) and the verdict.
        """
        try:
            connection = await self._coordinator(self._own)
        except KafkaError as error:
            return None, errand.failed(error)
        asked_at = time.monotonic()
        verdict: Verdict | None
        try:
            request, version = errand.request(connection.versions)
            verdict = errand.answered(await self._sent(self._own, connection, request, version, errand.lost))
        except KafkaError as error:
            verdict = errand.failed(error)
        self._coordinators.answered(*self._own, connection.node_id, errand.latest, asked_at)
        return connection.node_id, verdict

    async def until_taken(
        self,
        call: Call,
        kind: CoordinatorKind,
        key: str,
        shape: Shape,
        read: Callable[[Any], KafkaError | None],
        lost: Callable[[], None],
        wanted: Callable[[], bool],
        hopeless: Callable[[int], Awaitable[KafkaError | None]] | None = None,
    ) -> KafkaError | None:
        """Repeat a request until it is accepted or ``wanted`` returns False. Return None, or the final error.

        ``lost`` is called for each lost response. After a retriable refusal, ``hopeless`` is called with the node id.
        It returns an error if retries are useless.
        """
        failures, since = 0, time.monotonic()
        while wanted():
            node_id, error = await self._ask_once((kind, key), shape, read, lost)
            if error is None or verdict_of(call, type(error)) is not Verdict.RETRY:
                return error
            final = None if hopeless is None or node_id is None else await hopeless(node_id)
            if final is not None:
                return final
            if error.refreshes_metadata:
                self._client.metadata.request_update()
            failures += 1
            await self._back_off((kind, key), node_id, error, failures, since)
        return None

    async def _ask_once(
        self, key: Key, shape: Shape, read: Callable[[Any], KafkaError | None], lost: Callable[[], None]
    ) -> tuple[int | None, KafkaError | None]:
        """Send a request.

        Returns the coordinator's node id (None if it could not be reached) and the error or None.
        """
        try:
            connection = await self._coordinator(key)
        except KafkaError as failure:
            return None, failure
        asked_at = time.monotonic()
        error: KafkaError | None
        try:
            request, version = shape(connection.versions)
            error = read(await self._sent(key, connection, request, version, lost))
        except KafkaError as failure:
            error = failure
        self._coordinators.answered(*key, connection.node_id, error, asked_at)
        return connection.node_id, error

    async def _coordinator(self, key: Key) -> Connection:
        return await self._coordinators.connection(*key, Deadline(self._client.config.request_timeout_ms))

    async def _sent(
        self, key: Key, connection: Connection, request: Request[Any], version: int, lost: Callable[[], None]
    ) -> Any:
        """Send a request and return the response. If it may have been executed without a response, call ``lost``."""
        answered = False
        try:
            with self._coordinators.waiting(*key, connection.node_id):
                response = await connection.request(request, version=version)
            answered = True
            return response
        finally:
            if not answered:
                lost()

    async def _back_off(
        self, key: Key, node_id: int | None, error: KafkaError | None, failures: int, since: float
    ) -> None:
        if isinstance(error, ConcurrentTransactionsError):
            await anyio.sleep(min(self._longest_s, soon_s(time.monotonic() - since)))
        else:
            await self._coordinators.back_off(*key, node_id, self._backoff.delay_s(failures))

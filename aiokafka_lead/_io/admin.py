"""Sending admin requests to the right brokers, with retries."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import TypeVar

import anyio

from .._core.admin import BY_CONTROLLER, BY_COORDINATOR, BY_LEADER, RetryRule, changes, note_unanswered, successes
from .._core.trust import Trust
from .._wire import Request, Response
from ..errors import KafkaError, RequestTimedOutError
from ..errors.base import own_copy
from ..types import TopicPartition
from .admin_requests import Requests, Route
from .connection.connection import Connection
from .deadline import Deadline
from .group.coordinators import CoordinatorKind

FIND_WITHIN_MS = 1000.0
"""Milliseconds for which keys with a known coordinator wait for a key whose coordinator is missing or unreachable."""

K = TypeVar("K")
I = TypeVar("I")  # noqa: E741 - the item to a K(ey) and V(alue)
V = TypeVar("V")
R = TypeVar("R", bound=Response)


D = TypeVar("D", bound=Route | int)


class Calls(Requests):
    """Sends the requests of an admin client to the right brokers, and retries the items that fail.

    The methods differ in how they find the brokers: by partition leader, by coordinator, or all brokers.
    """

    async def settle(
        self,
        items: Mapping[K, I],
        ask: Callable[[Mapping[K, I]], Awaitable[Mapping[K, V | KafkaError]]],
        retry: RetryRule,
        deadline: Deadline,
    ) -> dict[K, V]:
        """Return the result of each item. Items with retriable errors are requested again until the deadline.

        ``ask`` requests the given items, and returns the result or the error of each. ``retry`` decides which errors
        are retriable. If any item has failed in the end, raises the first error. Its ``outcomes`` contain the result of
        every item, and a note names the failed items. An error raised by the first call of ``ask`` is raised unchanged.
        """
        pending = dict(items)
        settled: dict[K, V | KafkaError] = {}
        unanswered: dict[K, KafkaError] = {}
        deadline.unanswered = None
        tries = 0
        while pending:
            tries += 1
            try:
                outcomes = await ask(pending)
            except KafkaError as error:
                if tries == 1:
                    raise
                settled.update(dict.fromkeys(pending, error))
                break
            again: KafkaError | None = None
            for key in list(pending):
                outcome = outcomes.get(key)
                if isinstance(outcome, KafkaError) and (retry.allows(outcome, tries) or deadline.cut_short(outcome)):
                    again = outcome
                    if changes(outcome.api):
                        unanswered.setdefault(key, outcome)
                    continue
                if key not in outcomes:
                    outcome = KafkaError(f"the broker's response lacks {key}")
                settled[key] = outcome  # type: ignore[assignment]
                del pending[key]
            if again is not None:
                try:
                    await self.pause(tries, again, deadline)
                except RequestTimedOutError as error:
                    settled.update(dict.fromkeys(pending, error))
                    break
        for key, found in settled.items():
            doubt = unanswered.get(key, deadline.unanswered)
            if doubt is not None and isinstance(found, KafkaError):
                settled[key] = own = own_copy(found)  # other items may have the same one
                note_unanswered(own, doubt)
        return successes({key: settled[key] for key in items})

    async def by_route(
        self,
        items: Mapping[K, I],
        route: Callable[[K], D],
        ask: Callable[[D, Mapping[K, I], Deadline], Awaitable[Mapping[K, V]]],
        deadline: Deadline,
    ) -> dict[K, V]:
        """Request the items of each destination, concurrently. A failure affects only the items of that destination.

        ``ask`` receives a deadline for each destination, which stores the errors of that destination's attempts.
        """
        routed: dict[D, dict[K, I]] = {}
        for key, item in items.items():
            routed.setdefault(route(key), {})[key] = item
        outcomes: dict[K, V | KafkaError] = {}

        async def ask_one(to: D, mine: Mapping[K, I]) -> None:
            try:
                outcomes.update(await ask(to, mine, copy(deadline)))
            except KafkaError as error:
                outcomes.update(dict.fromkeys(mine, error) if error.outcomes is None else error.outcomes)

        async with anyio.create_task_group() as asking:
            for to, mine in routed.items():
                asking.start_soon(ask_one, to, mine)
        return successes({key: outcomes[key] for key in items})

    async def batch(
        self,
        items: Mapping[K, I],
        to: Route | int,
        build: Callable[[Mapping[K, I]], Request[R]],
        read: Callable[[R], Iterable[tuple[K, V | KafkaError]]],
        deadline: Deadline,
        retry: RetryRule = BY_CONTROLLER,
    ) -> dict[K, V]:
        """Send one request for several items and return their results.

        ``build`` makes the request, and ``read`` yields the result or the error of each item in the response. Items
        with errors that ``retry`` accepts are sent again, as in `settle`.
        """

        async def ask(pending: Mapping[K, I]) -> Mapping[K, V | KafkaError]:
            return dict(read(await self.call(to, build(pending), deadline)))

        return await self.settle(items, ask, retry, deadline)

    async def by_leader(
        self,
        items: Mapping[TopicPartition, I],
        build: Callable[[Mapping[TopicPartition, I]], Request[R]],
        read: Callable[[R], Iterable[tuple[TopicPartition, V | KafkaError]]],
        deadline: Deadline,
        lowest: Callable[[I], int | None] = lambda _: None,
    ) -> dict[TopicPartition, V]:
        """Send requests for partitions to their leaders, concurrently. If leaders change, follow them.

        Each attempt requests metadata from another broker, because a broker that lags behind would name the same
        leaders again. A leader that keeps refusing is asked for metadata last. ``lowest`` is the lowest version of the
        request that an item needs. Items that need different versions are sent in different requests, so that they do
        not fail together.
        """
        trust = defaultdict[int, Trust](Trust)
        asked: set[int] = set()

        async def ask(pending: Mapping[TopicPartition, I]) -> Mapping[TopicPartition, V | KafkaError]:
            outcomes: dict[TopicPartition, V | KafkaError] = {}
            requests: dict[tuple[int, int | None], dict[TopicPartition, I]] = {}
            now = time.monotonic()
            doubted = {node_id for node_id, one in trust.items() if one.in_doubt(now, self._patience_s)}
            for partition, leader in (await self.leaders(pending, asked, doubted, deadline)).items():
                if isinstance(leader, KafkaError):
                    outcomes[partition] = leader
                else:
                    item = pending[partition]
                    requests.setdefault((leader, lowest(item)), {})[partition] = item

            async def ask_node(node_id: int, version: int | None, mine: Mapping[TopicPartition, I]) -> None:
                asked_at = time.monotonic()
                try:
                    outcomes.update(read(await self.once(node_id, build(mine), deadline, lowest=version)))
                except KafkaError as error:
                    outcomes.update(dict.fromkeys(mine, error))
                if any(isinstance(outcomes.get(partition), KafkaError) for partition in mine):
                    trust[node_id].refused(asked_at, time.monotonic(), self._patience_s)

            async with anyio.create_task_group() as nodes:
                for (node_id, version), mine in requests.items():
                    nodes.start_soon(ask_node, node_id, version, mine)
            return outcomes

        return await self.settle(items, ask, BY_LEADER, deadline)

    async def by_coordinator(
        self,
        kind: CoordinatorKind,
        keys: Iterable[str],
        build: Callable[[str], Request[R]],
        read: Callable[[str, int, R], V | KafkaError],
        deadline: Deadline,
        retry: RetryRule = BY_COORDINATOR,
    ) -> dict[str, V]:
        """Send a request for each key to its coordinator, concurrently. Follow coordinators that move.

        ``read`` is called with the key, the coordinator and the response.
        """

        async def ask_each(connection: Connection, mine: Sequence[str]) -> Mapping[str, V | KafkaError]:
            outcomes: dict[str, V | KafkaError] = {}

            async def ask_about(key: str) -> None:
                try:
                    response = await connection.request(build(key), timeout_ms=deadline.request_ms())
                    outcomes[key] = read(key, connection.node_id, response)
                except KafkaError as error:
                    outcomes[key] = error

            async with anyio.create_task_group() as asking:
                for key in mine:
                    asking.start_soon(ask_about, key)
            return outcomes

        return await self._at_coordinators(kind, keys, ask_each, deadline, retry)

    async def by_coordinators(
        self,
        kind: CoordinatorKind,
        keys: Iterable[str],
        build: Callable[[Sequence[str]], Request[R]],
        read: Callable[[int, R], Iterable[tuple[str, V | KafkaError]]],
        deadline: Deadline,
        retry: RetryRule = BY_COORDINATOR,
    ) -> dict[str, V]:
        """Send one request with all its keys to each coordinator. Follow coordinators that move.

        ``read`` is called with the coordinator's node id and the response, and yields the result or the error of each
        key.
        """

        async def ask_once(connection: Connection, mine: Sequence[str]) -> Mapping[str, V | KafkaError]:
            response = await connection.request(build(mine), timeout_ms=deadline.request_ms())
            return dict(read(connection.node_id, response))

        return await self._at_coordinators(kind, keys, ask_once, deadline, retry)

    async def at_coordinator(
        self,
        key: str,
        ask: Callable[[Connection, Mapping[K, I]], Awaitable[Mapping[K, V | KafkaError]]],
        items: Mapping[K, I],
        deadline: Deadline,
    ) -> dict[K, V]:
        """Call ``ask`` with a connection to the coordinator of group ``key`` and the items.

        Items with retriable errors are requested again, as in `settle`. If the coordinator moves, the call follows it.
        """

        async def ask_it(pending: Mapping[K, I]) -> Mapping[K, V | KafkaError]:
            connection = await self._coordinators.connection(CoordinatorKind.GROUP, key, deadline)
            asked_at = time.monotonic()
            outcomes: Mapping[K, V | KafkaError]
            try:
                with self._coordinators.waiting(CoordinatorKind.GROUP, key, connection.node_id):
                    outcomes = await ask(connection, pending)
            except KafkaError as error:
                outcomes = dict.fromkeys(pending, error)
            for found in outcomes.values():
                self._answered(CoordinatorKind.GROUP, key, connection, found, asked_at)
            return outcomes

        return await self.settle(items, ask_it, BY_COORDINATOR, deadline)

    async def _at_coordinators(
        self,
        kind: CoordinatorKind,
        keys: Iterable[str],
        ask_node: Callable[[Connection, Sequence[str]], Awaitable[Mapping[str, V | KafkaError]]],
        deadline: Deadline,
        retry: RetryRule,
    ) -> dict[str, V]:
        """Look up the coordinators of all keys, and call ``ask_node`` once for each coordinator, with its keys.

        A key whose coordinator is not found within `FIND_WITHIN_MS` is tried again later, without delaying others.
        """

        async def ask(pending: Mapping[str, None]) -> Mapping[str, V | KafkaError]:
            outcomes: dict[str, V | KafkaError] = {}
            by_node: dict[Connection, list[str]] = {}
            await self._coordinators.find_together(kind, pending, deadline)

            async def find(key: str) -> None:
                # Do not wait until the deadline: `settle` tries again after the coordinators of other keys have been
                # asked.
                attempt = Deadline(min(deadline.left_ms(), FIND_WITHIN_MS))
                try:
                    connection = await self._coordinators.connection(kind, key, attempt)
                except KafkaError as error:
                    outcomes[key] = error
                else:
                    by_node.setdefault(connection, []).append(key)

            async def ask_one_node(connection: Connection, mine: Sequence[str]) -> None:
                asked_at = time.monotonic()
                try:
                    with self._coordinators.waiting(kind, mine[0], connection.node_id):
                        outcomes.update(await ask_node(connection, mine))
                except KafkaError as error:
                    outcomes.update(dict.fromkeys(mine, error))
                for key in mine:
                    self._answered(kind, key, connection, outcomes.get(key), asked_at)

            async with anyio.create_task_group() as finding:
                for key in pending:
                    finding.start_soon(find, key)
            async with anyio.create_task_group() as asking:
                for connection, mine in by_node.items():
                    asking.start_soon(ask_one_node, connection, mine)
            return outcomes

        return await self.settle(dict.fromkeys(keys), ask, retry, deadline)

    def _answered(
        self, kind: CoordinatorKind, key: str, connection: Connection, outcome: object, asked_at: float
    ) -> None:
        error = outcome if isinstance(outcome, KafkaError) else None
        self._coordinators.answered(kind, key, connection.node_id, error, asked_at)

    async def by_broker(
        self, build: Callable[[], Request[R]], deadline: Deadline, retry: RetryRule = BY_COORDINATOR
    ) -> tuple[dict[int, R], KafkaError | None]:
        """Send the same request to every broker, concurrently.

        Returns a dict from broker id to response, and the first failure, or None if no broker has failed. The failure's
        ``outcomes`` map the id of each failed broker to its error. A broker that leaves the cluster during the call is
        in neither.
        """
        nodes = await self.broker_ids(deadline)
        again = False

        async def ask(pending: Mapping[int, None]) -> Mapping[int, R | KafkaError | None]:
            nonlocal again
            present = await self.broker_ids(deadline) if again else nodes
            again = True
            outcomes: dict[int, R | KafkaError | None] = dict.fromkeys(pending.keys() - present)

            async def ask_node(node_id: int) -> None:
                try:
                    outcomes[node_id] = await self.once(node_id, build(), deadline)
                except KafkaError as error:
                    outcomes[node_id] = error

            async with anyio.create_task_group() as asking:
                for node_id in pending.keys() & present:
                    asking.start_soon(ask_node, node_id)
            return outcomes

        found: Mapping[int, R | KafkaError | None]
        failed: KafkaError | None = None
        try:
            found = await self.settle(dict.fromkeys(sorted(nodes)), ask, retry, deadline)
        except KafkaError as error:
            if error.outcomes is None:
                raise
            found, failed = error.outcomes, error
            failed.outcomes = {node_id: each for node_id, each in found.items() if isinstance(each, KafkaError)}
        answers = {
            node_id: each for node_id, each in found.items() if each is not None and not isinstance(each, KafkaError)
        }
        return answers, failed

"""Which broker coordinates a group or a transactional id: the one cache of it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from enum import IntEnum

from ..._core.backoff import Backoff
from ..._core.metadata.types import Broker
from ..._wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ...errors import KafkaError, RequestTimedOutError, error_for_code
from ...errors.base import own_copy
from ...errors.shown import shown
from ..client import Client
from ..connection.brokers import NodeState
from ..connection.connection import Connection
from ..connection.settings import AnyLane
from ..deadline import Deadline
from ..loop import Waiter, sleep_until

__all__ = ["CoordinatorKind", "Coordinators"]

FIRST_VERSION_WITH_SEVERAL_KEYS = 4

FIRST_WAIT_MS = 10
"""Before the second look-up: brokers elect another coordinator as they elect leaders, mostly within milliseconds."""


class CoordinatorKind(IntEnum):
    """What FindCoordinator calls the key's type."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


Key = tuple[CoordinatorKind, str]


class Coordinators:
    """Finds coordinators, once for any number of callers, and keeps what it found until someone says it is wrong."""

    def __init__(self, client: Client) -> None:
        self._client = client
        config = client.config
        self.backoff = Backoff(min(FIRST_WAIT_MS, config.retry_backoff_ms), config.retry_backoff_max_ms)
        """Between two tries in a row to find the coordinator, or to find it where it was found."""
        self._found: dict[Key, int] = {}
        self._asking: dict[Key, Waiter[int]] = {}

    @property
    def rebalance_lane(self) -> AnyLane:
        """For what a coordinator holds until all members are there."""
        return self._client.rebalance_lane

    def known(self, kind: CoordinatorKind, key: str) -> int | None:
        """The coordinator's node id, if it is known."""
        return self._found.get((kind, key))

    def forget(self, kind: CoordinatorKind, key: str, node_id: int) -> None:
        """This node is not, or no longer, the coordinator: the next `connection` asks anew."""
        if self._found.get((kind, key)) == node_id:
            del self._found[kind, key]

    def ready(self, kind: CoordinatorKind, key: str) -> Connection | None:
        """A connection to the coordinator that takes a request now; None where `connection` would have to wait."""
        node_id = self._found.get((kind, key))
        connection = None if node_id is None else self._client.brokers.ready(node_id, self._client.coordinator_lane)
        return connection if connection is not None and connection.can_send() else None

    async def connection(
        self, kind: CoordinatorKind, key: str, deadline: Deadline, lane: AnyLane | None = None
    ) -> Connection:
        """A ready connection to the coordinator; ``lane`` None: the client's own for that.

        Raises `RequestTimedOutError` at the deadline (``time.monotonic()``) with what was tried last, and what cannot
        be helped by waiting, such as `GroupAuthorizationFailedError`, at once.
        """
        failures = 0
        while True:
            node_id: int | None = None
            try:
                node_id = await self._node(kind, key, deadline)
                lost = self._client.brokers.last_error(node_id)
                if lost is not None and self._client.brokers.state(node_id) is NodeState.BACKOFF:
                    # The brokers may soon name another one: to ask them again takes less than its reconnect backoff.
                    raise own_copy(lost)
                return await self._client.brokers.get(
                    node_id, self._client.coordinator_lane if lane is None else lane, deadline.left_ms()
                )
            except KafkaError as error:
                if not error.retriable:
                    raise
                if node_id is not None:
                    self.forget(kind, key, node_id)
                failures += 1
                now = time.monotonic()
                retry_at = now + self.backoff.delay_s(failures)
                if retry_at >= deadline.at:
                    raise RequestTimedOutError(
                        f"the coordinator of {kind.name.lower()} {key!r} could not be reached; the last try: {error}"
                    ) from error
                await sleep_until(retry_at)

    async def find_together(self, kind: CoordinatorKind, keys: Iterable[str], deadline: Deadline) -> None:
        """Learn the coordinators of many keys by one request; those that it does not name are asked for one by one.

        A broker below Kafka 2.8 takes one key at a time, and is not asked here.
        """
        unknown = [key for key in keys if (kind, key) not in self._found]
        if len(unknown) < 2:
            return
        try:
            connection = await self._client.any_connection(timeout_ms=deadline.left_ms())
            if connection.versions.version_for(FindCoordinatorRequest) < FIRST_VERSION_WITH_SEVERAL_KEYS:
                return
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=unknown)
            response = await connection.request(request, timeout_ms=deadline.left_ms())
        except KafkaError as error:
            if not error.retriable:
                raise
            return
        for entry in response.coordinators:
            if not entry.error_code:
                self._client.brokers.add_node(Broker(entry.node_id, entry.host, entry.port))
                self._found[kind, entry.key] = entry.node_id

    async def _node(self, kind: CoordinatorKind, key: str, deadline: Deadline) -> int:
        known = self._found.get((kind, key))
        if known is not None:
            return known
        asking = self._asking.get((kind, key))
        if asking is None:
            asking = self._asking[kind, key] = Waiter()
            # A task of its own: the call that asked first may be cancelled while others still wait.
            self._client.spawn(self._ask, kind, key, asking, name=f"find coordinator of {key}")
        try:
            return await asking.wait(deadline.left_s())
        except TimeoutError:
            raise RequestTimedOutError(
                f"the coordinator of {kind.name.lower()} {key!r} was not found in time"
            ) from None

    async def _ask(self, kind: CoordinatorKind, key: str, asking: Waiter[int]) -> None:
        try:
            broker = await self._find(kind, key)
        except KafkaError as error:
            asking.set_error(error)
        else:
            self._client.brokers.add_node(broker)
            self._found[kind, key] = broker.node_id
            asking.set_result(broker.node_id)
        finally:
            del self._asking[kind, key]
            asking.set_error(RequestTimedOutError("the client is being stopped"))

    async def _find(self, kind: CoordinatorKind, key: str) -> Broker:
        connection = await self._client.any_connection()
        version = connection.versions.version_for(FindCoordinatorRequest)
        request = FindCoordinatorRequest()
        if kind is not CoordinatorKind.GROUP:
            request.key_type = kind
        if version >= FIRST_VERSION_WITH_SEVERAL_KEYS:
            request.coordinator_keys = [key]
        else:
            request.key = key
        return _coordinator(await connection.request(request, version=version), key)


def _coordinator(response: FindCoordinatorResponse, key: str) -> Broker:
    code, message = response.error_code, response.error_message
    found = Broker(response.node_id, response.host, response.port)
    for entry in response.coordinators:
        if entry.key == key:
            code, message = entry.error_code, entry.error_message
            found = Broker(entry.node_id, entry.host, entry.port)
    if code:
        kind = error_for_code(code)
        raise kind(f"no coordinator of {key!r}: {shown(message or '') or kind.__doc__}")
    return found

"""Look-up and caching of the coordinators of groups and transactional ids."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import IntEnum
from functools import partial

import anyio

from ... import errors
from ..._core.backoff import Backoff
from ..._core.inquiry import UNANSWERED_S, CoordinatorInquiry, evades
from ..._core.metadata.reachability import NodeState
from ..._core.metadata.types import Broker
from ..._core.trust import patience_of
from ..._wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ...errors.base import own_copy
from ...errors.shown import shown
from ..asking_around import SECOND_AFTER_S, ask_anyone
from ..client import Client
from ..connection.connection import Connection
from ..connection.settings import AnyLane
from ..deadline import Deadline
from ..loop import Waiter, sleep_until

FIRST_VERSION_WITH_SEVERAL_KEYS = 4

NOT_AVAILABLE = errors.CoordinatorNotAvailableError.code

FIRST_WAIT_MS = 10
"""Delay in milliseconds before the second look-up. A new coordinator is usually elected within milliseconds."""


class CoordinatorKind(IntEnum):
    """The type of the key in a FindCoordinator request: a group, a transactional id, or a share group's partition."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


Key = tuple[CoordinatorKind, str]
"""Identifies a coordinator: the type of the key, and the group or the transactional id."""


class Wait:
    """One call that is waiting for a coordinator's response, and the function that ends the wait early."""

    __slots__ = ("give_up", "key", "node_id", "since")

    def __init__(self, key: Key, node_id: int, give_up: Callable[[], object]) -> None:
        self.key = key
        self.node_id = node_id
        self.give_up: Callable[[], object] | None = give_up
        """Called if another broker becomes the coordinator.

        It is None after the wait, which breaks a reference cycle.
        """
        self.since = time.monotonic()


class Coordinators:
    """Finds coordinators, with one request for concurrent callers.

    Caches a coordinator until it turns out to be wrong.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        config = client.config
        self.backoff = Backoff(min(FIRST_WAIT_MS, config.retry_backoff_ms), config.retry_backoff_max_ms)
        """Delay between attempts to find the coordinator or to connect to it."""
        self._patience_s = patience_of(config.retry_backoff_max_ms)
        self._inquiries: dict[Key, CoordinatorInquiry] = {}
        self._asking: dict[Key, Waiter[int]] = {}
        self._waits: set[Wait] = set()
        self._watching = False
        """True while the task `_watch` is running."""

    @property
    def rebalance_lane(self) -> AnyLane:
        """The lane for requests that a coordinator holds until all members have joined."""
        return self._client.rebalance_lane

    def known(self, kind: CoordinatorKind, key: str) -> int | None:
        """Return the coordinator's node id, or None if it is not known."""
        inquiry = self._inquiries.get((kind, key))
        return None if inquiry is None else inquiry.node_id

    def doubted_since(self, kind: CoordinatorKind, key: str) -> float | None:
        """Return the time since which no coordinator has served this key, or None.

        The time is from ``time.monotonic()``. None means that a coordinator has served the key recently.
        """
        inquiry = self._inquiries.get((kind, key))
        return None if inquiry is None else inquiry.doubted_since(time.monotonic())

    def answered(
        self, kind: CoordinatorKind, key: str, node_id: int, error: errors.KafkaError | None, asked_at: float
    ) -> bool:
        """Process the result of a request to the coordinator: a response (``error`` is None) or an error.

        ``asked_at`` is the time at which the request was sent. Returns True if the coordinator will be looked up again.
        """
        return self._inquiry((kind, key)).answered(node_id, error, asked_at, time.monotonic())

    def ready(self, kind: CoordinatorKind, key: str) -> Connection | None:
        """Return a connection to the coordinator that can send now, or None if `connection` would have to wait."""
        node_id = self.known(kind, key)
        connection = None if node_id is None else self._client.brokers.ready(node_id, self._client.coordinator_lane)
        return connection if connection is not None and connection.can_send() else None

    async def connection(
        self, kind: CoordinatorKind, key: str, deadline: Deadline, lane: AnyLane | None = None
    ) -> Connection:
        """Return a ready connection to the coordinator, on ``lane`` or on the client's lane for coordinators.

        Raises `RequestTimedOutError` at the deadline, with each broker's answer. Non-retriable errors, such as
        `GroupAuthorizationFailedError`, are raised at once.
        """
        failures = 0
        while True:
            node_id = None
            try:
                node_id = await self._node(kind, key, deadline)
                return await self._connect(kind, key, node_id, deadline, lane)
            except errors.KafkaError as error:
                if not evades(error):
                    raise
                failures += 1
                retry_at = self._retry_at(node_id, error, failures)
                if retry_at >= deadline.at:
                    text = f"the coordinator of {kind.name.lower()} {key!r} could not be reached"
                    raise errors.RequestTimedOutError(f"{text}; {self.said(kind, key) or error.message}") from error
                await sleep_until(retry_at)

    def _retry_at(self, node_id: int | None, error: errors.KafkaError, failures: int) -> float:
        """Return the time of the next attempt after a failure.

        ``node_id`` is the coordinator if it is known. The time is no later than the end of its connection's backoff,
        because the node may be usable then.
        """
        now = time.monotonic()
        reconnect_at = 0.0 if node_id is None else self._client.brokers.retry_at(node_id)
        retry_at = now + self.backoff.after_s(error, failures)
        if not now < reconnect_at < math.inf:
            return retry_at
        later = isinstance(error, errors.MisroutedConnectionError)  # an earlier look-up would have the same result
        return max(retry_at, reconnect_at) if later else min(retry_at, reconnect_at)

    async def _connect(
        self, kind: CoordinatorKind, key: str, node_id: int, deadline: Deadline, lane: AnyLane | None
    ) -> Connection:
        """Return a connection to the coordinator. If it cannot be reached, forget it, so that it is looked up again.

        Waits only briefly for a connection, because another broker may become the coordinator.
        """
        asked_at = time.monotonic()
        brokers = self._client.brokers
        try:
            lost = brokers.last_error(node_id)
            if lost is not None and brokers.state(node_id) is NodeState.BACKOFF:
                # Brokers may soon name another coordinator, and a look-up takes less time than this node's reconnect
                # backoff.
                raise own_copy(lost)
            # A slow attempt to connect continues while the coordinator is looked up again.
            within_ms = min(deadline.left_ms(), SECOND_AFTER_S * 1000)
            return await brokers.get(node_id, self._client.coordinator_lane if lane is None else lane, within_ms)
        except errors.KafkaError as error:
            if error.retriable:
                # If the broker refuses logins for now, retry. Another broker may be the coordinator by then.
                unreachable = (
                    error
                    if isinstance(error, errors.KafkaConnectionError)
                    else errors.KafkaConnectionError(error.message)
                )
                self.answered(kind, key, node_id, unreachable, asked_at)
            raise

    async def back_off(self, kind: CoordinatorKind, key: str, refused_by: int | None, delay_s: float) -> None:
        """Wait for ``delay_s`` seconds after a refusal by the broker ``refused_by``.

        If the coordinator must be looked up, returns as soon as another broker is the coordinator.
        """
        deadline = Deadline(delay_s * 1000)
        if self.known(kind, key) is None:
            with suppress(errors.KafkaError):
                if await self._node(kind, key, deadline) != refused_by:
                    return
        await sleep_until(deadline.at)

    # --- waiting for responses ---------------------------------------------------------------------------------------

    @contextmanager
    def waiting(self, kind: CoordinatorKind, key: str, node_id: int) -> Iterator[None]:
        """In the block, wait for a response of the coordinator ``node_id``.

        Raises `NotCoordinatorError` if the coordinator does not respond and another broker replaces it.
        """
        with anyio.CancelScope() as scope:
            wait = self.begin_wait((kind, key), node_id, scope.cancel)
            try:
                yield
            finally:
                self.end_wait(wait)
        if scope.cancelled_caught:
            raise moved(node_id)

    def begin_wait(self, key: Key, node_id: int, give_up: Callable[[], object]) -> Wait:
        """Call ``give_up`` if the coordinator does not respond and another broker takes over, until `end_wait`."""
        wait = Wait(key, node_id, give_up)
        self._waits.add(wait)
        if not self._watching:
            self._client.spawn(self._watch, name="kafka silent coordinators")
            self._watching = True
        return wait

    def end_wait(self, wait: Wait) -> None:
        """End a wait that `begin_wait` began: the response has arrived, or the call has stopped waiting."""
        self._waits.discard(wait)
        wait.give_up = None

    async def _watch(self) -> None:
        """While calls are waiting, look up the coordinators that do not respond. Other brokers may have taken over."""
        try:
            while self._waits:
                await anyio.sleep(UNANSWERED_S)
                silent_since = time.monotonic() - UNANSWERED_S
                for key, node_id in {(wait.key, wait.node_id) for wait in self._waits if wait.since <= silent_since}:
                    self._inquiry(key).silent(node_id)
                    with suppress(errors.KafkaError):
                        await self._look_up(key)
                for wait in [wait for wait in self._waits if self.known(*wait.key) not in (None, wait.node_id)]:
                    give_up = wait.give_up
                    self.end_wait(wait)
                    if give_up is not None:  # an earlier call of ``give_up`` may have ended this wait
                        give_up()
        finally:
            self._watching = False

    # --- look-up -----------------------------------------------------------------------------------------------------

    async def find_together(self, kind: CoordinatorKind, keys: Iterable[str], deadline: Deadline) -> None:
        """Look up the coordinators of many keys in one request. Keys without a result are looked up one by one later.

        Brokers before Kafka 2.8 accept only one key, so they are not asked here.
        """
        inquiries = {key: self._inquiry((kind, key)) for key in keys if self.known(kind, key) is None}
        if len(inquiries) < 2:
            return
        asked_at = time.monotonic()
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(inquiries))

        async def ask(connection: Connection) -> FindCoordinatorResponse:
            if connection.versions.version_for(FindCoordinatorRequest) < FIRST_VERSION_WITH_SEVERAL_KEYS:
                return FindCoordinatorResponse()
            return await connection.request(request, timeout_ms=deadline.left_ms())

        try:
            informant, response = await ask_anyone(self._client, inquiries.values(), ask, deadline.left_ms())
        except errors.KafkaError as error:
            if not evades(error):
                raise
            return
        now = time.monotonic()
        for entry in response.coordinators:
            inquiry = inquiries.get(entry.key)
            if inquiry is None:
                continue
            if entry.error_code or entry.node_id < 0:
                inquiry.failed(
                    informant,
                    _refusal(entry.key, entry.error_code or NOT_AVAILABLE, entry.error_message),
                    asked_at,
                    now,
                )
            else:
                self._client.metadata.add_broker(Broker(entry.node_id, entry.host, entry.port))
                inquiry.found(informant, entry.node_id)

    def said(self, kind: CoordinatorKind, key: str) -> str:
        """Return a description of each broker's last answer since a coordinator last served the key."""
        inquiry = self._inquiries.get((kind, key))
        return "" if inquiry is None else _described(inquiry.said, self._client.brokers.nodes)

    def _inquiry(self, key: Key) -> CoordinatorInquiry:
        inquiry = self._inquiries.get(key)
        if inquiry is None:
            inquiry = self._inquiries[key] = CoordinatorInquiry(self._patience_s)
        return inquiry

    async def _node(self, kind: CoordinatorKind, key: str, deadline: Deadline) -> int:
        known = self.known(kind, key)
        if known is not None:
            return known
        asking = self._asking.get((kind, key))
        if asking is None:
            asking = self._asking[kind, key] = Waiter()
            # Run this in a separate task, because the first caller may be cancelled while others are waiting.
            self._client.spawn(self._ask, kind, key, asking, name=f"find coordinator of {key}")
        try:
            return await asking.wait(deadline.left_s())
        except TimeoutError:
            raise errors.RequestTimedOutError("no broker named the coordinator in time") from None

    async def _ask(self, kind: CoordinatorKind, key: str, asking: Waiter[int]) -> None:
        try:
            asking.set_result(await self._look_up((kind, key)))
        except errors.KafkaError as error:
            asking.set_error(error)
        finally:
            del self._asking[kind, key]
            # This has an effect only if there is no result yet, as after a cancellation.
            asking.set_error(errors.RequestTimedOutError("the client is being stopped"))

    async def _look_up(self, key: Key) -> int:
        inquiry = self._inquiry(key)
        informant, broker = await ask_anyone(self._client, (inquiry,), partial(_find, key))
        self._client.metadata.add_broker(broker)
        inquiry.found(informant, broker.node_id)
        return broker.node_id


async def _find(sought: Key, connection: Connection) -> Broker:
    """Ask a broker for the coordinator of one key. Raises the broker's error if it names none."""
    kind, key = sought
    version = connection.versions.version_for(FindCoordinatorRequest)
    several = version >= FIRST_VERSION_WITH_SEVERAL_KEYS
    request = FindCoordinatorRequest()
    if kind is not CoordinatorKind.GROUP:
        request.key_type = kind
    if several:
        request.coordinator_keys = [key]
    else:
        request.key = key
    response = await connection.request(request, version=version)
    found = next((entry for entry in response.coordinators if entry.key == key), None) if several else response
    if found is None:
        raise _refusal(key, NOT_AVAILABLE, "the response lacks it")
    if found.error_code or found.node_id < 0:
        raise _refusal(key, found.error_code or NOT_AVAILABLE, found.error_message)
    return Broker(found.node_id, found.host, found.port)


def moved(node_id: int) -> errors.KafkaError:
    """Return the error that ends the wait for a response from a former coordinator."""
    return errors.NotCoordinatorError(f"broker {node_id} did not respond, and another broker is now the coordinator")


def _refusal(key: str, code: int, message: str | None) -> errors.KafkaError:
    kind = errors.error_for_code(code)
    return kind(f"no coordinator of {key!r}: {shown(message or '') or kind.__doc__}")


def _described(said: Mapping[int, str], nodes: Mapping[int, Broker]) -> str:
    texts = []
    for node_id, text in said.items():
        node = nodes.get(node_id)
        texts.append(f"broker {node_id if node is None else node}: {text}")
    return "; ".join(texts)

"""Parts shared by all embedded brokers: the state, the timers, the faults, and the log of requests."""

from __future__ import annotations

import logging
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from .._state.acls import Acls
from .._state.client_metrics import ClientMetrics
from .._state.group_coordinator import GroupCoordinator
from .._state.members import GroupOptions
from .._state.offsets import TRANSACTION, slot_of
from .._state.share_broker import ShareBroker, ShareWorld
from .._state.transactions import TransactionCoordinator
from ..faults import Faults
from ..request_log import RequestLog
from .sasl import SaslOptions
from .timers import Timers

if TYPE_CHECKING:
    from .._state.cluster import ClusterState, MetadataView
    from .apis import Apis

_log = logging.getLogger(__name__)


@dataclass
class BrokerOptions:
    """The options that all brokers of the cluster share."""

    auto_create_topics: bool = True
    num_partitions: int = 1
    replication_factor: int = 1
    sasl: SaslOptions = field(default_factory=SaslOptions)
    # Context for new connections. None means no TLS.
    ssl_context: ssl.SSLContext | None = None
    max_frame_bytes: int = 104_857_600
    groups: GroupOptions = field(default_factory=GroupOptions)


@dataclass
class StaleMetadata:
    """Outdated metadata that brokers still send, and the number of further responses that contain it."""

    view: MetadataView
    broker: int | None
    answers: int


class Engine:
    """Holds the state of all embedded brokers, and passes requests to their handlers."""

    def __init__(
        self,
        state: ClusterState,
        apis: Apis,
        options: BrokerOptions,
        timers: Timers,
        request_log_size: int,
    ) -> None:
        self.state = state
        self.apis = apis
        self.options = options
        self.timers = timers
        self.groups = GroupCoordinator(timers, options.groups, state)
        state.deletion_listeners.append(self.groups.topic_deleted)
        self._share_world = ShareWorld(
            timers, self.now_ms, self.groups.configs, self.groups.share_states, options.groups.share_max_sessions
        )
        self._share_brokers: dict[int, ShareBroker] = {}
        self.transactions = TransactionCoordinator(
            timers,
            self.now_ms,
            state.next_producer_id,
            lambda: apis.features.level("transaction.version"),
            self.groups.offsets.transaction_ended,
            lambda transactional_id: state.coordinators.epoch(TRANSACTION, transactional_id),
        )
        self.acls = Acls()
        self.client_metrics = ClientMetrics(self.now_ms)
        self.requests = RequestLog(request_log_size)
        self.faults = Faults(self._name_of)
        self.stale_metadata: list[StaleMetadata] = []
        # Broker, client's address and error of each connection that was closed because of invalid data.
        self.protocol_errors: deque[tuple[int, str, Exception]] = deque(maxlen=1000)
        # Errors of the embedded cluster. They are raised at the end of its block.
        self.failures: list[Exception] = []
        self._deferred: list[Callable[[], None]] = []

    def _name_of(self, topic_id: UUID) -> str | None:
        topic = self.state.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def share_broker(self, node_id: int) -> ShareBroker:
        """Return the state of share groups at a broker."""
        found = self._share_brokers.get(node_id)
        if found is None:
            found = self._share_brokers[node_id] = ShareBroker(node_id, self._share_world)
        return found

    @staticmethod
    def now_ms() -> int:
        """Return the wall-clock time in milliseconds since 1970, for timestamps."""
        return time.time_ns() // 1_000_000

    def failed(self, error: Exception) -> None:
        """Log and store an error of the embedded cluster itself. It is raised at the end of the cluster's block."""
        _log.error("an embedded broker has failed", exc_info=error)
        self.failures.append(error)

    def move_coordinator(self, kind: int, key: str, to: int | None) -> int:
        """Move a group or a transactional id, with all ids in its slot, to another broker. Return the broker."""
        broker = self.state.coordinators.move(kind, key, to)
        slot = slot_of(key)
        if kind == TRANSACTION:
            self.transactions.coordinator_moved(lambda transactional_id: slot_of(transactional_id) == slot)
        else:
            self.groups.slot_moved(slot)
        self.run_deferred()
        return broker

    def defer(self, call: Callable[[], None]) -> None:
        """Call a function after the response to the current request has been sent."""
        self._deferred.append(call)

    def run_deferred(self) -> None:
        while self._deferred:
            calls, self._deferred = self._deferred, []
            for call in calls:
                call()

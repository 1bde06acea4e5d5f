"""Controls of an `EmbeddedCluster`: topics, leaders, groups, transactions and faults."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, Unpack
from uuid import UUID

from .._options.arguments import map_of, string, topic_name
from .._options.checks import INT16_MAX, boolean, integer, milliseconds, optional, text
from .._records import ConsumerRecord, read_batches
from .._wire import Request
from ..errors import ConfigError
from ..types import TopicPartition
from . import _checks
from ._caller import Caller
from ._checks import AdminTopicNames
from ._server.engine import Engine, StaleMetadata
from ._state.cluster import BrokerNode
from ._state.offsets import TRANSACTION
from ._state.share_partition import SharePartition
from ._state.topics import Partition, Topic
from .faults import Faults
from .request_log import RequestLog
from .security_controls import SecurityControls
from .telemetry_controls import TelemetryControls

_OPTIONS = map_of("str to str", text, optional(string))


class ShareDelivery(NamedTuple):
    """State of the delivery of a record in a share group."""

    offset: int
    state: str
    """``"available"``, ``"acquired"``, ``"acknowledged"`` or ``"archived"``. The last two are final."""
    delivery_count: int
    member_id: str
    """Id of the member that holds the record, or an empty str."""


class ShareControls:
    """Controls of the share groups of an `EmbeddedCluster`: configs, locks and deliveries."""

    def __init__(self, engine: Engine, call: Caller) -> None:
        self._engine = engine
        self._call = call

    def called_by(self, call: Caller) -> ShareControls:
        """Return the same controls for another thread; ``call`` runs a function in the thread of the cluster."""
        return ShareControls(self._engine, call)

    def configure(self, group_id: str, options: Mapping[str, str | None]) -> None:
        """Set configs of a group; a value of None restores the default.

            cluster.shares.configure("workers", {"share.auto.offset.reset": "earliest"})

        This is like `AdminClient.incremental_alter_configs` for a resource of type GROUP. Raises `InvalidConfigError`
        for an unknown config or an invalid value.
        """
        text("group_id", group_id)
        changes = _OPTIONS("options", options)

        def change() -> None:
            configs = self._engine.groups.configs
            merged = {**configs.overrides(group_id), **changes}
            overrides = {name: value for name, value in merged.items() if value is not None}
            configs.check(group_id, overrides)
            configs.replace(group_id, overrides)

        self._call(change)

    def expire_locks(self, group_id: str) -> None:
        """Release all records that members of a group hold, as if their locks had expired."""
        text("group_id", group_id)

        def expire() -> None:
            for shares in self._of_group(group_id):
                shares.expire_locks()

        self._call(expire)

    def deliveries(self, group_id: str, topic: str, partition: int = 0) -> list[ShareDelivery]:
        """Return the delivery state of each record of a partition in a group, from the first unfinished record on."""
        text("group_id", group_id)
        topic_name("topic", topic)
        integer(0)("partition", partition)

        def look() -> list[ShareDelivery]:
            return [
                ShareDelivery(offset, delivery.state.name.lower(), delivery.count, delivery.member_id)
                for shares in self._of_group(group_id)
                if (shares.partition.topic.name, shares.partition.index) == (topic, partition)
                for batch in shares.batches
                for offset, delivery in batch.records(shares.start_offset, batch.last)
            ]

        return self._call(look)

    def _of_group(self, group_id: str) -> list[SharePartition]:
        return [
            shares
            for node_id in self._engine.state.nodes
            for shares in self._engine.share_broker(node_id).of_group(group_id)
        ]


_LAST_EPOCH = 32_766


class TransactionView(NamedTuple):
    """A transactional id as seen by its coordinator. ``state`` is a name as in DescribeTransactions."""

    state: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]
    """Partitions of the transaction whose marker is not yet written."""
    groups: tuple[str, ...]
    """Consumer groups whose offsets are part of the transaction."""


class TransactionControls:
    """Controls of the transactions of an `EmbeddedCluster`: markers, timeouts and coordinators."""

    def __init__(self, engine: Engine, call: Caller) -> None:
        self._engine = engine
        self._call = call

    def called_by(self, call: Caller) -> TransactionControls:
        """Return the same controls for another thread; ``call`` runs a function in the thread of the cluster."""
        return TransactionControls(self._engine, call)

    @property
    def marker_delay_ms(self) -> float | None:
        """Time in milliseconds from the response to EndTxn until the markers are written (default: 0).

        With None, they are written by `write_markers`. Until then, the next requests of the transactional id get
        CONCURRENT_TRANSACTIONS, and the records of the transaction are beyond the last stable offset.
        """
        return self._engine.transactions.marker_delay_ms

    @marker_delay_ms.setter
    def marker_delay_ms(self, delay_ms: float | None) -> None:
        self._engine.transactions.marker_delay_ms = optional(milliseconds())("marker_delay_ms", delay_ms)

    def write_markers(self) -> None:
        """Write the markers of every transaction that is committed or aborted."""
        self._call(self._engine.transactions.write_markers)

    def time_out(self, transactional_id: str) -> bool:
        """Abort an open transaction as if its timeout had passed. Return False if none is open."""
        text("transactional_id", transactional_id)
        return self._call(lambda: self._engine.transactions.time_out(transactional_id))

    def use_epochs_up_to(self, transactional_id: str, epoch: int) -> None:
        """Advance the producer epoch of a transactional id that has no open transaction.

        With an epoch beyond 32766, the next producer gets another producer id. Raises `ConfigError` if the id is
        unknown, has an open transaction, or already has a later epoch.
        """
        text("transactional_id", transactional_id)
        integer(0, _LAST_EPOCH)("epoch", epoch)
        self._call(lambda: self._set_epoch(transactional_id, epoch))

    def _set_epoch(self, transactional_id: str, epoch: int) -> None:
        txn = self._engine.transactions.transactions.get(transactional_id)
        if txn is None or txn.state.value == "Ongoing" or txn.epoch > epoch:
            raise ConfigError(
                f"transactional id {transactional_id} is unknown, has an open transaction, or already has a later epoch"
            )
        txn.epoch = epoch

    def forget(self, transactional_id: str) -> None:
        """Make the coordinator forget a transactional id.

        An open transaction of the id then hangs: no coordinator ends it (KIP-664).
        """
        text("transactional_id", transactional_id)
        self._call(lambda: self._engine.transactions.forget(transactional_id))

    def view(self, transactional_id: str) -> TransactionView | None:
        """Return the current state of a transactional id, or None if it is unknown."""
        text("transactional_id", transactional_id)
        return self._call(lambda: self._view(transactional_id))

    def _view(self, transactional_id: str) -> TransactionView | None:
        txn = self._engine.transactions.transactions.get(transactional_id)
        if txn is None:
            return None
        partitions = tuple(TopicPartition(partition.topic.name, partition.index) for partition in txn.partitions)
        return TransactionView(txn.state.value, txn.producer_id, txn.epoch, partitions, tuple(txn.groups))

    def coordinator(self, transactional_id: str) -> int:
        """Return the id of the broker that coordinates a transactional id."""
        text("transactional_id", transactional_id)
        return self._call(lambda: self._engine.state.coordinators.of(TRANSACTION, transactional_id))

    def move_coordinator(self, transactional_id: str, to: int | None = None) -> int:
        """Move a transactional id to another coordinator and return that broker's id.

        ``to`` is the id of a broker (default: the next broker). All transactional ids in the same slot also move.
        """
        text("transactional_id", transactional_id)
        if to is not None and integer(0)("to", to) not in self._engine.state.nodes:
            raise ConfigError(f"to must be one of {list(self._engine.state.nodes)}, not {to}")
        return self._call(lambda: self._engine.move_coordinator(TRANSACTION, transactional_id, to))


class Done:
    """Result of an operation that has already finished. Awaiting it is optional."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class ClusterControls:
    """Controls of an `EmbeddedCluster`. Each takes effect immediately."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._state = engine.state
        self.transactions = TransactionControls(engine, lambda function: function())
        """Controls of transactions."""
        self.shares = ShareControls(engine, lambda function: function())
        """Controls of records in share groups."""
        self.security = SecurityControls(engine, lambda function: function())
        """Delegation tokens, and replacement of certificates."""
        self.telemetry = TelemetryControls(engine, lambda function: function())
        """Subscriptions to clients' metrics, and the pushed metrics."""

    # --- requests and faults -----------------------------------------------------------------------------------------

    @property
    def requests(self) -> RequestLog:
        """Log of the requests that the brokers have received."""
        return self._engine.requests

    @property
    def faults(self) -> Faults:
        """Rules that inject failures."""
        return self._engine.faults

    @property
    def max_versions(self) -> dict[str | int | type[Request[Any]], int]:
        """Highest versions of APIs. May be changed at any time; a change applies to later connections."""
        return self._engine.apis.max_versions

    @max_versions.setter
    def max_versions(self, caps: Mapping[str | int | type[Request[Any]], int]) -> None:
        self._engine.apis.max_versions = dict(caps)

    @property
    def features(self) -> dict[str, int]:
        """Levels of the finalized features by name (KIP-584)."""
        return self._engine.apis.features.finalized

    def set_feature(self, name: str, level: int) -> None:
        """Change the level of a finalized feature. Level 0 removes the feature.

        Clients see the change in the response to ApiVersions. For ``transaction.version``, level 2 is KIP-890; below 2,
        a new transaction does not get a new epoch.
        """
        self._engine.apis.features.set_level(text("name", name), integer(0, INT16_MAX)("level", level))

    @property
    def protocol_errors(self) -> list[tuple[int, str, Exception]]:
        """Connections that were closed because a client sent invalid data.

        Each item contains the id of the broker, the address of the client, and the error.
        """
        return list(self._engine.protocol_errors)

    def freeze_metadata(self, answers: int, *, broker: int | None = None) -> None:
        """Answer the next ``answers`` Metadata requests with the current state, even if the state changes.

        Use it to imitate brokers that lag behind. ``broker`` is the broker that lags behind (default: all brokers,
        which share the count).
        """
        integer(0)("answers", answers)
        if broker is not None:
            self._broker("broker", broker)
        self._engine.stale_metadata.append(StaleMetadata(self._state.freeze(), broker, answers))

    async def wait_for_requests(
        self,
        api: str | int | type[Request[Any]] | None = None,
        *,
        broker: int | None = None,
        count: int = 1,
        timeout_ms: float = 10_000,
    ) -> None:
        """Wait until a number of requests of an API have arrived at a broker (default: at any broker).

        Raises TimeoutError if they do not arrive in time.
        """
        await self.requests.wait_for(api, broker=broker, count=count, timeout_ms=timeout_ms)

    # --- topics ------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str | None] | None = None,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        **named_as_by_admin: Unpack[AdminTopicNames],
    ) -> Done:
        """Create a topic. It exists when the call returns.

        ``assignments`` contains the broker ids of each partition, with the leader first. By default, the first broker
        leads partition 0, the second broker leads partition 1, and so on. The names in `aiokafka_lead.admin.NewTopic`
        are also accepted: ``num_partitions``, ``topic_configs`` and ``replica_assignments``, which is a dict by
        partition. -1 for a number means the cluster's default.
        """
        wanted = _checks.new_topic(name, partitions, replication_factor, configs, assignments, named_as_by_admin)
        defaults = self._engine.options
        self._state.create_topic(
            wanted.name,
            defaults.num_partitions if wanted.partitions == -1 else wanted.partitions,
            defaults.replication_factor if wanted.replication_factor == -1 else wanted.replication_factor,
            wanted.configs,
            wanted.assignments,
        )
        return Done()

    def delete_topic(self, name: str) -> Done:
        """Delete a topic with its records."""
        self._state.delete_topic(self._topic("name", name))
        return Done()

    def add_partitions(self, name: str, count: int) -> Done:
        """Increase the number of partitions of a topic to ``count``."""
        self._state.add_partitions(self._topic("name", name), integer(1)("count", count), validate_only=False)
        return Done()

    def topic_names(self) -> list[str]:
        """Return the names of all topics."""
        return list(self._state.topics)

    def topic_id(self, name: str) -> UUID:
        """Return the id of a topic."""
        return self._topic("name", name).topic_id

    def partition_count(self, name: str) -> int:
        """Return the number of partitions of a topic."""
        return len(self._topic("name", name).partitions)

    def records(self, topic: str, partition: int | None = None) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """Return the records of a partition, or of all partitions in their order if ``partition`` is None.

        Records of open and aborted transactions are included; control records are left out.
        """
        if partition is None:
            return [record for number in range(self.partition_count(topic)) for record in self.records(topic, number)]
        log = self._partition(topic, partition).log
        return [
            record
            for batch in log.batches
            for view in read_batches(batch.data)
            if not view.is_control
            for record in view.records(topic, partition, log.start_offset)
        ]

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """Return the offset of the next record of a partition."""
        return self._partition(topic, partition).log.end_offset

    def start_offset(self, topic: str, partition: int = 0) -> int:
        """Return the first offset of a partition."""
        return self._partition(topic, partition).log.start_offset

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Delete the records of a partition before this offset, which becomes the start of the log."""
        self._partition(topic, partition).log.delete_before(_checks.OFFSET("before", before))

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Remove the records from ``offset`` on, like an unclean leader election. The leader then has a new epoch."""
        self._state.truncate(self._partition(topic, partition), _checks.OFFSET("offset", offset))

    def forget_producers(self, topic: str, partition: int = 0) -> None:
        """Make a partition forget its idempotent producers, as if they had expired."""
        self._partition(topic, partition).log.producers.forget()

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Move a partition to these brokers. The first becomes the preferred leader.

        ``replicas`` is the complete list of brokers with a replica. The move is immediate, unless `hold_reassignments`
        is True.
        """
        self._state.reassign(self._partition(topic, partition), _checks.BROKERS("replicas", replicas))

    @property
    def hold_reassignments(self) -> bool:
        """True if reassignments stay pending until `complete_reassignments` (default: False)."""
        return self._state.hold_reassignments

    @hold_reassignments.setter
    def hold_reassignments(self, hold: bool) -> None:
        self._state.hold_reassignments = boolean("hold_reassignments", hold)

    def complete_reassignments(self) -> None:
        """Finish the reassignments that `hold_reassignments` has held."""
        for target in self._state.partitions():
            if target.adding or target.removing:
                self._state.complete_reassignment(target)

    # --- leaders -----------------------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the id of the leader, or -1 if there is none."""
        return self._partition(topic, partition).leader_id

    def leader_epoch(self, topic: str, partition: int = 0) -> int:
        """Return the leader epoch of a partition."""
        return self._partition(topic, partition).leader_epoch

    def replicas(self, topic: str, partition: int = 0) -> list[int]:
        """Return the broker ids of a partition's replicas, with the preferred leader first."""
        return list(self._partition(topic, partition).replicas)

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """Return the broker ids of a partition's in-sync replicas."""
        return list(self._partition(topic, partition).isr)

    def set_isr(self, topic: str, partition: int, isr: Sequence[int]) -> None:
        """Set the in-sync replicas of a partition. The leader must be one of them."""
        target = self._partition(topic, partition)
        isr = _checks.BROKERS("isr", isr)
        if target.leader_id not in isr or not set(isr) <= set(target.replicas):
            raise ConfigError(
                f"isr must be some of {target.replicas}, including the leader {target.leader_id}, not {list(isr)}"
            )
        target.isr = list(isr)

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None, *, gap_ms: float = 0) -> int:
        """Make another replica the leader, and return its id. The leader epoch increases by one.

        ``to`` is the id of a broker (default: the next in-sync replica). With ``gap_ms``, no broker acts as the leader
        for that time: the old leader names the new leader, but the new leader has not learned of the change yet and
        names the old leader.
        """
        target = self._partition(topic, partition)
        optional(integer(0))("to", to)
        milliseconds()("gap_ms", gap_ms)
        until = self._engine.timers.now() + gap_ms / 1000 if gap_ms > 0 else None
        return self._state.move_leader(target, to, until)

    def move_all_leaders(self, topic: str | None = None) -> None:
        """Move the leader of every partition to the next in-sync replica, in one topic or in all topics."""
        for target in self._partitions(topic):
            self._state.move_leader(target)

    def _partitions(self, topic: str | None) -> list[Partition]:
        return list(self._state.partitions()) if topic is None else list(self._topic("topic", topic).partitions)

    def _topic(self, what: str, name: str) -> Topic:
        return self._state.topic(topic_name(what, name))

    def _partition(self, topic: str, partition: int) -> Partition:
        return self._state.partition(topic_name("topic", topic), integer(0)("partition", partition))

    def _broker(self, what: str, broker: int) -> BrokerNode:
        number = integer(0)(what, broker)
        if number not in self._state.nodes:
            raise ConfigError(f"{what} must be one of {list(self._state.nodes)}, not {number}")
        return self._state.nodes[number]

    def coordinator(self, group_id: str) -> int:
        """Return the id of the broker that coordinates a consumer group."""
        return self._state.coordinators.of(0, text("group_id", group_id))

    def move_coordinator(self, group_id: str, to: int | None = None) -> int:
        """Move a group to another coordinator and return that broker's id.

        ``to`` is the id of a broker (default: the next broker). All groups in the same slot also move.
        """
        text("group_id", group_id)
        if to is not None:
            self._broker("to", to)
        return self._engine.move_coordinator(0, group_id, to)

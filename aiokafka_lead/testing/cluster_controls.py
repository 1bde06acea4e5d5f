"""Controls of an `EmbeddedCluster`: requests, faults, topics, leaders, brokers and groups."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Unpack
from uuid import UUID

from .._options.arguments import topic_name
from .._options.checks import INT16_MAX, boolean, integer, milliseconds, optional, text
from .._records import ConsumerRecord, read_batches
from .._wire import Request
from ..errors import ConfigError
from . import _checks
from ._checks import AdminTopicNames
from ._server.engine import Engine, StaleMetadata
from ._state.cluster import BrokerNode
from ._state.topics import Partition, Topic
from .controls import SecurityControls, ShareControls, TelemetryControls, TransactionControls
from .faults import Faults
from .request_log import RequestLog


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
        """Highest version of each limited API. May be changed at any time; a change applies to later connections."""
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

        Use it to imitate brokers that lag behind. ``broker`` limits it to one broker. By default, all brokers lag and
        share the count.
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
        """Wait until ``count`` requests of an API have arrived at a broker (default: at any broker).

        Earlier requests count, too. Raises TimeoutError if they do not arrive within ``timeout_ms``.
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
        """Remove the records at and after ``offset``, like an unclean leader election, and advance the leader epoch.

        A batch that contains ``offset`` is removed as a whole, so the log may end earlier.
        """
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
        """Set the in-sync replicas of a partition, as ids of brokers. The leader must be one of them."""
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
        """Return the id of the broker that coordinates a group, or -1 if no broker is running."""
        return self._state.coordinators.of(0, text("group_id", group_id))

    def move_coordinator(self, group_id: str, to: int | None = None) -> int:
        """Move a group to another coordinator and return that broker's id.

        ``to`` is the id of a broker (default: the next broker). The move includes all groups that Kafka would store in
        the same partition of ``__consumer_offsets``.
        """
        text("group_id", group_id)
        if to is not None:
            self._broker("to", to)
        return self._engine.move_coordinator(0, group_id, to)

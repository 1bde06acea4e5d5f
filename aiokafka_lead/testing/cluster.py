"""`EmbeddedCluster`: Kafka brokers in the caller's own event loop, on real sockets."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Generator, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self
from uuid import UUID

import anyio

from .._records import ConsumerRecord, read_batches
from .._wire import Request
from ..errors import ConfigError
from ._handlers import all_handlers
from ._server.apis import Apis
from ._server.broker import BrokerServer
from ._server.engine import BrokerOptions, Engine, StaleMetadata
from ._server.timers import Timer, Timers
from ._state.cluster import BrokerNode, ClusterState
from ._state.group_coordinator import GroupOptions
from ._state.topics import Partition
from .faults import Faults
from .request_log import RequestLog

__all__ = ["Done", "EmbeddedCluster"]

FEATURES = {"metadata.version": 29, "transaction.version": 2}
"""Finalized features that the brokers tell of (KIP-584); transaction.version 2 is KIP-890."""


class Done:
    """Something that is done already; may be awaited, need not be."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


class EmbeddedCluster:
    """A Kafka cluster for tests, demos and benchmarks. Use it as an asynchronous context manager.

    ``brokers`` is how many there are, with the ids 1, 2, ...; or their ids. ``ports`` are theirs in this order, by
    default free ones; ``racks`` likewise. Clients are told ``advertised_host``, by default ``host``.

    Broker options: ``auto_create_topics`` with ``num_partitions`` and ``default_replication_factor`` (default: 3, or
    the number of brokers when there are fewer); ``sasl_users`` (user to password) demands SASL, with PLAIN and
    SCRAM; ``ssl_context`` makes the listeners TLS; ``max_versions`` caps APIs (name, number or request class to
    version, -1 takes the API away), to play older brokers; ``features`` are the finalized ones; ``groups`` the options
    of consumer groups. ``failover_delay_ms`` is how long a killed broker is taken for alive: then its leaders move.

    ``requests`` logs what arrives, the last ``request_log_size`` of it; ``faults`` makes things go wrong.

    Records are kept in memory, and one log serves all replicas of a partition: what is acknowledged is replicated.
    """

    def __init__(
        self,
        brokers: int | Sequence[int] = 3,
        *,
        host: str = "127.0.0.1",
        ports: Sequence[int] | None = None,
        racks: Sequence[str | None] | None = None,
        advertised_host: str | None = None,
        cluster_id: str | None = None,
        auto_create_topics: bool = True,
        num_partitions: int = 1,
        default_replication_factor: int | None = None,
        sasl_users: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        max_versions: Mapping[str | int | type[Request[Any]], int] | None = None,
        features: Mapping[str, int] | None = None,
        groups: GroupOptions | None = None,
        failover_delay_ms: float = 100,
        fetch_session_slots: int = 1000,
        request_log_size: int = 10_000,
    ) -> None:
        ids = list(range(1, brokers + 1)) if isinstance(brokers, int) else list(brokers)
        if not ids or len(set(ids)) != len(ids):
            raise ConfigError(f"brokers: at least one, each id once, not {brokers!r}")
        for name, values in (("ports", ports), ("racks", racks)):
            if values is not None and len(values) != len(ids):
                raise ConfigError(f"{name}: {len(ids)} needed, one for each broker, not {len(values)}")
        self._host = host
        self._ssl_context = ssl_context
        self._failover_delay_ms = failover_delay_ms
        nodes = [
            BrokerNode(node_id, advertised_host or host, None if racks is None else racks[index], fetch_session_slots)
            for index, node_id in enumerate(ids)
        ]
        self._wanted_ports = dict(zip(ids, ports or [0] * len(ids), strict=True))
        self._state = ClusterState(nodes, cluster_id)
        apis = Apis(all_handlers(), FEATURES if features is None else features, sasl=sasl_users is not None)
        apis.max_versions.update(max_versions or {})
        options = BrokerOptions(
            auto_create_topics=auto_create_topics,
            num_partitions=num_partitions,
            replication_factor=default_replication_factor or min(3, len(ids)),
            sasl_users=None if sasl_users is None else dict(sasl_users),
            groups=groups or GroupOptions(),
        )
        self._timers = Timers()
        self._engine = Engine(self._state, apis, options, self._timers, request_log_size)
        self._servers: dict[int, BrokerServer] = {}
        # Sockets that keep the ports of stopped brokers from being taken by others.
        self._reserved: dict[int, socket.socket] = {}
        # Killed brokers that the controller has not noticed yet.
        self._failovers: dict[int, Timer] = {}
        self._stack = AsyncExitStack()

    # --- life --------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        try:
            task_group = await self._stack.enter_async_context(anyio.create_task_group())
            self._stack.callback(task_group.cancel_scope.cancel)
            self._stack.push_async_callback(self._close)
            task_group.start_soon(self._timers.run)
            for node in self._state.nodes.values():
                self._servers[node.node_id] = BrokerServer(
                    self._engine, node, self._host, self._ssl_context, task_group
                )
                node.port = await self._servers[node.node_id].start(self._wanted_ports[node.node_id])
                self._state.broker_back(node.node_id)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, traceback)
        if error is None and self._engine.failures:
            raise ExceptionGroup("the embedded cluster failed", self._engine.failures)

    async def _close(self) -> None:
        with anyio.CancelScope(shield=True):
            for server in self._servers.values():
                await server.stop(reset=True)
        for reserved in self._reserved.values():
            reserved.close()

    # --- addresses ---------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """Every broker's address, running or not: ``"127.0.0.1:9092,127.0.0.1:9093"``."""
        return ",".join(self.address(node_id) for node_id in self._state.nodes)

    def address(self, broker: int) -> str:
        """``"host:port"`` that clients are told for a broker."""
        node = self._state.nodes[broker]
        return f"{node.host}:{node.port}"

    @property
    def cluster_id(self) -> str:
        return self._state.cluster_id

    @property
    def broker_ids(self) -> list[int]:
        return list(self._state.nodes)

    def is_running(self, broker: int) -> bool:
        return self._state.nodes[broker].running

    def connection_count(self, broker: int) -> int:
        """How many connections a broker has open."""
        return len(self._servers[broker].connections)

    # --- what arrives, and what goes wrong ---------------------------------------------------------------------------

    @property
    def requests(self) -> RequestLog:
        return self._engine.requests

    @property
    def faults(self) -> Faults:
        return self._engine.faults

    @property
    def max_versions(self) -> dict[str | int | type[Request[Any]], int]:
        """Caps of APIs' versions; may be changed at any time, for connections to come."""
        return self._engine.apis.max_versions

    @max_versions.setter
    def max_versions(self, caps: Mapping[str | int | type[Request[Any]], int]) -> None:
        self._engine.apis.max_versions = dict(caps)

    @property
    def protocol_errors(self) -> list[tuple[int, str, Exception]]:
        """(broker, client's address, what was wrong) of connections that were closed for what the client sent."""
        return list(self._engine.protocol_errors)

    def freeze_metadata(self, answers: int, *, broker: int | None = None) -> None:
        """The next ``answers`` Metadata answers, of one broker or of all, tell how things are now."""
        self._engine.stale_metadata.append(StaleMetadata(self._state.freeze(), broker, answers))

    async def wait_for_requests(
        self,
        api: str | int | type[Request[Any]] | None = None,
        *,
        broker: int | None = None,
        count: int = 1,
        timeout_s: float = 10,
    ) -> None:
        """Wait until ``count`` requests of an API came to a broker, or to any. Raises TimeoutError."""
        await self.requests.wait_for(api, broker=broker, count=count, timeout_s=timeout_s)

    # --- topics ------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
    ) -> Done:
        """Create a topic; it is there when this returns. ``assignments``: each partition's brokers, the leader first.

        Without them partition 0 is led by the first broker, 1 by the second, and so on.
        """
        factor = self._engine.options.replication_factor if replication_factor is None else replication_factor
        self._state.create_topic(name, partitions, factor, configs or {}, assignments)
        return Done()

    def delete_topic(self, name: str) -> Done:
        self._state.delete_topic(self._state.topic(name))
        return Done()

    def add_partitions(self, name: str, count: int) -> Done:
        """Grow a topic to ``count`` partitions."""
        self._state.add_partitions(self._state.topic(name), count, validate_only=False)
        return Done()

    def topic_names(self) -> list[str]:
        return list(self._state.topics)

    def topic_id(self, name: str) -> UUID:
        return self._state.topic(name).topic_id

    def partition_count(self, name: str) -> int:
        return len(self._state.topic(name).partitions)

    def records(self, topic: str, partition: int = 0) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """What is stored in a partition, without control records; aborted transactions' records are among it."""
        log = self._state.partition(topic, partition).log
        return [
            record
            for batch in log.batches
            for view in read_batches(batch.data)
            if not view.is_control
            for record in view.records(topic, partition, log.start_offset)
        ]

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The offset that the partition's next record gets."""
        return self._state.partition(topic, partition).log.end_offset

    def start_offset(self, topic: str, partition: int = 0) -> int:
        return self._state.partition(topic, partition).log.start_offset

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move a partition's log start."""
        self._state.partition(topic, partition).log.delete_before(before)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        """Lose the records from ``offset`` on, as an unclean leader election does. The leader has a new epoch then."""
        self._state.truncate(self._state.partition(topic, partition), offset)

    def forget_producers(self, topic: str, partition: int = 0) -> None:
        """Forget the idempotent producers of a partition, as if they had expired."""
        self._state.partition(topic, partition).log.producers.entries.clear()

    # --- leaders -----------------------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader's id, -1 for none."""
        return self._state.partition(topic, partition).leader_id

    def leader_epoch(self, topic: str, partition: int = 0) -> int:
        return self._state.partition(topic, partition).leader_epoch

    def replicas(self, topic: str, partition: int = 0) -> list[int]:
        return list(self._state.partition(topic, partition).replicas)

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        return list(self._state.partition(topic, partition).isr)

    def set_isr(self, topic: str, partition: int, isr: Sequence[int]) -> None:
        """Say which replicas are in sync; the leader must be one of them."""
        target = self._state.partition(topic, partition)
        if target.leader_id not in isr or not set(isr) <= set(target.replicas):
            raise ConfigError(f"isr {list(isr)}: some of {target.replicas}, with the leader {target.leader_id}")
        target.isr = list(isr)

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None, *, gap_ms: float = 0) -> int:
        """Make another replica the leader, by default the next in sync; returns its id. The epoch rises by one.

        For ``gap_ms`` nobody leads: the old leader has resigned and names the new one, which does not know yet and
        names the old.
        """
        until = self._timers.now() + gap_ms / 1000 if gap_ms > 0 else None
        return self._state.move_leader(self._state.partition(topic, partition), to, until)

    def move_all_leaders(self, topic: str | None = None) -> None:
        """Move each partition's leader, of a topic or of all, to its next replica in sync."""
        for target in self._partitions(topic):
            self._state.move_leader(target)

    def _partitions(self, topic: str | None) -> list[Partition]:
        return list(self._state.partitions()) if topic is None else list(self._state.topic(topic).partitions)

    def coordinator(self, group_id: str) -> int:
        """The broker that coordinates a consumer group."""
        return self._state.coordinators.of(0, group_id)

    def move_coordinator(self, group_id: str, to: int | None = None) -> int:
        """Give a group (and those that share its slot) to another broker, by default the next; returns its id."""
        return self._engine.move_coordinator(0, group_id, to)

    # --- brokers -----------------------------------------------------------------------------------------------------

    async def stop_broker(self, broker: int, *, drain_ms: float = 0) -> None:
        """Shut a broker down in order: its leaders move, then its connections close.

        For ``drain_ms`` in between it still answers, and tells who leads instead.
        """
        if not self._state.nodes[broker].running:
            return
        self._state.broker_gone(broker)
        if drain_ms > 0:
            await anyio.sleep(drain_ms / 1000)
        await self._servers[broker].stop(reset=False)
        self._reserve(broker)

    async def kill_broker(self, broker: int, *, failover_delay_ms: float | None = None) -> None:
        """A broker dies: its connections are reset; its leaders move when the controller notices, after a delay."""
        if not self._state.nodes[broker].running:
            return
        await self._servers[broker].stop(reset=True)
        self._reserve(broker)
        delay_ms = self._failover_delay_ms if failover_delay_ms is None else failover_delay_ms
        if delay_ms > 0:
            self._failovers[broker] = self._timers.call_later(delay_ms / 1000, lambda: self._fail_over(broker))
        else:
            self._state.broker_gone(broker)

    def _fail_over(self, broker: int) -> None:
        del self._failovers[broker]
        self._state.broker_gone(broker)

    async def start_broker(self, broker: int, *, port: int | None = None, host: str | None = None) -> None:
        """Start a broker again, on its old port unless another is given (0: a free one)."""
        node = self._state.nodes[broker]
        if node.running:
            return
        failover = self._failovers.pop(broker, None)
        if failover is not None:
            # It is back before it was missed: it registers anew, which fences the one before.
            failover.cancel()
            self._state.broker_gone(broker)
        reserved = self._reserved.pop(broker, None)
        if reserved is not None:
            reserved.close()
        node.port = await self._servers[broker].start(node.port if port is None else port)
        node.host = node.host if host is None else host
        self._state.broker_back(broker)

    async def change_address(self, broker: int, *, port: int = 0, host: str | None = None) -> None:
        """Restart a broker at another port (0: a free one); ``host`` changes the name that clients are told."""
        await self.stop_broker(broker)
        old_port = self._state.nodes[broker].port
        await self.start_broker(broker, port=port, host=host)
        if port == 0 and self._state.nodes[broker].port == old_port:
            await self.change_address(broker, host=host)

    def _reserve(self, broker: int) -> None:
        """Keep a stopped broker's port: whoever connects is refused, and nobody else gets it."""
        reserved = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET, socket.SOCK_STREAM)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reserved.bind((self._host, self._state.nodes[broker].port))
        except OSError:
            # Without it the port is free for a while; start_broker says so if it was taken.
            reserved.close()
        else:
            self._reserved[broker] = reserved

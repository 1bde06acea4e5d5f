"""`ClusterThread`: an embedded cluster in a separate thread, for any test."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack
from uuid import UUID

import anyio.to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal

from .._records import ConsumerRecord
from .._wire import Request
from ._checks import AdminTopicNames
from ._server.transports import running_backend
from .cluster import EmbeddedCluster
from .cluster_controls import Done
from .faults import Fault, Faults
from .request_log import RequestLog

P = ParamSpec("P")
T = TypeVar("T")


class Doing:
    """An operation that runs in another thread. Await it, on any event loop, to wait for its end."""

    def __init__(self, name: str, future: Future[None]) -> None:
        self._name = name
        self._future = future
        self._awaited = False

    def __await__(self) -> Generator[Any, Any, None]:
        self._awaited = True
        return self._wait().__await__()

    async def _wait(self) -> None:
        try:
            await anyio.to_thread.run_sync(self._future.result, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            self._future.cancel()
            raise

    def __del__(self) -> None:
        if not self._awaited:
            # As for a coroutine, because an error of the operation would be lost.
            warnings.warn(f"'{self._name}' was never awaited", RuntimeWarning, stacklevel=2)


class ClusterThread:
    """An `EmbeddedCluster` in a separate thread, for use in any thread, event loop or plain function.

        with ClusterThread(EmbeddedCluster(brokers=3)) as cluster:
            cluster.create_topic("events", partitions=6)

    A `ClusterThread` has the methods of `EmbeddedCluster`. Most operations have finished when the call returns. On an
    event loop, await the calls that stop, kill or start brokers, and the calls that wait for requests. Elsewhere, these
    calls have also finished when they return.
    """

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._thread = 0
        """Id of the thread of the cluster."""
        self._process = os.getpid()
        cluster.faults.calls_by(self._call)
        self.transactions = cluster.transactions.called_by(self._call)
        """The same as `EmbeddedCluster.transactions`."""
        self.shares = cluster.shares.called_by(self._call)
        """The same as `EmbeddedCluster.shares`."""
        self.security = cluster.security.called_by(self._call)
        """The same as `EmbeddedCluster.security`."""
        self.telemetry = cluster.telemetry.called_by(self._call)
        """The same as `EmbeddedCluster.telemetry`."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal("asyncio"))
            self._thread = self._portal.call(threading.get_ident)
            stack.enter_context(self._portal.wrap_async_context_manager(self._cluster))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._stack.__exit__(kind, error, traceback)
        finally:
            self._thread = 0

    def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the thread of the cluster, and return its result."""
        if threading.get_ident() == self._thread:  # called by a function that was passed to the cluster
            return function(*args, **kwargs)
        # The result is in a tuple, because a portal awaits an awaitable result, but `Done` is for the caller.
        return self._running_portal().call(lambda: (function(*args, **kwargs),))[0]

    def _running_portal(self) -> BlockingPortal:
        if self._portal is None:
            raise RuntimeError("use ClusterThread as a context manager")
        if os.getpid() != self._process:
            raise RuntimeError("the cluster belongs to the parent process: pass only bootstrap_servers to the child")
        return self._portal

    def _do(self, function: Callable[P, Awaitable[None]], *args: P.args, **kwargs: P.kwargs) -> Done | Doing:
        """Run an asynchronous function in the thread of the cluster, and wait for it unless called on an event loop."""

        async def run() -> None:
            await function(*args, **kwargs)

        future = self._running_portal().start_task_soon(run)
        if running_backend() is None:
            future.result()
            return Done()
        return Doing(getattr(function, "__qualname__", ""), future)

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, such as ``"127.0.0.1:9092,127.0.0.1:9093"``."""
        return self._cluster.bootstrap_servers

    @property
    def bootstrap_address(self) -> str:
        return self._cluster.bootstrap_address

    @property
    def cluster_id(self) -> str:
        return self._cluster.cluster_id

    @property
    def broker_ids(self) -> list[int]:
        return self._cluster.broker_ids

    @property
    def requests(self) -> RequestLog:
        """Log of the requests that the brokers have received. To wait for requests, use `wait_for_requests`."""
        return self._cluster.requests

    @property
    def faults(self) -> Faults:
        return self._cluster.faults

    def release(self, fault: Fault) -> None:
        """Call `Fault.release`."""
        fault.release()

    @property
    def max_versions(self) -> dict[str | int | type[Request[Any]], int]:
        return self._cluster.max_versions

    @max_versions.setter
    def max_versions(self, caps: Mapping[str | int | type[Request[Any]], int]) -> None:
        self._cluster.max_versions = dict(caps)

    @property
    def features(self) -> dict[str, int]:
        return self._call(lambda: self._cluster.features)

    def set_feature(self, name: str, level: int) -> None:
        self._call(self._cluster.set_feature, name, level)

    @property
    def protocol_errors(self) -> list[tuple[int, str, Exception]]:
        return self._call(lambda: self._cluster.protocol_errors)

    def address(self, broker: int) -> str:
        return self._cluster.address(broker)

    def is_running(self, broker: int) -> bool:
        return self._cluster.is_running(broker)

    def connection_count(self, broker: int) -> int:
        return self._call(self._cluster.connection_count, broker)

    def wait_for_requests(
        self,
        api: str | int | type[Request[Any]] | None = None,
        *,
        broker: int | None = None,
        count: int = 1,
        timeout_ms: float = 10_000,
    ) -> Done | Doing:
        """Wait for requests; see `EmbeddedCluster.wait_for_requests`."""
        return self._do(self._cluster.wait_for_requests, api, broker=broker, count=count, timeout_ms=timeout_ms)

    def freeze_metadata(self, answers: int, *, broker: int | None = None) -> None:
        self._call(self._cluster.freeze_metadata, answers, broker=broker)

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
        """Create a topic; see `EmbeddedCluster.create_topic`."""
        return self._call(
            self._cluster.create_topic,
            name,
            partitions,
            replication_factor,
            configs,
            assignments=assignments,
            **named_as_by_admin,
        )

    def delete_topic(self, name: str) -> Done:
        return self._call(self._cluster.delete_topic, name)

    def add_partitions(self, name: str, count: int) -> Done:
        return self._call(self._cluster.add_partitions, name, count)

    def topic_names(self) -> list[str]:
        return self._call(self._cluster.topic_names)

    def topic_id(self, name: str) -> UUID:
        return self._call(self._cluster.topic_id, name)

    def partition_count(self, name: str) -> int:
        return self._call(self._cluster.partition_count, name)

    def records(self, topic: str, partition: int | None = None) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        return self._call(self._cluster.records, topic, partition)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        return self._call(self._cluster.end_offset, topic, partition)

    def start_offset(self, topic: str, partition: int = 0) -> int:
        return self._call(self._cluster.start_offset, topic, partition)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._call(self._cluster.delete_records, topic, partition, before)

    def truncate(self, topic: str, partition: int, offset: int) -> None:
        self._call(self._cluster.truncate, topic, partition, offset)

    def forget_producers(self, topic: str, partition: int = 0) -> None:
        self._call(self._cluster.forget_producers, topic, partition)

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        self._call(self._cluster.reassign, topic, partition, replicas)

    @property
    def hold_reassignments(self) -> bool:
        return self._cluster.hold_reassignments

    @hold_reassignments.setter
    def hold_reassignments(self, hold: bool) -> None:
        self._cluster.hold_reassignments = hold

    def complete_reassignments(self) -> None:
        self._call(self._cluster.complete_reassignments)

    # --- leaders -----------------------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0) -> int:
        return self._call(self._cluster.leader, topic, partition)

    def leader_epoch(self, topic: str, partition: int = 0) -> int:
        return self._call(self._cluster.leader_epoch, topic, partition)

    def replicas(self, topic: str, partition: int = 0) -> list[int]:
        return self._call(self._cluster.replicas, topic, partition)

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        return self._call(self._cluster.isr, topic, partition)

    def set_isr(self, topic: str, partition: int, isr: Sequence[int]) -> None:
        self._call(self._cluster.set_isr, topic, partition, isr)

    def move_leader(self, topic: str, partition: int = 0, to: int | None = None, *, gap_ms: float = 0) -> int:
        return self._call(self._cluster.move_leader, topic, partition, to, gap_ms=gap_ms)

    def move_all_leaders(self, topic: str | None = None) -> None:
        self._call(self._cluster.move_all_leaders, topic)

    def coordinator(self, group_id: str) -> int:
        return self._call(self._cluster.coordinator, group_id)

    def move_coordinator(self, group_id: str, to: int | None = None) -> int:
        return self._call(self._cluster.move_coordinator, group_id, to)

    # --- brokers -----------------------------------------------------------------------------------------------------

    def add_broker(self, broker: int | None = None, *, rack: str | None = None, port: int = 0) -> int:
        """Start another broker and return its id; see `EmbeddedCluster.add_broker`."""
        return self._running_portal().call(lambda: self._cluster.add_broker(broker, rack=rack, port=port))

    def stop_broker(self, broker: int, *, drain_ms: float = 0) -> Done | Doing:
        return self._do(self._cluster.stop_broker, broker, drain_ms=drain_ms)

    def kill_broker(self, broker: int, *, failover_delay_ms: float | None = None) -> Done | Doing:
        return self._do(self._cluster.kill_broker, broker, failover_delay_ms=failover_delay_ms)

    def start_broker(self, broker: int, *, port: int | None = None, host: str | None = None) -> Done | Doing:
        return self._do(self._cluster.start_broker, broker, port=port, host=host)

    def change_address(self, broker: int, *, port: int = 0, host: str | None = None) -> Done | Doing:
        return self._do(self._cluster.change_address, broker, port=port, host=host)

    def lead_astray(self, broker: int, to: int) -> None:
        self._call(self._cluster.lead_astray, broker, to)

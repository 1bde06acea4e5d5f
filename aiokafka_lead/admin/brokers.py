"""Brokers: their log directories, and the removal of lost ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from .._core.admin import BY_ANYONE, outcome
from .._io.admin import Route
from .._options.arguments import list_of, map_of, topic_partition
from .._options.checks import integer, short_text
from .._values import NamedTuple
from .._wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from .._wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from .._wire.messages.unregister_broker import UnregisterBrokerRequest
from .._wire.messages.unregister_controller import UnregisterControllerRequest
from ..errors import ConfigTypeError, KafkaError, raise_for_code
from ..types import TopicPartition
from .base import PARTITIONS, AdminArea, indexes_by_topic


class ReplicaInfo(NamedTuple):
    """A replica of a partition in a log directory."""

    size: int
    """Size in bytes."""
    offset_lag: int
    """Number of records missing up to the high watermark, or to the current replica while moving between directories.
    """
    is_future: bool
    """True if the replica is being moved to this directory (KIP-113)."""


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A broker's log directory."""

    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    """Size of the volume; None below Kafka 3.3."""
    usable_bytes: int | None
    is_cordoned: bool
    """True if no new replicas are placed in this directory (KIP-1066, Kafka 4.3)."""


_BROKER = integer(0)
_BROKERS = list_of("broker ids", _BROKER)


def _replica(name: str, value: Any) -> tuple[TopicPartition, int]:
    if not isinstance(value, tuple) or len(value) != 2:
        raise ConfigTypeError(f"{name} must be a pair of a TopicPartition and a broker id, not {value!r}")
    return topic_partition(name, value[0]), _BROKER(name, value[1])


_MOVES = map_of("replica to path", _replica, short_text)


class BrokerCalls(AdminArea):
    """Brokers: their log directories, and the removal of lost ones."""

    async def describe_log_dirs(
        self,
        brokers: Iterable[int],
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
    ) -> dict[int, dict[str, LogDirDescription | KafkaError]]:
        """Return the log directories of brokers with their replicas, by broker and path (KIP-113, KIP-827).

        The value for a failed directory is a `KafkaStorageError`. All replicas are included unless ``partitions`` are
        given. Raises `BrokerIdNotRegisteredError`.
        """
        nodes = _BROKERS("brokers", brokers)
        named = PARTITIONS("partitions", partitions)
        deadline = self._calls.deadline(timeout_ms)
        topics = None
        if named is not None:
            topics = indexes_by_topic(
                named,
                lambda name, indexes: DescribableLogDirTopic(topic=name, partitions=indexes),
            )

        async def ask(
            pending: Mapping[int, None],
        ) -> Mapping[int, dict[str, LogDirDescription | KafkaError] | KafkaError]:
            found: dict[int, dict[str, LogDirDescription | KafkaError] | KafkaError] = {}

            async def ask_one(broker: int) -> None:
                try:
                    request = DescribeLogDirsRequest(topics=topics)
                    found[broker] = _log_dirs(await self._calls.once_of_broker(broker, request, deadline))
                except KafkaError as error:
                    found[broker] = error

            async with anyio.create_task_group() as asking:
                for broker in pending:
                    asking.start_soon(ask_one, broker)
            return found

        return await self._calls.settle(dict.fromkeys(nodes), ask, BY_ANYONE, deadline)

    async def alter_replica_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str], *, timeout_ms: float | None = None
    ) -> None:
        """Start to move replicas to other log directories (absolute paths) of their brokers.

        Keys are pairs of partition and broker. Raises `LogDirNotFoundError` and `BrokerIdNotRegisteredError`.
        """
        wanted = _MOVES("moves", moves)
        deadline = self._calls.deadline(timeout_ms)

        async def ask(
            pending: Mapping[tuple[TopicPartition, int], str],
        ) -> Mapping[tuple[TopicPartition, int], KafkaError | None]:
            found: dict[tuple[TopicPartition, int], KafkaError | None] = {}
            by_broker: dict[int, dict[str, dict[TopicPartition, None]]] = {}
            for (where, broker), path in pending.items():
                by_broker.setdefault(broker, {}).setdefault(path, {})[where] = None

            async def ask_one(broker: int, paths: Mapping[str, Mapping[TopicPartition, None]]) -> None:
                dirs = [
                    AlterReplicaLogDir(
                        path=path,
                        topics=indexes_by_topic(
                            mine,
                            lambda name, indexes: AlterReplicaLogDirTopic(name=name, partitions=indexes),
                        ),
                    )
                    for path, mine in paths.items()
                ]
                try:
                    response = await self._calls.once_of_broker(broker, AlterReplicaLogDirsRequest(dirs=dirs), deadline)
                except KafkaError as error:
                    found.update(dict.fromkeys(((where, broker) for mine in paths.values() for where in mine), error))
                    return
                for topic in response.results:
                    for each in topic.partitions:
                        where = TopicPartition(topic.topic_name, each.partition_index)
                        found[where, broker] = outcome(None, each.error_code, f"{where} on broker {broker}")

            async with anyio.create_task_group() as asking:
                for broker, paths in by_broker.items():
                    asking.start_soon(ask_one, broker, paths)
            return found

        await self._calls.settle(wanted, ask, BY_ANYONE, deadline)

    async def unregister_broker(self, broker_id: int, *, timeout_ms: float | None = None) -> None:
        """Unregister a permanently lost broker (Kafka 3.7). Raises `BrokerIdNotRegisteredError`."""
        number = _BROKER("broker_id", broker_id)
        deadline = self._calls.deadline(timeout_ms)
        response = await self._calls.call(Route.CONTROLLER, UnregisterBrokerRequest(broker_id=number), deadline)
        raise_for_code(response.error_code, response.error_message or "")

    async def unregister_controller(self, controller_id: int, *, timeout_ms: float | None = None) -> None:
        """Unregister a permanently lost controller (Kafka 4.4). Raises `ControllerIdNotRegisteredError`."""
        number = _BROKER("controller_id", controller_id)
        deadline = self._calls.deadline(timeout_ms)
        request = UnregisterControllerRequest(controller_id=number)
        response = await self._calls.call(Route.CONTROLLER, request, deadline)
        raise_for_code(response.error_code, response.error_message or "")


def _log_dirs(response: DescribeLogDirsResponse) -> dict[str, LogDirDescription | KafkaError]:
    return {each.log_dir: outcome(_log_dir(each), each.error_code, each.log_dir) for each in response.results}


def _log_dir(found: DescribeLogDirsResult) -> LogDirDescription:
    return LogDirDescription(
        {
            TopicPartition(topic.name, each.partition_index): ReplicaInfo(
                each.partition_size, each.offset_lag, each.is_future_key
            )
            for topic in found.topics
            for each in topic.partitions
        },
        found.total_bytes if found.total_bytes >= 0 else None,
        found.usable_bytes if found.usable_bytes >= 0 else None,
        found.is_cordoned,
    )

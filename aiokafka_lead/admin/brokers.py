"""Brokers: their log directories, and the removal of lost brokers and controllers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._core.admin import BY_ANYONE, outcome
from .._io.admin_requests import Route
from .._io.deadline import Deadline
from .._options.arguments import list_of, map_of, topic_partition
from .._options.checks import integer, short_text
from .._values import NamedTuple
from .._wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
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
from ..errors import ClusterAuthorizationFailedError, ConfigTypeError, KafkaError, raise_for_code
from ..types import TopicPartition
from .base import PARTITIONS, AdminArea, indexes_by_topic


class ReplicaInfo(NamedTuple):
    """A replica in a log directory, as returned by `AdminClient.describe_log_dirs`."""

    size: int
    """Size in bytes."""
    offset_lag: int
    """Number of records that the replica is behind the high watermark or, while it is being moved to this directory,
    behind the current replica."""
    is_future: bool
    """True if the replica is being moved to this directory (KIP-113)."""


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker with its replicas, as returned by `AdminClient.describe_log_dirs`."""

    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    """Size of the volume in bytes; None before Kafka 3.3."""
    usable_bytes: int | None
    """Free space of the volume in bytes; None before Kafka 3.3."""
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
    """Admin calls for the log directories of brokers, and for lost brokers and controllers."""

    async def describe_log_dirs(
        self,
        brokers: Iterable[int],
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
    ) -> dict[int, dict[str, LogDirDescription | KafkaError]]:
        """Return the log directories of brokers as nested dicts, by broker id and then by path (KIP-113, KIP-827).

            for path, directory in (await admin.describe_log_dirs([1]))[1].items():
                print(path, directory)

        The value for an offline directory is a `KafkaStorageError` instead of a `LogDirDescription`. If ``partitions``
        are given, the descriptions include only replicas of these partitions.

        Raises `BrokerIdNotRegisteredError` if no broker has one of the ids, and `ClusterAuthorizationFailedError` if
        this user may not describe the directories. The error's ``outcomes`` contain the directories of the other
        brokers.
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
            broker: int, _: Mapping[int, None], its_deadline: Deadline
        ) -> Mapping[int, dict[str, LogDirDescription | KafkaError]]:
            found = _log_dirs(await self._calls.call(broker, DescribeLogDirsRequest(topics=topics), its_deadline))
            if not found:
                # Before Kafka 3.2, the response has no error code, but every broker has a directory.
                raise ClusterAuthorizationFailedError(
                    f"broker {broker} does not let this user describe its log directories"
                )
            return {broker: found}

        return await self._calls.by_route(dict.fromkeys(nodes), lambda broker: broker, ask, deadline)

    async def alter_replica_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str], *, timeout_ms: float | None = None
    ) -> None:
        """Start to move replicas to other log directories of their brokers (KIP-113).

            await admin.alter_replica_log_dirs({(TopicPartition("events", 0), 1): "/disk2/kafka"})

        Each key is a pair of a partition and a broker id. Each value is the absolute path of the new directory. The
        call does not wait until the replicas have moved; `describe_log_dirs` shows the progress.

        Raises `LogDirNotFoundError` if the broker has no such directory, `ReplicaNotAvailableError` if it has no
        replica of the partition, and `BrokerIdNotRegisteredError` if no broker has the id. The other replicas are still
        moved.
        """
        wanted = _MOVES("moves", moves)
        deadline = self._calls.deadline(timeout_ms)

        async def ask(
            broker: int, mine: Mapping[tuple[TopicPartition, int], str], its_deadline: Deadline
        ) -> Mapping[tuple[TopicPartition, int], None]:
            def read(
                response: AlterReplicaLogDirsResponse,
            ) -> Iterator[tuple[tuple[TopicPartition, int], KafkaError | None]]:
                for topic in response.results:
                    for each in topic.partitions:
                        where = TopicPartition(topic.topic_name, each.partition_index)
                        yield (where, broker), outcome(None, each.error_code, f"{where} on broker {broker}")

            return await self._calls.batch(mine, broker, _moves_request, read, its_deadline, BY_ANYONE)

        await self._calls.by_route(wanted, lambda replica: replica[1], ask, deadline)

    async def unregister_broker(self, broker_id: int, *, timeout_ms: float | None = None) -> None:
        """Unregister a broker that is permanently lost (Kafka 3.7).

        Raises `BrokerIdNotRegisteredError` if no broker has this id.
        """
        number = _BROKER("broker_id", broker_id)
        deadline = self._calls.deadline(timeout_ms)
        response = await self._calls.call(Route.CONTROLLER, UnregisterBrokerRequest(broker_id=number), deadline)
        raise_for_code(response.error_code, response.error_message or "")

    async def unregister_controller(self, controller_id: int, *, timeout_ms: float | None = None) -> None:
        """Unregister a controller that is permanently lost (Kafka 4.4).

        Raises `ControllerIdNotRegisteredError` if no controller has this id.
        """
        number = _BROKER("controller_id", controller_id)
        deadline = self._calls.deadline(timeout_ms)
        request = UnregisterControllerRequest(controller_id=number)
        response = await self._calls.call(Route.CONTROLLER, request, deadline)
        raise_for_code(response.error_code, response.error_message or "")


def _moves_request(moves: Mapping[tuple[TopicPartition, int], str]) -> AlterReplicaLogDirsRequest:
    by_path: dict[str, list[TopicPartition]] = {}
    for (where, _), path in moves.items():
        by_path.setdefault(path, []).append(where)
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=indexes_by_topic(
                    mine, lambda name, indexes: AlterReplicaLogDirTopic(name=name, partitions=indexes)
                ),
            )
            for path, mine in by_path.items()
        ]
    )


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

"""Parsing Metadata responses in small steps.

Parsing a response with thousands of topics at once would block the event loop for too long. Topics whose bytes have not
changed since the last response, usually nearly all, are not parsed again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial

from ..._values import NamedTuple
from ..._wire import Buffer, decode_response_in_steps, element_decoder, stepwise_decoder
from ..._wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from ...errors import LeaderNotAvailableError
from .types import NO_EPOCH, NO_TOPIC_ID, Broker, PartitionMetadata, TopicMetadata

LEADER_NOT_AVAILABLE = LeaderNotAvailableError.code

RELIABLE_EPOCHS_FROM = 9
"""First Metadata version with reliable leader epochs. Older versions may return outdated epochs (KAFKA-9212)."""

UNCHANGED_A_STEP = 64
"""Number of unchanged topics per step."""

PARTITIONS_A_STEP = 256
"""Number of partitions per step."""

_make_partition: Callable[[tuple[object, ...]], PartitionMetadata] = partial(tuple.__new__, PartitionMetadata)
"""`PartitionMetadata._make` without its checks, at a third of its cost."""
_make_topic: Callable[[tuple[object, ...]], TopicMetadata] = partial(tuple.__new__, TopicMetadata)


class ClusterAnswer(NamedTuple):
    """The cluster as described by one broker, not yet merged into the client's metadata."""

    error_code: int
    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, Broker]
    topics: Sequence[TopicMetadata]
    throttle_time_ms: int = 0


def topic_metadata(answer: MetadataResponseTopic, version: int) -> TopicMetadata:
    """Return the metadata of a topic. Partitions that its response omits have no leader.

    A response may contain thousands of partitions, so this creates one tuple per partition and little else.
    """
    name, entries = answer.name, answer.partitions
    assert name is not None  # topics are always requested by name
    if answer.error_code:
        return TopicMetadata(name, answer.topic_id, error_code=answer.error_code)
    reliable = version >= RELIABLE_EPOCHS_FROM
    size = len(entries)
    slots: list[PartitionMetadata | None] = [None] * size
    for entry in entries:
        index = entry.partition_index
        if 0 <= index < size:
            slots[index] = _make_partition(
                (
                    name,
                    index,
                    entry.leader_id,
                    entry.leader_epoch if reliable else NO_EPOCH,
                    tuple(entry.replica_nodes),
                    tuple(entry.isr_nodes),
                    tuple(entry.offline_replicas),
                    entry.error_code,
                )
            )
    if None in slots:
        partitions = tuple(missing_partition(name, i) if slot is None else slot for i, slot in enumerate(slots))
    else:
        partitions = tuple(slots)  # type: ignore[arg-type]
    topic_id = answer.topic_id if answer.topic_id.int else NO_TOPIC_ID
    return _make_topic((name, topic_id, answer.is_internal, partitions, 0))


def missing_partition(name: str, index: int) -> PartitionMetadata:
    """Return a placeholder for a partition that the response omits although it contains higher partition numbers."""
    return PartitionMetadata(name, index, error_code=LEADER_NOT_AVAILABLE)


def cluster_answer(response: MetadataResponse, topics: Sequence[TopicMetadata]) -> ClusterAnswer:
    """Combine a Metadata response with its topics, which were read separately."""
    return ClusterAnswer(
        response.error_code,
        response.cluster_id,
        response.controller_id,
        {entry.node_id: Broker(entry.node_id, entry.host, entry.port, entry.rack) for entry in response.brokers},
        topics,
        response.throttle_time_ms,
    )


class MetadataReader:
    """Reads Metadata responses. A topic that is unchanged since the last response is returned as the same object."""

    def __init__(self) -> None:
        self._version = -1
        """Version of the last answer."""
        self._last: list[tuple[bytes, TopicMetadata]] = []
        """The bytes and the metadata of each topic in the last response, in its order."""

    def read(self, frame: Buffer, version: int) -> Generator[None, None, ClusterAnswer]:
        """Read a response frame in steps of one or two milliseconds.

        Raises `MalformedMessageError` for invalid bytes.
        """
        topics: list[tuple[bytes, TopicMetadata]] = []
        last = self._last if version == self._version else []
        places = {topic.name: place for place, (_, topic) in enumerate(last)}
        read_topic = stepwise_decoder(MetadataResponse, MetadataResponseTopic, version, "partitions")
        read_partition = element_decoder(MetadataResponse, MetadataResponsePartition, version)

        def partitions(
            buffer: bytes, position: int, count: int, end: int, view: memoryview
        ) -> Generator[None, None, tuple[list[MetadataResponsePartition], int]]:
            found = []
            for number in range(1, count + 1):
                entry, position = read_partition(buffer, position, end, view)
                found.append(entry)
                if number % PARTITIONS_A_STEP == 0:
                    yield
            return found, position

        def elements(
            buffer: bytes, position: int, count: int, end: int, view: memoryview
        ) -> Generator[None, None, tuple[list[MetadataResponseTopic], int]]:
            """Read topics. They are expected in the order of the last response, because brokers keep their order."""
            place = 0
            for number in range(count):
                if place < len(last) and buffer.startswith(last[place][0], position):
                    topics.append(last[place])
                    position += len(last[place][0])
                    place += 1
                    if number % UNCHANGED_A_STEP == 0:
                        yield
                    continue
                answer, after = yield from read_topic(buffer, position, end, view, partitions)
                yield
                if answer.name is not None:
                    topics.append((buffer[position:after], topic_metadata(answer, version)))
                    place = places.get(answer.name, place) + 1
                position = after
                yield
            return [], position

        whole = memoryview(bytes(frame))
        response = yield from decode_response_in_steps(MetadataResponse, version, whole, "topics", elements)
        self._version, self._last = version, topics
        return cluster_answer(response, [topic for _, topic in topics])

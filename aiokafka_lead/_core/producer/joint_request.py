"""One Produce request with the batches of several producers.

Brokers check each batch by the producer id that it carries, not by the request. A request has one batch per partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard
from uuid import UUID

from ..._wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse
from ..leadership.hints import HintReader
from ..metadata.types import LeaderHint
from .produce_codec import FIRST_WITH_IDS, BatchesRequest

WirePartition = tuple[bytes, int]
"""A partition, as a request names it."""

JOINT_BYTES = 256 * 1024
"""A larger request is not joined: its overhead is small compared to its records."""
JOINT_BATCHES = 500
"""The same limit for batches, each of which has an answer of its own."""


def is_plain(request: ProduceRequest) -> TypeGuard[BatchesRequest]:
    """Return True if a request may be joined: not one of a transaction, whose id would apply to all its batches."""
    return isinstance(request, BatchesRequest) and request.transactional_id is None


class JointRequest:
    """Begins with one producer's request, and adds requests of other producers."""

    __slots__ = ("_bytes", "_requests", "numbers")

    def __init__(self, first: BatchesRequest) -> None:
        self._requests = [first]
        self.numbers = {(name, index): 0 for name, parts in first.topics for index, _ in parts}
        """Number of the request that has each partition."""
        self._bytes = sum(len(records) for _, parts in first.topics for _, records in parts)

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self._requests)

    def add(self, other: JointRequest) -> bool:
        """Add another request and return True, unless its settings differ, it shares a partition, or it is large."""
        mine, theirs = self._requests[0], other._requests[0]
        if theirs.acks != mine.acks or theirs.timeout_ms != mine.timeout_ms:
            return False
        if self._bytes + other._bytes > JOINT_BYTES or len(self.numbers) + len(other.numbers) > JOINT_BATCHES:
            return False
        if not self.numbers.keys().isdisjoint(other.numbers):
            return False
        count = len(self._requests)
        self.numbers.update((partition, count + number) for partition, number in other.numbers.items())
        self._requests += other._requests
        self._bytes += other._bytes
        return True

    def request(self) -> BatchesRequest:
        """Return the joined request."""
        first = self._requests[0]
        if len(self._requests) > 1:
            topics: dict[bytes, list[tuple[int, memoryview]]] = {}
            for request in self._requests:
                for name, parts in request.topics:
                    topics.setdefault(name, []).extend(parts)
            first.topics = list(topics.items())
        return first


def parts_of(response: ProduceResponse, version: int, joint: JointRequest) -> list[ProduceResponse]:
    """Split an answer into one per request, each about its own partitions."""
    parts = [ProduceResponse(node_endpoints=response.node_endpoints) for _ in range(len(joint))]
    for topic in response.responses:
        name = topic.topic_id.bytes if version >= FIRST_WITH_IDS else topic.name.encode()
        for answer in topic.partition_responses:
            number = joint.numbers.get((name, answer.index))
            if number is not None:
                topics = parts[number].responses
                if not topics or (topics[-1].topic_id, topics[-1].name) != (topic.topic_id, topic.name):
                    topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id))
                topics[-1].partition_responses.append(answer)
    return parts


def take_hints(response: ProduceResponse, version: int, names: Mapping[UUID, str]) -> list[LeaderHint]:
    """Read an answer's hints once for all producers; see `HintReader.take`.

    Returns none if topics are identified by name, because the answer then does not identify their incarnation.
    """
    reader = HintReader(version >= FIRST_WITH_IDS, response.node_endpoints)
    if reader.tells_leaders and response.node_endpoints:
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code and topic.topic_id in names:
                    name = names[topic.topic_id]
                    reader.take(name, topic.topic_id, answer.index, answer.error_code, answer.current_leader)
    return reader.hints

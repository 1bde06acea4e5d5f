"""One Produce request with the batches of several producers.

Brokers check each batch by the producer id that it carries, not by the request. A partition can have one batch only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeGuard
from uuid import UUID

from ..._wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse
from ..leadership.hints import HintReader
from ..metadata.types import LeaderHint
from .produce_codec import FIRST_WITH_IDS, BatchesRequest

__all__ = ["JointRequest", "WirePartition", "is_plain", "partitions_of", "parts_of", "take_hints"]

WirePartition = tuple[bytes, int]
"""A partition, as a request names it."""

JOINT_BYTES = 256 * 1024
"""Beyond this a request takes no others in: what one costs is little beside its records."""
JOINT_BATCHES = 500
"""The same for batches, each of which has an answer of its own."""


def is_plain(request: ProduceRequest) -> TypeGuard[BatchesRequest]:
    """Whether a request may be joined: it is of no transaction, whose id would be that of all its batches."""
    return isinstance(request, BatchesRequest) and request.transactional_id is None


def partitions_of(request: BatchesRequest) -> list[WirePartition]:
    """The partitions of a request."""
    return [(name, index) for name, parts in request.topics for index, _ in parts]


class JointRequest:
    """Begins with one producer's request, and takes in others."""

    __slots__ = ("_bytes", "_first", "_taken", "_topics")

    def __init__(self, first: BatchesRequest) -> None:
        self._first = first
        self._topics: dict[bytes, list[tuple[int, memoryview]]] | None = None
        """The records by topic, once there are those of several requests."""
        self._taken = set(partitions_of(first))
        self._bytes = sum(len(records) for _, parts in first.topics for _, records in parts)

    def add(self, request: BatchesRequest) -> bool:
        """Take a request in, unless it says something else of how to write, has one of its partitions, or is large."""
        first = self._first
        if request.acks != first.acks or request.timeout_ms != first.timeout_ms:
            return False
        partitions = partitions_of(request)
        size = sum(len(records) for _, parts in request.topics for _, records in parts)
        if self._bytes + size > JOINT_BYTES or len(self._taken) + len(partitions) > JOINT_BATCHES:
            return False
        if not self._taken.isdisjoint(partitions):
            return False
        self._taken.update(partitions)
        self._bytes += size
        if self._topics is None:
            self._topics = {name: list(parts) for name, parts in first.topics}
        for name, parts in request.topics:
            self._topics.setdefault(name, []).extend(parts)
        return True

    def request(self) -> BatchesRequest:
        """The whole."""
        if self._topics is not None:
            self._first.topics = list(self._topics.items())
        return self._first


def parts_of(
    response: ProduceResponse, version: int, requests: Sequence[Iterable[WirePartition]]
) -> list[ProduceResponse]:
    """What an answer says about the partitions of each of these requests: a part of it for each."""
    owners = {partition: number for number, partitions in enumerate(requests) for partition in partitions}
    parts = [ProduceResponse(node_endpoints=response.node_endpoints) for _ in requests]
    for topic in response.responses:
        name = topic.topic_id.bytes if version >= FIRST_WITH_IDS else topic.name.encode()
        for answer in topic.partition_responses:
            owner = owners.get((name, answer.index))
            if owner is not None:
                topics = parts[owner].responses
                if not topics or (topics[-1].topic_id, topics[-1].name) != (topic.topic_id, topic.name):
                    topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id))
                topics[-1].partition_responses.append(answer)
    return parts


def take_hints(response: ProduceResponse, version: int, names: Mapping[UUID, str]) -> list[LeaderHint]:
    """Read an answer's hints once for all producers; see `HintReader.take`.

    None where topics go by name, since the answer does not say which incarnation it is about.
    """
    reader = HintReader(version >= FIRST_WITH_IDS, response.node_endpoints)
    if reader.tells_leaders and response.node_endpoints:
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code and topic.topic_id in names:
                    name = names[topic.topic_id]
                    reader.take(name, topic.topic_id, answer.index, answer.error_code, answer.current_leader)
    return reader.hints

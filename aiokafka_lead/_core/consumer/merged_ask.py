"""The open requests (*asks*) of consumers to their merged fetches, and the state of each consumer.

See `merged_fetch` for the terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol
from uuid import UUID

from ..._values import NamedTuple
from ..._wire.messages.fetch import FetchResponse, NodeEndpoint, PartitionData
from ...errors import KafkaError
from ...types import TopicPartition
from ..leadership.hints import FIRST_FETCH_WITH_HINTS, HintReader
from ..metadata.types import LeaderHint
from .fetch_plan import PlannedFetch
from .fetch_session import SessionRequest
from .position import PartitionFetch

AWAY_AFTER_S = 0.1
"""Seconds after its last ask for which a consumer's partitions are still fetched.

A consumer may ask later than that, for example because its memory is full.
"""


class Asker(Protocol):
    """A consumer that opens asks and receives the answers."""

    def answered(self, answered: Answered, /) -> None:
        """Called with the answer to the consumer's ask, which has been closed."""


class MergedRequest(NamedTuple):
    """A request to send now, with the data needed to read its response."""

    probe: bool
    version: int
    request: SessionRequest
    asked: Mapping[TopicPartition, PartitionFetch]
    names: Mapping[UUID, str]
    max_bytes: int
    sent_at: float


class Answered(NamedTuple):
    """The answer to an ask: a response with the consumer's data, or an error."""

    owner: Asker
    planned: PlannedFetch
    response: FetchResponse | None
    error: KafkaError | None


class AskingConsumer:
    """One consumer: the partitions that it wants, its ask, and the data kept for it."""

    __slots__ = ("ask", "away", "closed_at", "given", "kept", "kept_endpoints", "owner", "seen", "since", "wants")

    def __init__(self, owner: Asker) -> None:
        self.owner = owner
        self.wants: dict[TopicPartition, PartitionFetch] = {}
        """The partitions that it wants, as of its latest ask."""
        self.given: set[TopicPartition] = set()
        """Partitions for which the consumer has received records or an error since its latest ask."""
        self.seen: set[TopicPartition] = set()
        """Partitions whose log ends the consumer knows."""
        self.ask: PlannedFetch | None = None
        """The open ask, or None."""
        self.since = 0.0
        """Time at which the ask was opened."""
        self.closed_at = 0.0
        """Time at which the last ask was closed."""
        self.away = False
        """True if the last ask was closed long ago. The consumer's partitions are then no longer fetched."""
        self.kept: dict[TopicPartition, PartitionData] = {}
        """Data that arrived while the consumer had no open ask."""
        self.kept_endpoints: list[NodeEndpoint] = []

    def wants_now(self, tp: TopicPartition) -> bool:
        """Return True if the partition should be fetched for this consumer now."""
        return not self.away and tp not in self.given


class Asks:
    """Tracks the open asks, and the consumers that may ask again soon."""

    def __init__(self) -> None:
        self._open: dict[AskingConsumer, None] = {}
        """Consumers with open asks, oldest first."""
        self._closed: dict[AskingConsumer, None] = {}
        """Consumers with closed asks, oldest first."""
        self.max_bytes = 0
        """The sum of the size limits of the open asks, in bytes."""

    def __iter__(self) -> Iterator[AskingConsumer]:
        """Iterate over the consumers with open asks. Asks may be closed during the iteration."""
        return iter(list(self._open))

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def more_to_come(self) -> bool:
        """True if a consumer whose ask is closed may ask again soon."""
        return bool(self._closed)

    def open(self, consumer: AskingConsumer, planned: PlannedFetch, now: float) -> None:
        """Open an ask with the request that the consumer has planned. It replaces the consumer's earlier ask."""
        self.close(consumer, now)
        self._closed.pop(consumer, None)
        consumer.ask, consumer.since = planned, now
        self._open[consumer] = None
        self.max_bytes += planned.max_bytes

    def close(self, consumer: AskingConsumer, now: float) -> None:
        """Close the consumer's ask, if there is one."""
        if consumer.ask is not None:
            self.max_bytes -= consumer.ask.max_bytes
            consumer.ask = None
            consumer.closed_at = now
            del self._open[consumer]
            self._closed[consumer] = None

    def remove(self, consumer: AskingConsumer) -> None:
        """Remove a consumer, and close its ask."""
        self.close(consumer, 0.0)
        self._closed.pop(consumer, None)

    def open_for(self, hold_s: float, now: float) -> Iterator[AskingConsumer]:
        """Yield the consumers whose asks have been open for ``hold_s`` seconds."""
        for consumer in self._open:
            if now - consumer.since < hold_s:
                break
            yield consumer

    def send_away(self, now: float) -> list[AskingConsumer]:
        """Mark the consumers whose asks were closed long ago as away, and drop their kept data. Return them."""
        gone = []
        for consumer in self._closed:
            if now - consumer.closed_at < AWAY_AFTER_S:
                break
            gone.append(consumer)
        for consumer in gone:
            del self._closed[consumer]
            consumer.away = True
            consumer.kept.clear()
        return gone


def take_hints(sent: MergedRequest, response: FetchResponse) -> list[LeaderHint]:
    """Read the response's leader hints once, on behalf of all consumers. See `HintReader.take`."""
    reader = HintReader(sent.version >= FIRST_FETCH_WITH_HINTS, response.node_endpoints)
    if reader.tells_leaders and response.node_endpoints:
        for topic in response.responses:
            name = topic.topic or sent.names.get(topic.topic_id, "")
            for data in topic.partitions:
                if data.error_code:
                    asked = sent.asked.get(TopicPartition(name, data.partition_index))
                    if asked is not None:
                        reader.take(name, asked.topic_id, data.partition_index, data.error_code, data.current_leader)
    return reader.hints

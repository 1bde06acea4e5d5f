"""What consumers ask of their merged fetches, and what is known of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from ..._wire.messages.fetch import FetchResponse, NodeEndpoint, PartitionData
from ...errors import KafkaError
from ...types import TopicPartition
from .fetch_plan import PlannedFetch
from .fetch_session import SessionRequest
from .partition_fetch import PartitionFetch

__all__ = ["Answered", "Asker", "AskingConsumer", "Asks", "MergedRequest"]

AWAY_AFTER_S = 0.1
"""A consumer that has not asked again for so long has no room for records, say: nothing is fetched for it."""


class Asker(Protocol):
    """A consumer, for which asks are opened."""

    def answered(self, answered: Answered, /) -> None:
        """Its ask has come to this."""


class MergedRequest(NamedTuple):
    """A request to send now, and what its answer has to be read against."""

    probe: bool
    version: int
    request: SessionRequest
    asked: Mapping[TopicPartition, PartitionFetch]
    names: Mapping[UUID, str]
    max_bytes: int
    sent_at: float


class Answered(NamedTuple):
    """What an ask has come to."""

    owner: Asker
    planned: PlannedFetch
    response: FetchResponse | None
    error: KafkaError | None


class AskingConsumer:
    """One consumer: what it wants, its ask, and what was kept for it."""

    __slots__ = ("ask", "away", "closed_at", "given", "kept", "kept_endpoints", "owner", "seen", "since", "wants")

    def __init__(self, owner: Asker) -> None:
        self.owner = owner
        self.wants: dict[TopicPartition, PartitionFetch] = {}
        """What its latest ask was about."""
        self.given: set[TopicPartition] = set()
        """Of these it was given records, or an error, since its latest ask."""
        self.seen: set[TopicPartition] = set()
        """Of these it knows how far the log goes."""
        self.ask: PlannedFetch | None = None
        """The ask that is open."""
        self.since = 0.0
        """When it was opened."""
        self.closed_at = 0.0
        """When its last ask was closed."""
        self.away = False
        """Whether its last ask was closed so long ago that nothing is fetched for it."""
        self.kept: dict[TopicPartition, PartitionData] = {}
        """What arrived while no ask was open."""
        self.kept_endpoints: list[NodeEndpoint] = []

    def wants_now(self, tp: TopicPartition) -> bool:
        """Whether a partition is to be fetched for it."""
        return not self.away and tp not in self.given


class Asks:
    """Which consumers' asks are open, and which consumers may ask again in a moment."""

    def __init__(self) -> None:
        self._open: dict[AskingConsumer, None] = {}
        """The one that asked first stands first."""
        self._closed: dict[AskingConsumer, None] = {}
        """The one whose ask was closed first stands first."""
        self.max_bytes = 0
        """What the open asks may hold together."""

    def __iter__(self) -> Iterator[AskingConsumer]:
        """Those that are open. They may be closed meanwhile."""
        return iter(list(self._open))

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def more_to_come(self) -> bool:
        """Whether a consumer may ask again in a moment."""
        return bool(self._closed)

    def open(self, consumer: AskingConsumer, planned: PlannedFetch, now: float) -> None:
        """The consumer asks for this, instead of what it may have asked for before."""
        self.close(consumer, now)
        self._closed.pop(consumer, None)
        consumer.ask, consumer.since = planned, now
        self._open[consumer] = None
        self.max_bytes += planned.max_bytes

    def close(self, consumer: AskingConsumer, now: float) -> None:
        """Its ask is open no longer, if it was."""
        if consumer.ask is not None:
            self.max_bytes -= consumer.ask.max_bytes
            consumer.ask = None
            consumer.closed_at = now
            del self._open[consumer]
            self._closed[consumer] = None

    def remove(self, consumer: AskingConsumer) -> None:
        """The consumer asks no more."""
        self.close(consumer, 0.0)
        self._closed.pop(consumer, None)

    def open_for(self, hold_s: float, now: float) -> Iterator[AskingConsumer]:
        """Those whose asks were open for so long."""
        for consumer in self._open:
            if now - consumer.since < hold_s:
                break
            yield consumer

    def send_away(self, now: float) -> list[AskingConsumer]:
        """Those whose asks were closed long ago, which are away from now on."""
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

"""Records that were taken before metadata knew their topic, for a call that does not wait.

They are kept with their arguments, in order, and put into batches as soon as metadata knows the topic: before a call
that waited for that metadata goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...errors import KafkaError
from ...types import Header
from .accumulator import Accumulator
from .delivery import Delivery
from .outcome import BatchOutcome, Park, Part

__all__ = ["UnknownTopics"]

UNKNOWN_PARTITION = -1


class _Record(NamedTuple):
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    partition: int
    headers: Sequence[Header]
    size: int
    """What it holds of ``buffer_memory``."""


class _Topic:
    """The records of one topic."""

    __slots__ = ("ordinal", "outcome", "records")

    def __init__(self, name: str, ordinal: int, park: Park) -> None:
        self.ordinal = ordinal
        self.outcome = BatchOutcome(name, UNKNOWN_PARTITION, park)
        self.records: list[_Record] = []


class UnknownTopics:
    """The records of topics that are not known yet."""

    def __init__(self, accumulator: Accumulator, park: Park) -> None:
        self._accumulator = accumulator
        self._park = park
        self._topics: dict[str, _Topic] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def append(
        self,
        topic: str,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        partition: int,
        headers: Sequence[Header],
    ) -> Delivery | None:
        """Take a record; None when memory is short. Raises `MessageTooLargeError`."""
        accumulator = self._accumulator
        size = accumulator.record_size(key, value, headers)
        if not accumulator.memory.take(size):
            return None
        waiting = self._topics.get(topic)
        if waiting is None:
            waiting = self._topics[topic] = _Topic(topic, accumulator.next_ordinal(), self._park)
            accumulator.started(waiting.ordinal)
        waiting.records.append(_Record(timestamp_ms, key, value, partition, headers, size))
        return Delivery(waiting.outcome, len(waiting.records) - 1, timestamp_ms)

    def on_snapshot(self, now: float) -> None:
        """Metadata changed: put the records of topics that it knows into batches."""
        for name in [name for name in self._topics if self._accumulator.topic(name) is not None]:
            waiting = self._topics.pop(name)
            parts: list[Part] = []
            for at, record in enumerate(waiting.records):
                outcome, index = self._put(name, waiting.ordinal, record, now)
                self._accumulator.memory.give(record.size)
                if not parts or parts[-1].outcome is not outcome or index != at - parts[-1].first + parts[-1].at:
                    parts.append(Part(at, outcome, index))
            waiting.outcome.divide(parts)
            self._accumulator.finish(waiting.ordinal)

    def _put(self, name: str, ordinal: int, record: _Record, now: float) -> tuple[BatchOutcome, int]:
        """Where the record went; an outcome of its own where it cannot go anywhere."""
        accumulator = self._accumulator
        topic = accumulator.topic(name)
        assert topic is not None
        try:
            delivery = accumulator.append(
                topic,
                record.timestamp_ms,
                record.key,
                record.value,
                accumulator.chosen_partition(topic, record.key, record.partition),
                record.headers,
                now=now,
                granted=True,
                ordinal=ordinal,
            )
        except KafkaError as error:
            outcome = BatchOutcome(name, record.partition, self._park)
            outcome.fail(error)
            accumulator.given_up(error)
            return outcome, 0
        assert delivery is not None
        return delivery.place

    def drop(self, topic: str, make_error: Callable[[str], KafkaError]) -> int:
        """Give up a topic's records, and say how many; ``make_error`` takes a text that says what became of them."""
        waiting = self._topics.pop(topic, None)
        if waiting is None:
            return 0
        for record in waiting.records:
            self._accumulator.memory.give(record.size)
        self._accumulator.counters.records_failed += len(waiting.records)
        error = make_error("never sent")
        waiting.outcome.fail(error)
        self._accumulator.finish(waiting.ordinal)
        self._accumulator.given_up(error)
        return len(waiting.records)

    def drop_all(self, make_error: Callable[[str], KafkaError]) -> None:
        """Give up everything."""
        for topic in list(self._topics):
            self.drop(topic, make_error)

"""Records for topics that are not in the metadata yet, from calls that do not wait.

The records are kept with their arguments, in order. Once the metadata contains the topic, they are put into batches.
This happens before calls that were waiting for the same metadata continue.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import KafkaError
from .accumulator import Accumulator
from .batches import Record
from .delivery import Delivery
from .outcome import BatchOutcome, Park, Part

UNKNOWN_PARTITION = -1


class _Topic:
    """The records that wait for one topic, and their common outcome."""

    __slots__ = ("ordinal", "outcome", "records")

    def __init__(self, name: str, ordinal: int, park: Park) -> None:
        self.ordinal = ordinal
        self.outcome = BatchOutcome(name, UNKNOWN_PARTITION, park)
        self.records: list[Record] = []


class UnknownTopics:
    """Keeps the records for topics that are not in the metadata yet."""

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._topics: dict[str, _Topic] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def records_left(self) -> int:
        """Return the number of records that are waiting for their topics."""
        return sum(len(waiting.records) for waiting in self._topics.values())

    def append(self, record: Record) -> Delivery | None:
        """Accept a record for an unknown topic. Return None if memory is short. Raises `MessageTooLargeError`."""
        accumulator = self._accumulator
        if not accumulator.memory.take(accumulator.record_size(record)):
            return None
        waiting = self._topics.get(record.topic)
        if waiting is None:
            waiting = self._topics[record.topic] = _Topic(record.topic, accumulator.next_ordinal(), accumulator.park)
            accumulator.started(waiting.ordinal)
        waiting.records.append(record)
        return Delivery(waiting.outcome, len(waiting.records) - 1, record.timestamp_ms)

    def on_snapshot(self, now: float) -> None:
        """Put records into batches if the metadata now contains their topics."""
        for name in list(self._topics):
            topic = self._accumulator.topic(name)
            if topic is None:
                continue
            waiting = self._topics.pop(name)
            parts: list[Part] = []
            for at, record in enumerate(waiting.records):
                outcome, index = self._accumulator.place(topic, record, waiting.ordinal, now)
                self._accumulator.memory.give(self._accumulator.record_size(record))
                if not parts or parts[-1].outcome is not outcome or index != at - parts[-1].first + parts[-1].at:
                    parts.append(Part(at, outcome, index))
            waiting.outcome.divide(parts)
            self._accumulator.finish(waiting.ordinal)

    def drop(self, topic: str, make_error: Callable[[str], KafkaError]) -> int:
        """Give up the records for a topic, and return their number.

        ``make_error`` receives a text that says whether the records may be in the log.
        """
        waiting = self._topics.pop(topic, None)
        if waiting is None:
            return 0
        for record in waiting.records:
            self._accumulator.memory.give(self._accumulator.record_size(record))
        self._accumulator.counters.records_failed += len(waiting.records)
        error = make_error("never sent")
        waiting.outcome.fail(error)
        self._accumulator.finish(waiting.ordinal)
        self._accumulator.given_up(error)
        return len(waiting.records)

    def drop_all(self, make_error: Callable[[str], KafkaError]) -> None:
        """Give up the records for all topics, each as `drop` does."""
        for topic in list(self._topics):
            self.drop(topic, make_error)

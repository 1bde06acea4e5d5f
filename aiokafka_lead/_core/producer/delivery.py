"""What becomes of records that were handed to the producer.

There is no future per record: all records of a batch share one `BatchOutcome`, and a `Delivery` is no more than that
outcome and an index. Something to wait on is made only when a delivery is awaited before its batch is done.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ...errors import IllegalStateError, KafkaError
from ...types import RecordMetadata
from . import tuples

__all__ = ["BatchOutcome", "Delivery", "DeliveryBatch", "Park", "Part", "Wakeable", "new_delivery"]

NO_OFFSET = -1
"""The broker told no offset: ``acks=0``, or a duplicate that it no longer remembers."""


class Wakeable(Protocol):
    """Whatever the tasks that await an outcome are parked on."""

    def set_result(self, value: None, /) -> None:
        """Wake them."""

    async def wait(self) -> None:
        """Wait to be woken."""


class BatchOutcome:
    """The fate of one batch's records: acknowledged, failed, or divided among the batches that it was split into.

    Invariant: once ``done`` or divided, it never changes again.
    """

    __slots__ = (
        "base_offset",
        "done",
        "error",
        "log_append_time_ms",
        "park",
        "partition",
        "parts",
        "record_errors",
        "topic",
        "waiter",
    )

    def __init__(self, topic: str, partition: int, park: Park) -> None:
        self.topic = topic
        self.partition = partition
        self.park = park
        """Suspends the caller until the outcome is done or divided."""
        self.done = False
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = -1
        """The broker's time on a topic with log-append time, else -1."""
        self.error: KafkaError | None = None
        self.record_errors: Mapping[int, KafkaError] | None = None
        """By index in the batch, where the broker told which records it found wrong (KIP-467)."""
        self.parts: list[Part] | None = None
        """Where the records are once they are divided, in order."""
        self.waiter: Wakeable | None = None
        """Made by ``park`` when somebody waits."""

    def complete(self, base_offset: int, log_append_time_ms: int = -1) -> None:
        """The broker has the records."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._settle()

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None) -> None:
        """The records were given up."""
        self.error = error
        self.record_errors = record_errors
        self._settle()

    def _settle(self) -> None:
        assert not self.done
        self.done = True
        self._wake()

    def divide(self, parts: list[Part]) -> None:
        """The records went to other batches: each part has another outcome from now on."""
        self.parts = parts
        self._wake()

    def _wake(self) -> None:
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            waiter.set_result(None)

    def locate(self, index: int) -> tuple[BatchOutcome, int]:
        """The undivided outcome that holds the record now, and the record's index there."""
        outcome = self
        while outcome.parts is not None:
            part = outcome.parts[bisect_right(outcome.parts, index, key=_first) - 1]
            outcome = part.outcome
            index += part.at - part.first
        return outcome, index

    def record(self, index: int, timestamp_ms: int) -> RecordMetadata | KafkaError:
        """What became of one record. Only of a done outcome."""
        if self.error is not None:
            if self.record_errors is not None:
                return self.record_errors.get(index, self.error)
            return self.error
        offset = self.base_offset + index if self.base_offset >= 0 else NO_OFFSET
        time_ms = self.log_append_time_ms if self.log_append_time_ms >= 0 else timestamp_ms
        return tuples.of_four(RecordMetadata, self.topic, self.partition, offset, time_ms)

    def records(self, first: int, timestamps_ms: Sequence[int]) -> list[RecordMetadata | KafkaError]:
        """What became of consecutive records, one for each timestamp. Only of a done outcome."""
        return [self.record(index, time_ms) for index, time_ms in enumerate(timestamps_ms, first)]


class Part(NamedTuple):
    """Consecutive records of a divided batch."""

    first: int
    """The index of the first one before."""
    outcome: BatchOutcome
    at: int
    """The index of the first one now."""


def _first(part: Part) -> int:
    return part.first


Park = Callable[[BatchOutcome], Awaitable[None]]


class Delivery:
    """One record on its way. Await it, any number of times, for its `RecordMetadata` or the error it failed with.

    Cancelling the await does not cancel the record.
    """

    __slots__ = ("_index", "_outcome", "_timestamp_ms")

    def __init__(self, outcome: BatchOutcome, index: int, timestamp_ms: int) -> None:
        self._outcome = outcome
        self._index = index
        self._timestamp_ms = timestamp_ms

    @property
    def topic(self) -> str:
        """The record's topic."""
        return self._outcome.topic

    @property
    def partition(self) -> int:
        """The partition that was chosen for the record; -1 as long as its topic is not known."""
        return self._locate().partition

    @property
    def timestamp_ms(self) -> int:
        """The record's own time in milliseconds since 1970."""
        return self._timestamp_ms

    @property
    def done(self) -> bool:
        """Whether the record was acknowledged or failed."""
        return self._locate().done

    @property
    def place(self) -> tuple[BatchOutcome, int]:
        """The record's batch and its index there, for the producer's own use."""
        return self._locate(), self._index

    def result(self) -> RecordMetadata:
        """What awaiting gives, of a record that is done; raises `IllegalStateError` before."""
        outcome = self._locate()
        if not outcome.done:
            raise IllegalStateError("the record is neither acknowledged nor failed yet: await the delivery")
        return self._result(outcome)

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        outcome = self._outcome
        while not outcome.done:
            if outcome.parts is None:
                yield from outcome.park(outcome).__await__()
            outcome = self._locate()
        return self._result(outcome)

    def _locate(self) -> BatchOutcome:
        if self._outcome.parts is not None:
            self._outcome, self._index = self._outcome.locate(self._index)
        return self._outcome

    def _result(self, outcome: BatchOutcome) -> RecordMetadata:
        found = outcome.record(self._index, self._timestamp_ms)
        if isinstance(found, KafkaError):
            # All awaits of a batch share the error: without this its traceback would grow with each of them.
            raise found.with_traceback(None)
        return found

    def __repr__(self) -> str:
        outcome = self._locate()
        state = "pending" if not outcome.done else "acknowledged" if outcome.error is None else "failed"
        return f"<Delivery {outcome.topic}-{outcome.partition} {state}>"


def new_delivery(outcome: BatchOutcome, index: int, timestamp_ms: int) -> Delivery:
    """A `Delivery`, made faster than by a call of the class."""
    delivery = Delivery.__new__(Delivery)
    delivery._outcome = outcome
    delivery._index = index
    delivery._timestamp_ms = timestamp_ms
    return delivery


class DeliveryBatch:
    """The records of one ``send_many``. Await it for a list with one outcome per record, in order.

    Each outcome is a `RecordMetadata`, or the exception that the record failed with: awaiting does not raise it.
    """

    __slots__ = ("_runs", "_size")

    def __init__(self) -> None:
        self._runs: list[tuple[BatchOutcome | KafkaError, int, int, Sequence[int] | int]] = []
        """Where consecutive records went: outcome (or why they never got one), first index there, how many, times."""
        self._size = 0

    def add(self, outcome: BatchOutcome, first: int, count: int, timestamps_ms: Sequence[int] | int) -> None:
        """The next ``count`` records went to this batch; one time for all of them, or one for each."""
        self._runs.append((outcome, first, count, timestamps_ms))
        self._size += count

    def add_delivery(self, delivery: Delivery) -> None:
        """The next record is this one."""
        outcome, index = delivery.place
        time_ms = delivery.timestamp_ms
        if self._runs:
            at = len(self._runs) - 1  # compiled without negative indices
            last, first, count, times = self._runs[at]
            if last is outcome and first + count == index and times == time_ms:
                self._runs[at] = (last, first, count + 1, times)
                self._size += 1
                return
        self.add(outcome, index, 1, time_ms)

    def add_failed(self, error: KafkaError, count: int = 1) -> None:
        """The next ``count`` records were refused."""
        self._runs.append((error, 0, count, 0))
        self._size += count

    def __len__(self) -> int:
        return self._size

    @property
    def done(self) -> bool:
        """Whether every record was acknowledged or failed."""
        for outcome, first, count, _ in self._runs:
            if isinstance(outcome, BatchOutcome) and not outcome.done:
                if outcome.parts is None:
                    return False
                if not all(outcome.locate(index)[0].done for index in range(first, first + count)):
                    return False
        return True

    def __await__(self) -> Generator[Any, Any, list[RecordMetadata | KafkaError]]:
        results: list[RecordMetadata | KafkaError] = []
        for outcome, first, count, timestamps_ms in self._runs:
            if isinstance(outcome, KafkaError):
                results.extend([outcome] * count)
                continue
            while not outcome.done and outcome.parts is None:
                yield from outcome.park(outcome).__await__()
            times = [timestamps_ms] * count if isinstance(timestamps_ms, int) else timestamps_ms
            if outcome.done:
                results.extend(outcome.records(first, times))
                continue
            for index, time_ms in enumerate(times, first):
                part, at = outcome.locate(index)
                while not part.done:
                    yield from part.park(part).__await__()
                    part, at = part.locate(at)
                results.append(part.record(at, time_ms))
        return results

    def __repr__(self) -> str:
        return f"<DeliveryBatch of {self._size} records, {'done' if self.done else 'pending'}>"

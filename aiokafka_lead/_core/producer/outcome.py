"""The outcome of a batch, and therefore of each of its records.

This code runs for each batch and delivery. If a compiler is available, it is compiled through ``outcome.pxd``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from ..._cpython import tuples
from ..._values import NamedTuple
from ...errors import IllegalStateError, KafkaError
from ...types import RecordMetadata

NO_OFFSET = -1
"""The offset if the broker returned none, with ``acks=0`` or for a duplicate whose offset it no longer knows."""


class Wakeable(Protocol):
    """An object on which tasks wait for an outcome."""

    def set_result(self, value: None, /) -> None:
        """Wake the tasks that wait for the outcome."""


class Park(Protocol):
    """Lets tasks wait for outcomes on one event loop.

    A finished outcome may keep its `Park`, because a `Park` refers to no outcome.
    """

    def __call__(self, outcome: BatchOutcome, /) -> Awaitable[object]:
        """Return an awaitable that finishes when the outcome is done or divided.

        It must be awaited immediately and exactly once.
        """
        ...

    def soon(self, fn: Callable[..., object], /, *args: Any) -> None:
        """Schedule ``fn`` on the event loop. Errors that it raises are logged."""


class BatchOutcome:
    """The outcome of a batch's records: acknowledged, failed, or divided among the batches into which it was split."""

    __slots__ = (
        "_time",
        "_time_ms",
        "base_offset",
        "callbacks",
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
        self.done = False
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = -1
        """The broker's timestamp if the topic uses log-append time, otherwise -1."""
        self.error: KafkaError | None = None
        self.record_errors: Mapping[int, KafkaError] | None = None
        """Errors of single records by index in the batch, if the broker has identified these records (KIP-467)."""
        self.parts: list[Part] | None = None
        """The places of the records after a division, in order."""
        self.waiter: Wakeable | None = None
        """Set by ``park`` when a task starts to wait."""
        self.callbacks: list[Any] | None = None
        """Functions to call when the outcome is done or divided."""
        self._time_ms = -1
        self._time = -1
        """The last timestamp as an int object, which most records of a batch can share."""

    def complete(self, base_offset: int, log_append_time_ms: int = -1) -> None:
        """Complete the outcome, because the broker has stored the records, from ``base_offset`` on."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._settle()

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None) -> None:
        """Fail the outcome, because the records were given up.

        ``record_errors`` contains the errors of records that have one of their own, by index.
        """
        self.error = error.with_traceback(None)
        self.record_errors = record_errors
        self._settle()

    def _settle(self) -> None:
        assert not self.done
        self.done = True
        self._wake()

    def divide(self, parts: list[Part]) -> None:
        """Divide the outcome, because the records were moved to other batches, whose outcomes are in ``parts``."""
        self.parts = parts
        self._wake()

    def _wake(self) -> None:
        callbacks = self.callbacks
        if callbacks is not None:
            self.callbacks = None  # the callbacks refer to deliveries, which refer to this outcome
            for callback in callbacks:
                self.park.soon(callback)
        waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            waiter.set_result(None)

    def locate(self, index: int) -> tuple[BatchOutcome, int]:
        """Return the outcome that contains the record now, and the record's index in it."""
        outcome = self
        while outcome.parts is not None:
            part = outcome.parts[bisect_right(outcome.parts, index, key=_first) - 1]
            outcome = part.outcome
            index += part.at - part.first
        return outcome, index

    def record(self, index: int, timestamp_ms: int) -> RecordMetadata | KafkaError:
        """Return the result of one record. The outcome must be finished."""
        if self.error is not None:
            if self.record_errors is not None:
                return self.record_errors.get(index, self.error)
            return self.error
        return self.metadata(index, timestamp_ms)

    def metadata(self, index: int, timestamp_ms: int) -> RecordMetadata:
        """Return the metadata of one record. The outcome must be complete."""
        offset = self.base_offset + index if self.base_offset >= 0 else NO_OFFSET
        time_ms = self.log_append_time_ms if self.log_append_time_ms >= 0 else timestamp_ms
        if time_ms != self._time_ms:
            self._time_ms = time_ms
            self._time = time_ms
        return tuples.of_four(RecordMetadata, self.topic, self.partition, offset, self._time)

    def records(self, first: int, count: int, timestamp_ms: int) -> list[RecordMetadata | KafkaError]:
        """Return the results of ``count`` consecutive records that have the same timestamp.

        ``first`` is the index of the first record in the batch. Each result is a `RecordMetadata` or a `KafkaError`.
        The outcome must be finished.
        """
        found: list[RecordMetadata | KafkaError] = []
        for index in range(first, first + count):
            found.append(self.record(index, timestamp_ms))
        return found


class Part(NamedTuple):
    """Consecutive records of a divided batch."""

    first: int
    """Index of the first record before the division."""
    outcome: BatchOutcome
    at: int
    """Index of the first record in its new batch."""


def _first(part: Part) -> int:
    return part.first


class _NothingToWaitFor:
    def __call__(self, outcome: BatchOutcome, /) -> Awaitable[object]:
        raise IllegalStateError("the outcome is known")

    def soon(self, fn: Callable[..., object], /, *args: Any) -> None:
        fn(*args)


NOTHING_TO_WAIT_FOR: Park = _NothingToWaitFor()
"""The ``park`` of outcomes that are done from the start."""


tuples.recycle(RecordMetadata)

"""Takes over the consumer for a run: takes records from it, and deserializes each one before it is handled."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from ..._core.consumer.deserializers import Deserializers
from ..._core.consumer.in_hand import ParallelWork
from ..._core.consumer.position import Position
from ..._core.consumer.reading import Reading
from ..._core.run.delays import Closed
from ..._core.run.later import RetryTopics, due_ms
from ..._core.run.work import Work
from ..._core.tracing import RunTracing
from ..._records import ConsumerRecord
from ...errors import IllegalStateError
from ...types import TopicPartition
from ..consumer.deserializing import of_application
from ..consumer.reader import Reader
from ..loop import Waiter

if TYPE_CHECKING:
    from ..consumer.engine import ConsumerEngine

Record = ConsumerRecord[Any, Any]


class _Run(ParallelWork, Protocol):
    def stuck_since(self) -> float | None: ...


def begin(engine: ConsumerEngine[Any, Any]) -> bool:
    """Return True if a run may begin, and False if the consumer was stopped meanwhile. Raises `IllegalStateError`."""
    if engine.reader.stopped:
        return False
    if engine.run.work is not None:
        raise IllegalStateError("run() is under way already")
    engine.check_reading()
    return True


@contextmanager
def in_charge(
    engine: ConsumerEngine[Any, Any], run: _Run, tracing: RunTracing | None, ended: Waiter[None]
) -> Iterator[None]:
    """Make this run the only one to commit and deserialize the consumer's records. Settles ``ended`` at the end."""
    prefetch = engine.reading.prefetch
    deserializers = prefetch.deserializers
    engine.run.work = run
    prefetch.decode_with(Deserializers())
    engine.progress.oldest_work = run.stuck_since
    listener = engine.reader.replace_listener(None)
    try:
        yield
    finally:
        engine.reader.replace_listener(listener)
        engine.run.work = None
        engine.progress.oldest_work = None
        engine.progress.progressed(time.monotonic())
        prefetch.decode_with(deserializers)
        if tracing is not None:
            tracing.drop()
        ended.set_result(None)


class Intake:
    """Takes records from a consumer, except records in retry topics before they are due."""

    def __init__(self, reading: Reading, reader: Reader[Any, Any], retry_topics: RetryTopics | None) -> None:
        self._reading = reading
        self._reader = reader
        self._retry_topics = retry_topics
        self._closed = Closed(due_ms)

    async def take(self, work: Work, most_ms: float, room: int, *, from_all: bool = False) -> int:
        """Put up to ``room`` records in hand; return their number, which is 0 if none came within the time.

        With ``from_all``, also take from partitions that ``work`` has enough of.
        """
        retry_topics = self._retry_topics
        if retry_topics is None:
            return self._add(work, await self._reader.getmany(None if from_all else work, most_ms, room))
        most_ms = min(most_ms, self._closed.opens_in_s(time.time()) * 1000 + 1)
        wanted = _Open(self._closed, () if from_all else work, from_all)
        taken = await self._reader.getmany(wanted, most_ms, room)
        now = time.time()
        for tp, records in list(taken.items()):
            if tp.topic in retry_topics and (due := self._closed.due(tp, records, now)) < len(records):
                first = records[due]
                epoch = -1 if first.leader_epoch is None else first.leader_epoch
                self._reading.move(self._reading.positions.require(tp), Position(first.offset, epoch))
                taken[tp] = records[:due]
        return self._add(work, taken)

    def _add(self, work: Work, taken: Mapping[TopicPartition, list[Record]]) -> int:
        count = 0
        for tp, records in taken.items():
            if records:
                state = self._reading.positions.require(tp)
                position = state.position
                assert position is not None  # records were taken from it just now
                work.add(state, records, position)
                count += len(records)
        return count


class _Open:
    """Partitions that may be taken from now."""

    def __init__(self, closed: Closed, work: Container[object], from_all: bool) -> None:
        self._closed = closed
        self._work = work
        self._from_all = from_all

    def __contains__(self, tp: object) -> bool:
        assert isinstance(tp, TopicPartition)
        return not self._closed.is_closed(tp, time.time()) and (self._from_all or tp in self._work)


async def deserialized(record: Record, by: Deserializers) -> Record:
    """Return the record with its contents deserialized. Raises `RecordDeserializationError`."""
    if by.plain:
        return record
    if by.waits:
        return await of_application(record, by)
    records, error = by.apply([record])
    if error is not None:
        raise error
    return records[0]

"""One partition's part of a fetch answer, decoded batch by batch as the application reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import length_hint
from typing import TYPE_CHECKING, Any

from ..._records import BatchView, ConsumerRecord, read_batches
from ...errors import CorruptBatchError, CorruptRecordError, RecordDeserializationError
from .aborted import AbortedFilter, AbortedTransaction
from .partition_state import Position
from .record_batch import RecordBatch

if TYPE_CHECKING:
    from .partition_state import PartitionState

__all__ = ["Chunk", "Deserializers", "FetchedData"]

Record = ConsumerRecord[Any, Any]
Deserializer = Callable[[bytes], Any]


class Deserializers:
    """What makes the application's keys and values of bytes; None leaves them alone."""

    __slots__ = ("key", "value")

    def __init__(self, key: Deserializer | None = None, value: Deserializer | None = None) -> None:
        self.key = key
        self.value = value

    def apply(self, records: list[Record]) -> tuple[list[Record], RecordDeserializationError | None]:
        """The records with their content deserialized, up to the first that cannot be, and its error.

        Keys and values that are None stay None, as in Java.
        """
        key_of, value_of = self.key, self.value
        if key_of is None and value_of is None:
            return records, None
        done: list[Record] = []
        for record in records:
            key, value = record.key, record.value
            part = "key"
            try:
                if key_of is not None and key is not None:
                    key = key_of(key)
                part = "value"
                if value_of is not None and value is not None:
                    value = value_of(value)
            except Exception as cause:
                error = RecordDeserializationError(
                    f"the {part} of the record at offset {record.offset} of {record.topic}-{record.partition} "
                    f"cannot be deserialized: {cause!r}; seek past it to go on",
                    record=record,
                    part=part,
                )
                error.__cause__ = cause
                return done, error
            done.append(record.with_content(key, value))
        return done, None


class Chunk:
    """Decoded records of one batch, handed out one by one or many at a time.

    Invariant: ``records`` is iterated over by ``remaining`` alone, which thereby is the only cursor. A loop over it
    costs nothing beside the list's own iterator, and the position follows from what the iterator has left.
    """

    __slots__ = ("_taken", "leader_epoch", "next_offset", "records", "remaining", "start")

    def __init__(self, records: list[Record], start: Position, next_offset: int, leader_epoch: int) -> None:
        self.records = records
        self.remaining: Iterator[Record] = iter(records)
        self.start = start
        """The position before the first record."""
        self.next_offset = next_offset
        """Where to go on behind the last record."""
        self.leader_epoch = leader_epoch
        self._taken: int | None = None
        """Once withdrawn: how many records had been handed out."""

    def left(self) -> int:
        """How many records have not been handed out."""
        return length_hint(self.remaining)

    def position(self) -> Position:
        """The offset of the next record to hand out."""
        left = length_hint(self.remaining)
        if not left:
            return Position(self.next_offset, self.leader_epoch)
        if left == len(self.records):
            return Position(self.records[0].offset, self.start.leader_epoch)
        return Position(self.records[-left].offset, self.leader_epoch)

    def take(self, limit: int | None) -> list[Record]:
        """The next records, as many as asked for or all."""
        return list(self.remaining if limit is None else islice(self.remaining, limit))

    def withdraw(self) -> Chunk:
        """The same chunk for later: whoever iterates over this one gets nothing more."""
        start = self.position()
        if self._taken is None:
            self._taken = len(self.records) - self.left()
        return Chunk(list(self.remaining), start, self.next_offset, self.leader_epoch)

    def before_last_taken(self) -> Position | None:
        """The position before the record that was handed out last, or None before the first."""
        taken = len(self.records) - self.left() if self._taken is None else self._taken
        if not taken:
            return None
        return Position(self.records[taken - 1].offset, self.leader_epoch if taken > 1 else self.start.leader_epoch)


class FetchedData:
    """Batches of one partition from one answer, in offset order."""

    __slots__ = ("_aborted", "_batches", "_check_crcs", "_error", "_filter", "_records", "_tail", "size_bytes", "state")

    def __init__(
        self,
        state: PartitionState,
        records: memoryview,
        aborted: Sequence[AbortedTransaction] | None,
        *,
        check_crcs: bool,
    ) -> None:
        self.state = state
        self.size_bytes = len(records)
        self._records = records
        self._check_crcs = check_crcs
        self._aborted = aborted
        """The aborted transactions that the answer names; None under read_uncommitted."""
        self._error: CorruptBatchError | None = None
        """What ended the batches."""
        self._tail: tuple[BatchView, list[Record]] | None = None
        """Records of a batch from the one on that could not be deserialized."""
        self.restart()

    def restart(self) -> None:
        """Read the batches anew, from the one at the partition's position on."""
        self._tail = None
        self._batches = read_batches(self._records, check_crcs=self._check_crcs)
        self._filter = None if self._aborted is None else AbortedFilter(self._aborted)

    def detach(self) -> None:
        """Keep no more than these bytes in memory while the application does not read on.

        They are a slice of the answer, which may hold many other partitions' records.
        """
        if memoryview(self._records.obj).nbytes > 2 * self.size_bytes:
            self._records = memoryview(bytes(self._records))
            self.restart()

    def next_batch(self, deserializers: Deserializers) -> RecordBatch[Any, Any] | None:
        """The next batch as columns, from the position on, or None at the end."""
        while True:
            batch = self._next_view()
            if batch is None:
                return None
            position = self._position()
            try:
                columns = batch.columns(position.offset)
            except CorruptRecordError as error:
                raise self._corrupt(error, position.offset) from None
            if len(columns):
                return RecordBatch(self.state.tp, batch, columns, deserializers.key, deserializers.value)
            self.state.advance(batch.next_offset, batch.leader_epoch)

    def next_chunk(self, deserializers: Deserializers) -> Chunk | None:
        """The records of the next batch that has any, or None at the end.

        Raises `CorruptBatchError` or `RecordDeserializationError` when the record at the position cannot be had, and
        again at the next call.
        """
        topic, partition = self.state.tp
        while True:
            start = self._position()
            if self._tail is not None:
                (batch, raw), self._tail = self._tail, None
            else:
                found = self._next_view()
                if found is None:
                    return None
                batch = found
                start = self._position()
                try:
                    raw = batch.records(topic, partition, start.offset)
                except CorruptRecordError as error:
                    raise self._corrupt(error, start.offset) from None
            records, failure = deserializers.apply(raw)
            next_offset = batch.next_offset
            if failure is not None:
                self._tail = (batch, raw[len(records) :])
                if not records:
                    raise failure
                next_offset = failure.offset
            if records:
                return Chunk(records, start, next_offset, batch.leader_epoch)
            # Compaction left nothing at or behind the position.
            self.state.advance(next_offset, batch.leader_epoch)

    def _next_view(self) -> BatchView | None:
        """The next batch that the application may see; the position passes over others, and over empty ones."""
        if self._error is not None:
            raise self._error.with_traceback(None)
        position = self._position()
        try:
            for batch in self._batches:
                hidden = batch.is_control if self._filter is None else self._filter.hides(batch)
                if batch.next_offset <= position.offset:
                    continue
                if not hidden and batch.record_count:
                    return batch
                position = Position(batch.next_offset, batch.leader_epoch)
                self.state.advance(*position)
        except CorruptRecordError as error:
            raise self._corrupt(error, position.offset) from None
        return None

    def _position(self) -> Position:
        position = self.state.position
        assert position is not None  # data is dropped whenever the position is
        return position

    def _corrupt(self, error: CorruptRecordError, offset: int) -> CorruptBatchError:
        """The error for the application, which also ends this data: it comes again at each read."""
        topic, partition = self.state.tp
        self._error = CorruptBatchError(
            f"{self.state.tp} cannot be read at offset {offset}: {error.message}; seek past it to go on",
            topic=topic,
            partition=partition,
            offset=offset,
        )
        return self._error

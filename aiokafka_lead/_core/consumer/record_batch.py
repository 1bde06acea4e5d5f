"""Records by column: the results of `Consumer.batches`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from ..._cpython import naming
from ..._options.arguments import TIMEOUT
from ..._options.serialization import Function
from ..._records import BatchView, Columns, ConsumerRecord
from ...errors import IllegalStateError, RecordDeserializationError
from ...errors.base import own_copy
from ...types import Headers, SerializationContext, TimestampType, TopicPartition
from .consumed import TransactionPart
from .deserializers import Deserializers, cannot_be_deserialized, never_awaited
from .position import Position

if TYPE_CHECKING:
    import pyarrow

K = TypeVar("K", covariant=True)
V = TypeVar("V", covariant=True)
T = TypeVar("T")


class Lease(Protocol):
    """The consumer's side of a batch in hand."""

    async def commit(self, timeout_ms: float | None) -> bool:
        """Commit the batch; return False if its partition no longer belongs to this consumer."""
        ...

    def transaction_part(self) -> TransactionPart:
        """Return the batch's offset, for a transaction that commits it."""
        ...


Bury = Callable[[Sequence[RecordDeserializationError]], Coroutine[Any, Any, None]]
"""Awaited before records that cannot be deserialized are left out."""


class RecordBatch(Generic[K, V]):
    """Successive records of one partition, in offset order; never empty.

    They come from one batch of the log, or from several buffered batches, joined up to ``max_poll_records`` records
    (500 if that is None). Iterate over the batch for its records, or use its columns: lists of equal length, created on
    first use and kept. Do not modify them.

    ``keys`` and ``values`` are deserialized as a whole on first use, or before the batch is handed out if a
    deserializer must be awaited. They raise `RecordDeserializationError` if a record cannot be deserialized, unless
    ``on_bad_record`` leaves such records out.

    A batch may keep the bytes of its whole fetch answer in memory, so store columns, not batches, for long.
    """

    __slots__ = ("_columns", "_key_of", "_keys", "_last", "_tp", "_value_of", "_values", "bury", "lease")

    def __init__(
        self,
        tp: TopicPartition,
        columns: Columns,
        last: BatchView,
        deserializers: Deserializers,
    ) -> None:
        self._tp = tp
        self._last = last
        self._columns = columns
        self._key_of = deserializers.key
        self._value_of = deserializers.value
        self._keys: list[K] | RecordDeserializationError | None = None
        self._values: list[V] | RecordDeserializationError | None = None
        self.lease: Lease | None = None
        """Set by a consumer with a group. Internal."""
        self.bury: Bury | None = None
        """Set by a consumer that leaves bad records out. Internal."""

    async def commit(self, *, timeout_ms: float | None = None) -> bool:
        """Commit the offset after this batch; all earlier records of its partition count as done, too.

        Returns True if the offset is stored; the batch is then no longer in hand. Returns False if the consumer was
        not, or is no longer, the owner of the partition: the owner gets the records again. Raises `IllegalStateError`
        without a ``group_id``, and otherwise the errors of `Consumer.commit`, which also describes ``timeout_ms``.
        """
        given: float | None = TIMEOUT("timeout_ms", timeout_ms)
        if self.lease is None:
            raise IllegalStateError("committed offsets belong to a group: set group_id")
        return await self.lease.commit(given)

    def _transaction_part(self) -> TransactionPart:
        """Return the part for `Transaction.commit_batch`. Internal."""
        if self.lease is None:
            raise IllegalStateError("committed offsets belong to a group: set group_id")
        return self.lease.transaction_part()

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._tp.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._tp.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition, for the consumer's methods."""
        return self._tp

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""
        return self._columns.index.offsets[0]

    @property
    def next_offset(self) -> int:
        """Offset after this batch."""
        return self._last.next_offset

    @property
    def end(self) -> Position:
        """Position after this batch. Internal."""
        return Position(self._last.next_offset, self._last.leader_epoch)

    @property
    def leader_epoch(self) -> int | None:
        """The epoch under which the records were written, or None if the broker provided none."""
        return None if self._last.leader_epoch < 0 else self._last.leader_epoch

    @property
    def timestamp_type(self) -> TimestampType:
        """Origin of the timestamps, producer or broker; the same for all records of a batch."""
        return self._last.timestamp_type

    @property
    def offsets(self) -> list[int]:
        """Each record's offset. They increase, with gaps after compaction."""
        return self._columns.offsets

    @property
    def timestamps_ms(self) -> list[int]:
        """Each record's timestamp in milliseconds since the epoch; -1 if it has none."""
        return self._columns.timestamps_ms

    @property
    def headers(self) -> list[Headers]:
        """Each record's headers."""
        return self._columns.headers

    @property
    def keys(self) -> list[K]:
        """Each record's key, deserialized; None if the record has none."""
        if self._keys is None:
            self._keys = cast("list[K]", self._deserialized(self._columns.keys, self._key_of, "key"))
        return _column(self._keys)

    @property
    def values(self) -> list[V]:
        """Each record's value, deserialized; None if the record has none."""
        if self._values is None:
            self._values = cast("list[V]", self._deserialized(self._columns.values, self._value_of, "value"))
        return _column(self._values)

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Yield the records one by one, like `Consumer.getmany`; raises the errors of ``keys`` and ``values``."""
        topic, partition = self._tp
        kind, epoch = self.timestamp_type, self.leader_epoch
        columns = self._columns
        rows = zip(columns.offsets, columns.timestamps_ms, self.keys, self.values, columns.headers, strict=True)
        for offset, timestamp_ms, key, value, headers in rows:
            yield ConsumerRecord(topic, partition, offset, timestamp_ms, kind, key, value, headers, epoch)

    def raw_column(self, *, is_key: bool) -> list[bytes | None]:
        """Return each record's key or value, as bytes. Internal."""
        return self._columns.keys if is_key else self._columns.values

    def raw(self) -> Iterator[ConsumerRecord[bytes | None, bytes | None]]:
        """Yield the records as bytes. Internal."""
        return (self._record(row) for row in range(len(self)))

    def fill(
        self, keys: list[Any] | RecordDeserializationError, values: list[Any] | RecordDeserializationError
    ) -> None:
        """Set the deserialized keys and values, or their errors, before the batch is handed out. Internal."""
        self._keys, self._values = keys, values

    def leave_only(self, rows: Sequence[int]) -> None:
        """Drop all other records, before the batch is handed out. Internal."""
        self._columns = self._columns.only(rows)

    def to_arrow(self) -> pyarrow.RecordBatch:
        """Return the batch for Apache Arrow, with keys and values as bytes; needs the ``arrow`` extra (pyarrow).

        Columns: ``offset`` int64, ``timestamp`` timestamp[ms, UTC] (null if there is none), ``key`` and ``value``
        binary, ``headers`` list of struct of ``key`` string and ``value`` binary.
        """
        from ..._records.arrow import to_arrow

        return to_arrow(self._columns)

    def _deserialized(self, column: list[bytes | None], one: Function | None, part: str) -> list[Any]:
        if one is None:
            return column
        deserializer = one.call
        done: list[Any] = []
        try:
            if one.asks:
                for content, headers in zip(column, self.headers, strict=True):
                    context = SerializationContext(self._tp.topic, headers, part == "key")
                    done.append(None if content is None else deserializer(content, context))
            else:
                for content in column:
                    done.append(None if content is None else deserializer(content))
        except Exception as cause:
            raise cannot_be_deserialized(self._record(len(done)), part, cause, "") from cause
        first = next((row for row, content in enumerate(done) if content is not None), 0)
        if isinstance(done[first], CoroutineType):
            raise cannot_be_deserialized(self._record(first), part, never_awaited(done), "")
        return done

    def _record(self, row: int) -> ConsumerRecord[bytes | None, bytes | None]:
        columns = self._columns
        return ConsumerRecord(
            *self._tp,
            columns.offsets[row],
            columns.timestamps_ms[row],
            self._last.timestamp_type,
            columns.keys[row],
            columns.values[row],
            columns.headers[row],
            self.leader_epoch,
        )

    def __repr__(self) -> str:
        return f"<RecordBatch {self._tp} offsets {self.base_offset}..{self.offsets[-1]} records={len(self)}>"


naming.show_in("aiokafka_lead", RecordBatch)


def _column(made: list[T] | RecordDeserializationError) -> list[T]:
    if isinstance(made, RecordDeserializationError):
        raise own_copy(made)
    return made

"""Records in columns: the batches that `Consumer.batches` returns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from ..._cpython import naming
from ..._options.arguments import TIMEOUT
from ..._options.serialization import Function
from ..._records import BatchView, Columns, ConsumerRecord
from ...errors import ConfigError, IllegalStateError, RecordDeserializationError
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
    """The link from a batch to its consumer, through which it is committed."""

    async def commit(self, timeout_ms: float | None) -> bool:
        """Commit the batch. Return False if its partition no longer belongs to this consumer."""
        ...

    def transaction_part(self) -> TransactionPart:
        """Return the offset after the batch, for a transaction that commits it."""
        ...


Bury = Callable[[Sequence[RecordDeserializationError]], Coroutine[Any, Any, None]]
"""Awaited before records that cannot be deserialized are omitted from a batch."""


class RecordBatch(Generic[K, V]):
    """Consecutive records of one partition, in offset order; never empty.

        async for batch in consumer.batches():
            await database.insert(zip(batch.keys, batch.values))
            await batch.commit()

    The records come from one batch of the log, or from several fetched batches that are joined up to
    ``max_poll_records`` records (500 if that is None). Iterate over the batch to get its records, or use its columns,
    which are lists of equal length. A column is created when it is first used, and is kept, so do not modify the list.

    ``keys`` and ``values`` are deserialized as a whole when they are first used. If a deserializer is asynchronous,
    this happens before the batch is returned. They raise `RecordDeserializationError` if a record cannot be
    deserialized, unless ``on_bad_record`` leaves out such records.

    A batch may keep the bytes of its whole Fetch response in memory. To keep data for a long time, store columns
    instead of batches.
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
        """Set by a consumer that leaves out bad records. Internal."""

    async def commit(self, *, timeout_ms: float | None = None) -> bool:
        """Commit the offset after this batch. All earlier records of its partition count as processed.

        Returns True if the offset was stored. Returns False if the partition no longer belongs to this consumer, so its
        new owner gets the records again, or if the topic was deleted or recreated.

        Raises `IllegalStateError` if the consumer has no ``group_id``, `RequestTimedOutError` after ``timeout_ms``
        (default: ``default_api_timeout_ms``), and the broker's error if it refuses the offset. After one of these
        errors, the call may be repeated.
        """
        given: float | None = TIMEOUT("timeout_ms", timeout_ms)
        if self.lease is None:
            raise IllegalStateError("committed offsets belong to a group: set group_id")
        return await self.lease.commit(given)

    def _transaction_part(self) -> TransactionPart:
        """Return the offset of this batch for `Transaction.commit_batch`. Internal."""
        if self.lease is None:
            raise IllegalStateError("committed offsets belong to a group: set group_id")
        return self.lease.transaction_part()

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._tp.topic

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self._tp.partition

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition as a `TopicPartition`, which the consumer's methods expect."""
        return self._tp

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""
        return self._columns.index.offsets[0]

    @property
    def next_offset(self) -> int:
        """Offset after the last record of this batch."""
        return self._last.next_offset

    @property
    def end(self) -> Position:
        """Position after this batch. Internal."""
        return Position(self._last.next_offset, self._last.leader_epoch)

    @property
    def leader_epoch(self) -> int | None:
        """The leader epoch under which the records were written, or None if the broker did not report it."""
        return None if self._last.leader_epoch < 0 else self._last.leader_epoch

    @property
    def timestamp_type(self) -> TimestampType:
        """Origin of the timestamps: the producer or the broker. It is the same for all records of a batch."""
        return self._last.timestamp_type

    @property
    def offsets(self) -> list[int]:
        """Offset of each record. They increase, and have gaps after compaction."""
        return self._columns.offsets

    @property
    def timestamps_ms(self) -> list[int]:
        """Timestamp of each record in milliseconds since 1970, or -1."""
        return self._columns.timestamps_ms

    @property
    def headers(self) -> list[Headers]:
        """Headers of each record."""
        return self._columns.headers

    @property
    def keys(self) -> list[K]:
        """Deserialized key of each record, or None if it has no key."""
        if self._keys is None:
            self._keys = cast("list[K]", self._deserialized(self._columns.keys, self._key_of, "key"))
        return _column(self._keys)

    @property
    def values(self) -> list[V]:
        """Deserialized value of each record, or None if it has no value."""
        if self._values is None:
            self._values = cast("list[V]", self._deserialized(self._columns.values, self._value_of, "value"))
        return _column(self._values)

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Yield the records one by one, like `Consumer.getmany`. Raises the same errors as ``keys`` and ``values``."""
        topic, partition = self._tp
        kind, epoch = self.timestamp_type, self.leader_epoch
        columns = self._columns
        rows = zip(columns.offsets, columns.timestamps_ms, self.keys, self.values, columns.headers, strict=True)
        for offset, timestamp_ms, key, value, headers in rows:
            yield ConsumerRecord(topic, partition, offset, timestamp_ms, kind, key, value, headers, epoch)

    def raw_column(self, *, is_key: bool) -> list[bytes | None]:
        """Return the key or the value of each record as bytes. Internal."""
        return self._columns.keys if is_key else self._columns.values

    def raw(self) -> Iterator[ConsumerRecord[bytes | None, bytes | None]]:
        """Yield the records with keys and values as bytes. Internal."""
        return (self._record(row) for row in range(len(self)))

    def fill(
        self, keys: list[Any] | RecordDeserializationError, values: list[Any] | RecordDeserializationError
    ) -> None:
        """Set the deserialized keys and values, or their errors, before the batch is returned. Internal."""
        self._keys, self._values = keys, values

    def leave_only(self, rows: Sequence[int]) -> None:
        """Drop all records except these, before the batch is returned. Internal."""
        self._columns = self._columns.only(rows)

    def to_arrow(self) -> pyarrow.RecordBatch:
        """Return the batch as an Apache Arrow record batch. Keys and values stay bytes.

        Needs the ``arrow`` extra, which installs pyarrow. The columns are ``offset`` (int64), ``timestamp``
        (timestamp[ms, UTC], or null), ``key`` and ``value`` (binary), and ``headers`` (list of struct of ``key`` string
        and ``value`` binary).
        """
        try:
            from ..._records.arrow import to_arrow
        except ImportError as error:
            raise ConfigError(
                f"to_arrow needs pyarrow; install with: pip install 'aiokafka-lead[arrow]' ({error})"
            ) from None
        return to_arrow(self._columns)

    def _deserialized(self, column: list[bytes | None], one: Function | None, part: str) -> list[Any]:
        """Deserialize a column. Raises an error that names the first record that cannot be deserialized."""
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

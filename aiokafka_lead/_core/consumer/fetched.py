"""The records of one partition from one Fetch response.

Batches are decoded a few at a time, as the application reads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, cast

from ..._records import (
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    BatchView,
    Columns,
    ConsumerRecord,
    ControlType,
    MessageSet,
    offset_past,
    read_parts,
)
from ...errors import BatchTooLargeError, CorruptBatchError, CorruptRecordError, KafkaError
from ...errors.base import own_copy, without_frames
from ...types import TopicPartition
from .chunk import Chunk
from .deserializers import Deserializers
from .position import Position
from .record_batch import RecordBatch

Record = ConsumerRecord[Any, Any]

Unreadable = CorruptRecordError | BatchTooLargeError
_UNREADABLE = (CorruptRecordError, BatchTooLargeError)

DEFAULT_JOINED_RECORDS = 500
"""Default maximum number of records in consecutive batches that are joined.

Most of the cost of a batch is independent of its size, and a producer that awaits each record writes batches of one
record.
"""

LOADED_AT_ONCE_BYTES = 512 * 1024
"""Maximum decompressed size in bytes of a batch that is decompressed on the event loop.

At this size, gzip takes 2 ms and the other codecs less than 1 ms. Handing the work to a thread may take up to 5 ms if
the loop is busy.
"""

MESSAGES_LOADED_AT_ONCE_BYTES = 64 * 1024
"""The same limit for messages of formats 0 and 1, each of which takes a microsecond or more."""

JOINED_BYTES = 1024 * 1024
"""Maximum stored size in bytes of consecutive batches that are joined."""


class NotLoaded(Exception):
    """Raised if the next batch is too large to decompress on the event loop.

    Call ``load`` in a thread, and then request the batch again.
    """

    def __init__(self, view: BatchView | MessageSet) -> None:
        super().__init__()
        self.view = view


class ReadPartition(Protocol):
    """The interface of a partition's state that `FetchedData` needs."""

    @property
    def tp(self) -> TopicPartition: ...

    @property
    def position(self) -> Position | None:
        """Position of the next record for the application, or None."""
        ...

    def advance(self, offset: int, leader_epoch: int) -> None:
        """Move the position past offsets that contain no records for the application."""


class FetchedData:
    """Decodes the batches of one partition from one response, in offset order."""

    __slots__ = (
        "_aborted",
        "_ahead",
        "_batches",
        "_check_crcs",
        "_error",
        "_filter",
        "_hidden",
        "_joined_records",
        "_max_decompressed_bytes",
        "_partition",
        "_records",
        "_tail",
        "size_bytes",
    )

    def __init__(
        self,
        partition: ReadPartition,
        records: memoryview,
        aborted: Sequence[AbortedTransaction] | None,
        *,
        check_crcs: bool,
        max_decompressed_batch_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        joined_records: int = DEFAULT_JOINED_RECORDS,
    ) -> None:
        self._partition = partition
        self.size_bytes = len(records)
        self._records = records
        self._check_crcs = check_crcs
        self._max_decompressed_bytes = max_decompressed_batch_bytes
        self._joined_records = joined_records
        self._aborted = aborted
        """The aborted transactions that the response lists, or None with read_uncommitted."""
        self._error: CorruptBatchError | BatchTooLargeError | None = None
        """The error after the last readable batch, or None."""
        self._tail: tuple[BatchView, list[Record], int] | None = None
        """Set if a record could not be decoded.

        It contains the last decoded batch, the records from the failed one on, and the size of the batches.
        """
        self._ahead: deque[BatchView | MessageSet | Unreadable] = deque()
        """Examined batches that are visible to the application.

        They are followed by the error, if there is one. The last item may be a set of messages (format 0 or 1) that has
        not been examined.
        """
        self._hidden: BatchView | None = None
        """The last examined batch without records for the application, or None."""
        self.restart()

    def restart(self) -> None:
        """Read the batches again, from the partition's current position on. Decoded records are dropped."""
        self._tail = None
        self._ahead.clear()
        self._hidden = None
        self._batches = read_parts(
            self._records, check_crcs=self._check_crcs, max_decompressed_bytes=self._max_decompressed_bytes
        )
        self._filter = None if self._aborted is None else AbortedFilter(self._aborted)

    def detach(self) -> None:
        """Copy the records out of the response, because the application will not read them soon.

        A slice would keep the whole response in memory, including the records of many other partitions.
        """
        if memoryview(self._records.obj).nbytes > 2 * self.size_bytes:
            self._records = memoryview(bytes(self._records))
            self.restart()

    # --- handing out -------------------------------------------------------------------------------------------------

    def next_batch(self, deserializers: Deserializers) -> RecordBatch[Any, Any] | None:
        """Return the next records in columns, from the position on, or None at the end.

        Raises the same errors as `next_chunk`.
        """
        while views := self._next_views():
            found, last = self._columns(views)
            if found:
                columns = found[0] if len(found) == 1 else Columns.joined(found)
                return RecordBatch(self._partition.tp, columns, last, deserializers)
            self._pass_over(last)
        return None

    def _columns(self, views: list[BatchView]) -> tuple[list[Columns], BatchView]:
        """Return the joinable batches from the position on in columns, and the last of these batches."""
        from_offset = self._position().offset
        found: list[Columns] = []
        size = 0
        last = views[0]
        for at, view in enumerate(views):
            try:
                if not (view.is_loaded or self._load(views, at)):
                    break
                columns = view.columns(from_offset)
            except _UNREADABLE as error:
                unreadable = _kept(error, view)
            else:
                size += columns.size_bytes
                if at and size > JOINED_BYTES:  # decompressed batches are larger
                    self._put_back(views[at:])
                    break
                if len(columns):
                    found.append(columns)
                last = view
                continue
            self._end_before(unreadable, at)
            break
        return found, last

    def next_chunk(self, deserializers: Deserializers) -> Chunk | None:
        """Return the next records, or None at the end.

        If the record at the position cannot be read, raises `CorruptBatchError`, `BatchTooLargeError` or
        `RecordDeserializationError`, and does so again at the next call. If the batch is too large to decompress on the
        event loop, raises `NotLoaded`, which is not an error.
        """
        while True:
            if self._tail is not None:
                (last, raw, size), self._tail = self._tail, None
            else:
                views = self._next_views()
                if not views:
                    return None
                raw, last, size = self._decode(views)
            start = self._position()
            records, failure = deserializers.apply(raw)
            next_offset = last.next_offset
            if failure is not None:
                self._tail = (last, raw[len(records) :], size)
                if not records:
                    raise failure
                next_offset = failure.offset
            if records:
                ready = 0 if deserializers.waits else len(records)
                return Chunk(self._partition.tp, records, start, next_offset, last.leader_epoch, ready, size)
            # After compaction, the batch has no record at or after the position.
            self._pass_over(last)

    def _decode(self, views: list[BatchView]) -> tuple[list[Record], BatchView, int]:
        """Return the records from the position on, the last of their batches, and the batches' size in bytes.

        Stops once the batches are larger than `JOINED_BYTES`, and before a batch that is unreadable or too large to be
        decompressed on the event loop. Raises `NotLoaded` if the first batch is too large.
        """
        topic, partition = self._partition.tp
        from_offset = self._position().offset
        records: list[Record] = []
        size = 0
        last = views[0]
        for at, view in enumerate(views):
            if size > JOINED_BYTES:
                self._put_back(views[at:])
                break
            try:
                if not (view.is_loaded or self._load(views, at)):
                    break
                records += view.records(topic, partition, from_offset)
            except _UNREADABLE as error:
                unreadable = _kept(error, view)
            else:
                size += len(view.load())  # decompressed batches may be much larger
                last = view
                continue
            self._end_before(unreadable, at)
            break
        return records, last, size

    # --- batches -----------------------------------------------------------------------------------------------------

    def _next_views(self) -> list[BatchView]:
        """Return consecutive visible batches with the same leader epoch and timestamp type. Empty at the end."""
        if self._error is not None:
            raise own_copy(self._error)
        offset = self._position().offset
        first = self._draw(offset)
        self._pass_hidden(offset)
        if first is None:
            return []
        if not isinstance(first, BatchView):
            raise self._ended_by(first)
        views = [first]
        count, size = first.record_count, first.size_bytes
        while count < self._joined_records:
            try:
                view = self._draw(offset)
            except NotLoaded:
                break  # the next call raises it again
            if not isinstance(view, BatchView):
                if view is not None:
                    self._put_back([view])
                break
            count += view.record_count
            size += view.size_bytes
            alike = view.leader_epoch == first.leader_epoch and view.timestamp_type is first.timestamp_type
            if not alike or count > self._joined_records or size > JOINED_BYTES:
                self._put_back([view])
                break
            views.append(view)
        return views

    def _load(self, views: list[BatchView], at: int) -> bool:
        """Decompress one of the drawn batches.

        If it is too large for the event loop, put it back with all batches after it. If it is the first one, raise
        `NotLoaded`.
        """
        if views[at].load_within(LOADED_AT_ONCE_BYTES):
            return True
        self._put_back(views[at:])
        if not at:
            raise NotLoaded(views[0])
        return False

    def _draw(self, offset: int) -> BatchView | Unreadable | None:
        """Return the next visible batch with records at or after the offset, or the error that ends the batches.

        Returns None at the end. Raises `NotLoaded` for a large set of messages.
        """
        if self._ahead and not isinstance(self._ahead[0], MessageSet):
            return cast("BatchView | Unreadable", self._ahead.popleft())
        try:
            while (part := self._ahead.popleft() if self._ahead else next(self._batches, None)) is not None:
                if isinstance(part, MessageSet):
                    if not part.load_within(MESSAGES_LOADED_AT_ONCE_BYTES):
                        self._ahead.append(part)
                        raise NotLoaded(part)
                    view = part.batch()
                else:
                    view = cast(BatchView, part)
                hidden = view.is_control if self._filter is None else self._filter.hides(view)
                if view.next_offset > offset:
                    if not hidden and view.record_count:
                        return view
                    self._hidden = view
        except _UNREADABLE as error:
            return without_frames(error)
        return None

    def _put_back(self, drawn: Sequence[BatchView | Unreadable]) -> None:
        """Put batches that `_draw` has returned back in front of the others."""
        self._ahead.extendleft(reversed(drawn))
        self._hidden = None  # it may come after the batches that were put back

    def _pass_hidden(self, offset: int) -> None:
        """Move the position, which is ``offset``, past batches that have just turned out to be hidden."""
        hidden, self._hidden = self._hidden, None
        if hidden is not None and hidden.next_offset > offset:
            self._pass_over(hidden)

    def _pass_over(self, view: BatchView) -> None:
        self._partition.advance(view.next_offset, view.leader_epoch)

    def _position(self) -> Position:
        position = self._partition.position
        assert position is not None  # data is dropped whenever the position becomes unknown
        return position

    # --- errors ------------------------------------------------------------------------------------------------------

    def _end_before(self, error: Unreadable, at: int) -> None:
        """Handle an unreadable batch at this index of the drawn batches.

        Its error is raised after the earlier batches have been read.
        """
        if not at:
            raise self._ended_by(error)
        self._put_back([error])

    def _ended_by(self, error: Unreadable) -> KafkaError:
        """Return an unreadable batch's error for the application, and raise it again in every later read."""
        topic, partition = self._partition.tp
        offset = self._position().offset
        text = f"{self._partition.tp} cannot be read at offset {offset}: {error.message}"
        kind: type[BatchTooLargeError | CorruptBatchError]
        if isinstance(error, BatchTooLargeError):
            kind, next_offset = BatchTooLargeError, error.next_offset
            text += "; increase max_decompressed_batch_bytes to read it, or"
        else:
            kind, next_offset = CorruptBatchError, offset_past(self._records, offset)
            text += ";"
        past = "past it" if next_offset < 0 else f"to offset {next_offset}"
        self._error = kind(
            f"{text} seek {past} to continue", topic=topic, partition=partition, offset=offset, next_offset=next_offset
        )
        return own_copy(self._error)


def _kept(error: Unreadable, view: BatchView) -> Unreadable:
    """Return an unreadable batch's error in a form that can be kept and raised later."""
    if isinstance(error, BatchTooLargeError):
        error.next_offset = view.next_offset
    return without_frames(error)


class AbortedTransaction(Protocol):
    """An aborted transaction, as listed in a Fetch response."""

    producer_id: int
    first_offset: int


class AbortedFilter:
    """Hides batches of aborted transactions from read_committed consumers (KIP-98; Java: CompletedFetch).

    Call it for the batches of one response in offset order. The broker lists every aborted transaction that overlaps
    the response, so each response is filtered independently. A producer has only one transaction at a time, so its
    batches are aborted from the transaction's first offset up to the abort marker.
    """

    __slots__ = ("_aborting", "_coming")

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(((t.first_offset, t.producer_id) for t in transactions), reverse=True)
        """Transactions that begin after the batches seen so far, in descending order of the first offset."""
        self._aborting: set[int] = set()
        """Producers of aborted transactions whose abort marker has not been seen yet."""

    def hides(self, batch: BatchView) -> bool:
        """Return True if the application must not see this batch.

        Must be called for every batch, including control batches.
        """
        coming = self._coming
        while coming and coming[-1][0] <= batch.last_offset:
            self._aborting.add(coming.pop()[1])
        if batch.is_control:
            if batch.producer_id in self._aborting and batch.control_type() == ControlType.ABORT:
                self._aborting.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._aborting

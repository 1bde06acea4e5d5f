"""Decoding the acquired records in a ShareFetch response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..._records import DEFAULT_MAX_DECOMPRESSED_BYTES, BatchView, ConsumerRecord, MessageSet, read_parts
from ...errors import BatchTooLargeError, CorruptRecordError
from ...types import AcknowledgeType
from .acquired import GAP, Acquired, Span
from .exchange import Exchange
from .record import ShareRecord, place

Record = ConsumerRecord[Any, Any]

LOADED_AT_ONCE_BYTES = 512 * 1024
"""See `_core.consumer.fetched`."""


class AcquiredData:
    """The batches of one partition from one response. They contain the acquired records and perhaps others.

    Acquired offsets without a record are acknowledged as gaps, as the protocol requires. Records that cannot be read
    are released, because their bytes may have been damaged in transit. If the log itself is damaged, the group's
    delivery limit ends the attempts.
    """

    __slots__ = ("_parts", "_passed", "acquired", "exchange", "failure")

    def __init__(
        self,
        exchange: Exchange,
        acquired: Acquired,
        records: memoryview,
        *,
        check_crcs: bool,
        max_decompressed_batch_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> None:
        self.exchange = exchange
        self.acquired = acquired
        self._parts: Iterator[BatchView | MessageSet] = read_parts(
            records, check_crcs=check_crcs, max_decompressed_bytes=max_decompressed_batch_bytes
        )
        self._passed = 0
        """Number of acquired offsets that have been processed."""
        self.failure: CorruptRecordError | BatchTooLargeError | None = None
        """The error for which the remaining records were released, or None."""

    @property
    def left(self) -> int:
        """Number of acquired offsets that have not been processed."""
        return len(self.acquired) - self._passed

    def next_view(self) -> BatchView | MessageSet | None:
        """Return the next batch, or None at the end. Load it, and then pass it to `records`."""
        try:
            part = next(self._parts, None)
        except (CorruptRecordError, BatchTooLargeError) as error:
            self._fail(error)
            return None
        if part is None:
            self.release()
        return part

    def load(self, view: BatchView | MessageSet, max_bytes: int) -> bool:
        """Decompress a batch. If its content would exceed ``max_bytes``, leave it unchanged and return False."""
        try:
            return view.load_within(max_bytes)
        except (CorruptRecordError, BatchTooLargeError) as error:
            self._fail(error)
            return True

    def records(self, view: BatchView | MessageSet) -> list[ShareRecord[Any, Any]]:
        """Return the acquired records of a batch. They are not acknowledged yet."""
        acquired = self.acquired
        if self._passed == len(acquired):
            return []
        try:
            batch = view.batch() if isinstance(view, MessageSet) else view
            found = [] if batch.is_control else self._read(batch)
        except (CorruptRecordError, BatchTooLargeError) as error:
            self._fail(error)
            return []
        made, gaps, self._passed = place(found, acquired, self._passed)
        for start, end in gaps:
            acquired.decide_span(Span(start, end), GAP)
        self._gap(acquired.count_to(batch.last_offset))
        return made

    def _read(self, batch: BatchView) -> list[ShareRecord[Any, Any]]:
        """Return the records of a batch that may have been acquired. Their marks are not set yet."""
        acquired = self.acquired
        epoch = None if batch.leader_epoch < 0 else batch.leader_epoch
        like: Record = ConsumerRecord(*acquired.tp, 0, 0, batch.timestamp_type, None, None, (), epoch)
        sample = ShareRecord(like, 1, self.exchange, acquired, 0)
        return batch.records_like(sample, acquired.offset_of(self._passed), acquired.ranges[-1].last)

    def _gap(self, end: int) -> None:
        """Acknowledge the acquired offsets before ``end`` as gaps, because they have no records."""
        if end > self._passed:
            self.acquired.decide_span(Span(self._passed, end), GAP)
            self._passed = end

    def _fail(self, error: CorruptRecordError | BatchTooLargeError) -> None:
        self.failure = error
        self._parts = iter(())
        self.release()

    def release(self) -> None:
        """Release the acquired records that have not been processed, and return no more records."""
        self.acquired.decide_span(Span(self._passed, len(self.acquired)), int(AcknowledgeType.RELEASE))
        self._passed = len(self.acquired)
        self._parts = iter(())

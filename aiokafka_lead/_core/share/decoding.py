"""From the bytes of an answer to the records that it has acquired."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..._records import DEFAULT_MAX_DECOMPRESSED_BYTES, BatchView, ConsumerRecord, MessageSet, read_parts
from ...errors import BatchTooLargeError, CorruptRecordError
from ...types import AcknowledgeType
from .acquired import GAP, Acquired, Span
from .exchange import Exchange
from .record import ShareRecord, place

__all__ = ["AcquiredData"]

Record = ConsumerRecord[Any, Any]

LOADED_AT_ONCE_BYTES = 512 * 1024
"""See `_core.consumer.fetched`."""


class AcquiredData:
    """Batches of one partition from one answer, which hold the acquired records and perhaps others.

    Offsets that were acquired and have no record are acknowledged as gaps, as the protocol wants it. What cannot be
    read is released, in case that the bytes were damaged on their way: if they are so in the log, the group's limit of
    deliveries ends that.
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
        """How many marks are behind what was read."""
        self.failure: CorruptRecordError | BatchTooLargeError | None = None
        """Why the rest was released."""

    @property
    def left(self) -> int:
        """How many of the acquired offsets have not been read."""
        return len(self.acquired) - self._passed

    def next_view(self) -> BatchView | MessageSet | None:
        """The next batch, to be loaded where that takes long and then given to `records`; None at the end."""
        try:
            part = next(self._parts, None)
        except (CorruptRecordError, BatchTooLargeError) as error:
            self._fail(error)
            return None
        if part is None:
            self.release()
        return part

    def load(self, view: BatchView | MessageSet, max_bytes: int) -> bool:
        """Decompress a batch, unless more than so much would come out: then nothing is done."""
        try:
            return view.load_within(max_bytes)
        except (CorruptRecordError, BatchTooLargeError) as error:
            self._fail(error)
            return True

    def records(self, view: BatchView | MessageSet) -> list[ShareRecord[Any, Any]]:
        """The acquired records of a batch, still undecided."""
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
        """Records of a batch that may have been acquired, not yet by their own marks."""
        acquired = self.acquired
        epoch = None if batch.leader_epoch < 0 else batch.leader_epoch
        like: Record = ConsumerRecord(*acquired.tp, 0, 0, batch.timestamp_type, None, None, (), epoch)
        sample = ShareRecord(like, 1, self.exchange, acquired, 0)
        return batch.records_like(sample, acquired.offset_of(self._passed), acquired.ranges[-1].last)

    def _gap(self, end: int) -> None:
        """There are no records up to this mark."""
        if end > self._passed:
            self.acquired.decide_span(Span(self._passed, end), GAP)
            self._passed = end

    def _fail(self, error: CorruptRecordError | BatchTooLargeError) -> None:
        self.failure = error
        self._parts = iter(())
        self.release()

    def release(self) -> None:
        """Hand out nothing more: what was not read is for others."""
        self.acquired.decide_span(Span(self._passed, len(self.acquired)), int(AcknowledgeType.RELEASE))
        self._passed = len(self.acquired)
        self._parts = iter(())

"""A partition's log: whole batches in memory, offsets, leader epochs, producers, transactions.

All replicas of a partition share one log. Replication is therefore instant, and the high watermark is the end of the
log. `PartitionLog.truncate` simulates the loss of unreplicated records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ...errors import OffsetOutOfRangeError
from .batch import BatchHeader, StoredBatch, first_record_at, marker, store
from .producers import ProducerStates


class AbortedTxn(NamedTuple):
    """The first and last offset of an aborted transaction, which read_committed consumers need."""

    producer_id: int
    first_offset: int
    last_offset: int


class OffsetAt(NamedTuple):
    """Offset of a record in the log, with its timestamp and epoch. All fields are -1 if there is no such record."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


NOWHERE = OffsetAt(-1, -1, -1)


class PartitionLog:
    """The log of a partition: appends batches, reads them, and looks up offsets.

    Offsets outside the log raise OffsetOutOfRangeError. Invariants: ``_last_offsets[i] == batches[i].last_offset``, and
    they increase. ``start_offset <= end_offset``.
    """

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        # Last offset of each batch, for bisection.
        self._last_offsets: list[int] = []
        self.start_offset = 0
        # The offset of the next record, and also the high watermark.
        self.end_offset = 0
        self.size_bytes = 0
        # Each epoch with the first offset since it began. Both increase.
        self.epochs: list[tuple[int, int]] = []
        self.producers = ProducerStates()
        self.aborted: list[AbortedTxn] = []
        # First offset that an open transaction may still undo, kept up to date by appends and markers.
        self.stable_offset: int | None = None

    @property
    def last_stable_offset(self) -> int:
        """End of the log for read_committed consumers.

        This is the first offset of the oldest open transaction, or the end of the log if no transaction is open.
        """
        return self.end_offset if self.stable_offset is None else self.stable_offset

    def begin_epoch(self, epoch: int) -> None:
        """Begin a leader's epoch at the current end of the log."""
        if self.epochs and self.epochs[-1][1] == self.end_offset:
            # The previous epoch has no records, so it is removed as in Java's LeaderEpochFileCache.
            self.epochs.pop()
        self.epochs.append((epoch, self.end_offset))

    def append(
        self, records: memoryview, header: BatchHeader, leader_epoch: int, append_time_ms: int | None
    ) -> StoredBatch:
        """Append a validated batch. Return it as stored, with its offsets."""
        batch = store(records, header, self.end_offset, leader_epoch, append_time_ms)
        if header.producer_id >= 0:
            self.producers.appended(
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp_ms,
                transactional=header.is_transactional,
            )
            if header.is_transactional and self.stable_offset is None:
                self.stable_offset = batch.base_offset
        self._add(batch)
        return batch

    def end_transaction(
        self,
        producer_id: int,
        epoch: int,
        *,
        committed: bool,
        coordinator_epoch: int,
        leader_epoch: int,
        now_ms: int,
        own_epoch: bool = False,
    ) -> StoredBatch:
        """Append the marker that ends a producer's transaction.

        For ``own_epoch``, see `ProducerStates.marker_appended`.
        """
        first_offset = self.producers.marker_appended(
            producer_id, epoch, coordinator_epoch, now_ms, own_epoch=own_epoch
        )
        batch = marker(
            self.end_offset,
            leader_epoch,
            now_ms,
            producer_id,
            epoch,
            committed=committed,
            coordinator_epoch=coordinator_epoch,
        )
        self._add(batch)
        if first_offset is not None and not committed:
            self.aborted.append(AbortedTxn(producer_id, first_offset, batch.base_offset))
        self.stable_offset = self.producers.first_open_offset()
        return batch

    def _add(self, batch: StoredBatch) -> None:
        self.batches.append(batch)
        self._last_offsets.append(batch.last_offset)
        self.end_offset = batch.last_offset + 1
        self.size_bytes += batch.size

    def read(self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool) -> tuple[list[bytes], int]:
        """Return whole batches, beginning with the batch that contains ``offset``, and their total size in bytes.

        The size is at most ``max_bytes``, but with ``at_least_one``, the first batch is included even if it is larger
        (KIP-74). With ``committed_only``, batches from the last stable offset on are omitted.
        """
        batches, size = self.stored(offset, max_bytes, committed_only=committed_only, at_least_one=at_least_one)
        return [batch.data for batch in batches], size

    def stored(
        self, offset: int, max_bytes: int, *, committed_only: bool, at_least_one: bool
    ) -> tuple[list[StoredBatch], int]:
        """Return the batches that `read` returns, as `StoredBatch` objects."""
        if offset < self.start_offset or offset > self.end_offset:
            raise OffsetOutOfRangeError(f"offset {offset} is outside {self.start_offset}..{self.end_offset}")
        end = self.last_stable_offset if committed_only else self.end_offset
        found: list[StoredBatch] = []
        size = 0
        batches = self.batches
        for index in range(bisect_left(self._last_offsets, offset), len(batches)):
            batch = batches[index]
            if batch.base_offset >= end or (size + batch.size > max_bytes and not (at_least_one and not found)):
                break
            found.append(batch)
            size += batch.size
        return found, size

    def aborted_batches(self, batches: Iterable[StoredBatch]) -> list[StoredBatch]:
        """Return the batches of aborted transactions, without the markers."""
        return [
            batch
            for batch in batches
            if batch.header.is_transactional
            and not batch.header.is_control
            and any(
                txn.producer_id == batch.header.producer_id and txn.first_offset <= batch.base_offset < txn.last_offset
                for txn in self.aborted
            )
        ]

    def aborted_in(self, offset: int, up_to: int) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap the offsets from ``offset`` to ``up_to``, exclusive."""
        return [txn for txn in self.aborted if txn.last_offset >= offset and txn.first_offset < up_to]

    def next_offset_after(self, offset: int, batch_count: int) -> int:
        """Return the offset after ``batch_count`` batches read from ``offset``."""
        return self._last_offsets[bisect_left(self._last_offsets, offset) + batch_count - 1] + 1

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch under which an offset was written, or -1 before the first epoch."""
        index = bisect_right(self.epochs, offset, key=lambda entry: entry[1])
        return self.epochs[index - 1][0] if index else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to ``epoch``, and its end offset (KIP-101, KIP-320), or (-1, -1) if unknown.

        Java: ``LeaderEpochFileCache.endOffsetFor``.
        """
        if epoch < 0 or not self.epochs:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end_offset
        index = bisect_right(self.epochs, epoch, key=lambda entry: entry[0])
        if index == len(self.epochs):
            return -1, -1
        start_of_next = self.epochs[index][1]
        return (epoch, start_of_next) if index == 0 else (self.epochs[index - 1][0], start_of_next)

    def earliest(self) -> OffsetAt:
        return OffsetAt(self.start_offset, -1, self.epoch_at(self.start_offset))

    def latest(self, *, committed_only: bool) -> OffsetAt:
        offset = self.last_stable_offset if committed_only else self.end_offset
        return OffsetAt(offset, -1, self.epochs[-1][0] if self.epochs else -1)

    def at_time(self, timestamp_ms: int) -> OffsetAt:
        """Return the first record at or after a time."""
        for batch in self.batches:
            if batch.max_timestamp_ms >= timestamp_ms:
                found = first_record_at(batch, timestamp_ms, self.start_offset)
                if found is not None:
                    return OffsetAt(*found, batch.leader_epoch)
        return NOWHERE

    def at_max_timestamp(self) -> OffsetAt:
        """Return the first record with the largest timestamp (KIP-734)."""
        newest = max(self.batches, key=lambda batch: batch.max_timestamp_ms, default=None)
        if newest is None:
            return NOWHERE
        found = first_record_at(newest, newest.max_timestamp_ms, self.start_offset)
        return NOWHERE if found is None else OffsetAt(*found, newest.leader_epoch)

    def delete_before(self, offset: int) -> None:
        """Move the start of the log (DeleteRecords, retention), and delete batches that lie wholly before it."""
        if offset < 0 or offset > self.end_offset:
            raise OffsetOutOfRangeError(f"offset {offset} is outside {self.start_offset}..{self.end_offset}")
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        self._drop(bisect_left(self._last_offsets, offset))
        self.aborted = [txn for txn in self.aborted if txn.last_offset >= offset]
        epoch = self.epoch_at(offset)
        self.epochs = [(epoch, offset), *(entry for entry in self.epochs if entry[1] > offset)]

    def retain_bytes(self, max_bytes: int, segment_bytes: int) -> None:
        """Delete the oldest batches if the log is larger than ``max_bytes`` by the size of a segment or more."""
        excess = self.size_bytes - max_bytes
        if excess < segment_bytes:
            return
        count = 0
        while excess > 0 and count < len(self.batches) - 1:
            excess -= self.batches[count].size
            count += 1
        self.delete_before(self.batches[count].base_offset)

    def truncate(self, offset: int) -> None:
        """Delete all batches from ``offset`` on, like an unclean leader election.

        A batch that contains ``offset`` is deleted as a whole, so the new end may be lower.
        """
        index = bisect_left(self._last_offsets, offset)
        self.size_bytes -= sum(batch.size for batch in self.batches[index:])
        del self.batches[index:], self._last_offsets[index:]
        self.end_offset = self._last_offsets[-1] + 1 if self._last_offsets else self.start_offset
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end_offset]
        self.aborted = [txn for txn in self.aborted if txn.last_offset < self.end_offset]
        self._rebuild_producers()

    def _rebuild_producers(self) -> None:
        """Restore the producers' states from the log after a truncation."""
        self.producers = ProducerStates()
        for batch in self.batches:
            header = batch.header
            if header.producer_id < 0:
                continue
            if header.is_control:
                self.producers.marker_appended(header.producer_id, header.producer_epoch, -1, batch.max_timestamp_ms)
            else:
                self.producers.appended(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    batch.base_offset,
                    batch.last_offset,
                    batch.max_timestamp_ms,
                    transactional=header.is_transactional,
                )
        self.stable_offset = self.producers.first_open_offset()

    def _drop(self, count: int) -> None:
        self.size_bytes -= sum(batch.size for batch in self.batches[:count])
        del self.batches[:count], self._last_offsets[:count]

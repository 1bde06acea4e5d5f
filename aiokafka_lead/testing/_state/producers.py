"""A partition's state for idempotent producers (Java: ``ProducerStateManager``, ``ProducerAppendInfo``)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ... import errors

NO_EPOCH = -1
"""Epoch of an unknown producer."""

BATCHES_RETAINED = 5
"""Number of a producer's last batches whose duplicates are detected (Java: NUM_BATCHES_TO_RETAIN)."""

_SEQUENCES = 2**31
"""Number of sequence numbers, which wrap to 0 after 2**31 - 1."""


class AppendedBatch(NamedTuple):
    """An appended batch, with the data needed to respond to a duplicate."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int


class Verification:
    """A producer's write in a transaction, from the request to the coordinator until the append (KIP-890).

    It is kept if the producer will retry after the error. No later write is allowed before that retry (Java:
    ``VerificationStateEntry``).
    """

    __slots__ = ("epoch", "from_zero", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int, *, from_zero: bool) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence
        # True for version 2 of transactions, in which every epoch's sequence numbers start at 0.
        self.from_zero = from_zero

    def again(self, epoch: int, sequence: int) -> None:
        if epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)
        elif epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence


class ProducerEntry:
    """The state of a producer id in a partition."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp_ms", "txn_first_offset")

    def __init__(self) -> None:
        self.epoch = NO_EPOCH
        self.batches: deque[AppendedBatch] = deque(maxlen=BATCHES_RETAINED)
        self.last_timestamp_ms = -1
        # First offset of the open transaction, or None.
        self.txn_first_offset: int | None = None
        self.coordinator_epoch = -1

    @property
    def last_sequence(self) -> int:
        """Last sequence number appended in this epoch, or -1."""
        return self.batches[-1].last_sequence if self.batches else -1

    def set_epoch(self, epoch: int) -> None:
        """Begin another epoch, in which sequence numbers start at 0. Batches of the old epoch are forgotten."""
        if epoch != self.epoch:
            self.batches.clear()
            self.epoch = epoch


class ProducerStates:
    """Checks the batches of idempotent and transactional producers, by the state of each in one partition."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self._verifications: dict[int, Verification] = {}

    def begin_verification(self, producer_id: int, epoch: int, sequence: int, *, from_zero: bool) -> bool:
        """Return True if the coordinator must verify a write before the append.

        That is the case unless the producer's transaction is already open in this partition. ``sequence`` is the
        write's first sequence number.
        """
        entry = self.entries.get(producer_id)
        if entry is not None and entry.txn_first_offset is not None and entry.epoch == epoch:
            return False
        known = self._verifications.get(producer_id)
        if known is None:
            self._verifications[producer_id] = Verification(epoch, sequence, from_zero=from_zero)
        else:
            known.again(epoch, sequence)
        return True

    def check(
        self, producer_id: int, epoch: int, first_sequence: int, record_count: int, *, transactional: bool
    ) -> AppendedBatch | None:
        """Check a producer's batch before the append, like a broker.

        Returns the original batch if this batch is a duplicate. The broker then returns the original offset without
        appending the batch. An unknown producer may start with any sequence number, because its state may have expired
        (Java: ``ProducerAppendInfo.checkSequence``).
        """
        entry = self.entries.get(producer_id)
        verification = self._verifications.get(producer_id)
        if verification is not None:
            self._check_verified(producer_id, first_sequence, verification, is_new=entry is None or not entry.batches)
        if entry is None:
            return None
        if epoch == entry.epoch:
            last_sequence = advance_sequence(first_sequence, record_count - 1)
            for batch in entry.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
            expected = advance_sequence(entry.last_sequence, 1)
            if first_sequence != expected:
                raise errors.OutOfOrderSequenceNumberError(
                    f"producer {producer_id} epoch {epoch} sent sequence {first_sequence}, expected {expected}"
                )
        elif epoch < entry.epoch:
            raise errors.InvalidProducerEpochError(
                f"producer {producer_id} sent epoch {epoch}, last seen {entry.epoch}"
            )
        elif first_sequence != 0 and entry.epoch != NO_EPOCH:
            raise errors.OutOfOrderSequenceNumberError(
                f"producer {producer_id} starts epoch {epoch} at sequence {first_sequence}, not at 0"
            )
        if entry.txn_first_offset is not None and not transactional:
            raise errors.InvalidTxnStateError(f"producer {producer_id} has an open transaction in this partition")
        return None

    @staticmethod
    def _check_verified(producer_id: int, sequence: int, verification: Verification, *, is_new: bool) -> None:
        """Check a transaction's first write to a partition, which the coordinator must have verified."""
        if is_new and verification.from_zero and sequence != 0:
            raise errors.OutOfOrderSequenceNumberError(
                f"producer {producer_id} starts at sequence {sequence}, not at 0"
            )
        if sequence > verification.lowest_sequence:
            raise errors.OutOfOrderSequenceNumberError(
                f"producer {producer_id} sent sequence {sequence} before a retry of {verification.lowest_sequence}"
            )

    def appended(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp_ms: int,
        *,
        transactional: bool,
    ) -> None:
        """Advance the producer's state after the append of a batch that `check` has permitted."""
        if transactional:
            self._verifications.pop(producer_id, None)
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry()
        entry.set_epoch(epoch)
        last_sequence = advance_sequence(first_sequence, last_offset - base_offset)
        entry.batches.append(AppendedBatch(first_sequence, last_sequence, base_offset, last_offset, timestamp_ms))
        entry.last_timestamp_ms = timestamp_ms
        if transactional and entry.txn_first_offset is None:
            entry.txn_first_offset = base_offset

    def marker_appended(
        self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp_ms: int, *, own_epoch: bool = False
    ) -> int | None:
        """End the producer's transaction here. Return its first offset, or None if it has written no records.

        With ``own_epoch``, the marker ends a transaction of version 2. It must then have a newer epoch, unless it is
        repeated (KIP-1228).
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry()
        elif epoch < entry.epoch or (own_epoch and epoch == entry.epoch and entry.txn_first_offset is not None):
            raise errors.InvalidProducerEpochError(
                f"the marker of producer {producer_id} has epoch {epoch}, but the log has {entry.epoch}"
            )
        elif coordinator_epoch < entry.coordinator_epoch:
            raise errors.TransactionCoordinatorFencedError(
                f"the marker of producer {producer_id} has coordinator epoch {coordinator_epoch}, "
                f"but the log has {entry.coordinator_epoch}"
            )
        self._verifications.pop(producer_id, None)
        first_offset = entry.txn_first_offset
        entry.set_epoch(epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp_ms = timestamp_ms
        entry.txn_first_offset = None
        return first_offset

    def forget(self) -> None:
        """Forget all producers, as if they had expired."""
        self.entries.clear()
        self._verifications.clear()

    def first_open_offset(self) -> int | None:
        """Return the start of the oldest open transaction, which is the last stable offset, or None."""
        return min((e.txn_first_offset for e in self.entries.values() if e.txn_first_offset is not None), default=None)


def advance_sequence(sequence: int, by: int) -> int:
    """Return the sequence number after ``by`` records. 0 follows 2**31 - 1."""
    return (sequence + by) % _SEQUENCES

"""A partition that the members of a share group read together (Java: ``SharePartition``).

Its state is kept at the leader of the partition.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...errors import InvalidRecordStateError, InvalidRequestError, NotLeaderOrFollowerError
from .batch import StoredBatch
from .share_deliveries import (
    AFTER,
    NOBODY,
    Acknowledge,
    Acquired,
    Delivery,
    InFlightBatch,
    RecordState,
    joined,
    without,
)
from .share_records import InFlightRecords

_CAREFUL_FROM = 2
"""From this delivery on, deliveries include fewer records, and a record's last delivery is separate."""


class Acquisition:
    """Acquires records for one member in one partition, from the records that were read.

    With ``exact``, never more records than requested are acquired (KIP-1206).
    """

    def __init__(
        self,
        shares: InFlightRecords,
        member_id: str,
        offset: int,
        read: Sequence[StoredBatch],
        *,
        batch_size: int,
        exact: bool,
    ) -> None:
        self._shares = shares
        self._member_id = member_id
        self._offset = offset
        self._read = read
        # Size 0 means stored batches, and must not create empty batches.
        self._batch_size = max(1, batch_size)
        self._exact = exact
        self._limit = shares.settings().delivery_count_limit
        # From this delivery on, deliver fewer records together, to isolate a harmful record.
        self._throttled_from = max(_CAREFUL_FROM, -(-self._limit // 2))

    def run(self, max_records: int) -> list[Acquired]:
        """Acquire up to ``max_records`` records, first among those that were delivered before. Return their offsets.

        Returns fewer if a record has often failed, so that it is delivered without many others.
        """
        shares = self._shares
        first = self._read[0].base_offset
        wanted, last = self._bounds(max_records)
        if wanted <= 0:
            return []
        if shares.batches and self._offset < first and shares.archive(self._offset, first - 1, RecordState.AVAILABLE):
            # Available records before the first one read are no longer in the log.
            shares.may_have_available = True
        base = first
        floor = shares.floor(first)
        if floor is None:
            base = max(base, shares.start_offset)
        elif floor.last >= first:
            base = floor.first
        present = [batch for batch in shares.batches if min(first, base) <= batch.first <= last]
        if not present:
            return self._new(base, last, wanted)
        acquired: list[Acquired] = []
        count = 0
        for batch in present:
            if count >= wanted:
                break
            throttled = self._is_throttled(batch, first, last)
            if throttled and acquired:
                return acquired
            got = self._of(batch, first, last, wanted - count, throttled=throttled)
            acquired += got
            count += sum(run.size for run in got)
            if throttled and got:
                return acquired
        following = present[-1].last + 1
        if count < wanted and following <= last:
            acquired += self._new(following, last, wanted - count)
        return acquired

    def _bounds(self, max_records: int) -> tuple[int, int]:
        """Return the number of records that may be acquired, and the last offset to consider.

        At the limit of records in flight, released records are still available.
        """
        shares = self._shares
        wanted = min(max_records, shares.settings().partition_max_record_locks - shares.in_flight)
        last = self._read[-1].last_offset
        if wanted <= 0 and self._offset <= shares.end_offset:
            wanted = min(max_records, shares.end_offset - self._offset + 1)
            last = min(last, shares.end_offset)
        return wanted, last

    # --- records delivered before ------------------------------------------------------------------------------------

    def _is_throttled(self, batch: InFlightBatch, first: int, last: int) -> bool:
        return any(
            delivery.state is RecordState.AVAILABLE and delivery.count >= self._throttled_from
            for _, delivery in batch.records(first, last)
        )

    def _of(self, batch: InFlightBatch, first: int, last: int, wanted: int, *, throttled: bool) -> list[Acquired]:
        """Acquire the batch's available records from ``first`` to ``last``.

        They are acquired together if possible, and one by one if the batch is only partly wanted or is ``throttled``.
        """
        whole = batch.whole
        if whole is not None and whole.state is not RecordState.AVAILABLE:
            return []
        too_many = self._exact and len(batch) > wanted
        if whole is None or too_many or throttled or not batch.lies_within(first, last):
            self._shares.split(batch)
            return self._each(batch, first, last, wanted)
        whole.acquire(self._member_id)
        self._shares.locked(whole, batch.first, batch.last)
        return [Acquired(batch.first, batch.last, whole.count)]

    def _each(self, batch: InFlightBatch, first: int, last: int, wanted: int) -> list[Acquired]:
        """Acquire the available records of a batch one by one, at most ``wanted`` if the acquisition is exact."""
        acquired: list[Acquired] = []
        careful = self._limit > _CAREFUL_FROM
        at_most = len(batch)
        throttled = False
        for offset, delivery in batch.records(first, last):
            if delivery.state is not RecordState.AVAILABLE:
                continue
            if careful and delivery.count == self._limit - 1 and acquired:
                break
            if delivery.count >= self._throttled_from and not throttled:
                throttled = True
                at_most = max(1, len(batch) >> (delivery.count - self._throttled_from + 1))
            delivery.acquire(self._member_id)
            self._shares.locked(delivery, offset, offset)
            acquired.append(Acquired(offset, offset, delivery.count))
            if careful and delivery.count == self._limit:
                break
            if (self._exact and len(acquired) == wanted) or (throttled and len(acquired) == at_most):
                break
        return joined(acquired)

    # --- records not delivered before --------------------------------------------------------------------------------

    def _new(self, first: int, last: int, wanted: int) -> list[Acquired]:
        shares = self._shares
        if not shares.batches:
            first = max(first, shares.end_offset)
        if wanted < last - first + 1:
            last = self._end_of_stored(first + wanted - 1)
        runs = self._add_new(first, last, wanted)
        if shares.batches[0].first == first:
            shares.start_offset = first
        shares.end_offset = max(shares.end_offset, last)
        return runs

    def _add_new(self, first: int, last: int, wanted: int) -> list[Acquired]:
        if self._exact and last - first + 1 > wanted:
            batch = InFlightBatch(first, last, Delivery(RecordState.AVAILABLE, 0))
            for offset, delivery in enumerate(batch.split()[:wanted], first):
                delivery.acquire(self._member_id)
                self._shares.locked(delivery, offset, offset)
            self._shares.may_have_available = True
            insort(self._shares.batches, batch, key=lambda each: each.first)
            return [Acquired(first, first + wanted - 1, 1)]
        runs = [Acquired(begin, end, 1) for begin, end in self._pieces(first, last)]
        for run in runs:
            delivery = Delivery(RecordState.AVAILABLE, 0)
            delivery.acquire(self._member_id)
            self._shares.locked(delivery, run.first, run.last)
            insort(self._shares.batches, InFlightBatch(run.first, run.last, delivery), key=lambda each: each.first)
        return runs

    def _pieces(self, first: int, last: int) -> list[tuple[int, int]]:
        """Split records at the boundaries of stored batches.

        Each piece has about the size that the member has requested.
        """
        pieces: list[tuple[int, int]] = []
        if not self._exact and last - first + 1 > self._batch_size:
            for stored in self._read:
                if stored.base_offset <= last and stored.base_offset - first >= self._batch_size:
                    pieces.append((first, stored.base_offset - 1))
                    first = stored.base_offset
        return [*pieces, (first, last)]

    def _end_of_stored(self, offset: int) -> int:
        """Return the last offset of the stored batch that contains an offset, or that offset if there is none."""
        for stored in self._read:
            if stored.base_offset <= offset <= stored.last_offset:
                return stored.last_offset
        return offset


class AcknowledgedBatch(NamedTuple):
    """A member's acknowledgement of consecutive records, with one type for all or one for each."""

    first: int
    last: int
    types: Sequence[int]

    def type_of(self, offset: int) -> Acknowledge:
        return Acknowledge(self.types[offset - self.first] if len(self.types) > 1 else self.types[0])


class SharePartition(InFlightRecords):
    """Delivers records to members, and processes their acknowledgements."""

    def acquire(
        self,
        member_id: str,
        offset: int,
        read: Sequence[StoredBatch],
        *,
        batch_size: int,
        max_records: int,
        exact: bool,
        aborted: Sequence[StoredBatch] = (),
    ) -> list[Acquired]:
        """Lock records for a member, among the records read from ``offset`` on.

        Unless ``exact`` (KIP-1206), the last stored batch is completed even beyond ``max_records``. Batches of aborted
        transactions count as finished.
        """
        if self.fenced or max_records <= 0 or not read or read[-1].last_offset < self.start_offset:
            return []
        acquisition = Acquisition(self, member_id, offset, read, batch_size=batch_size, exact=exact)
        acquired = acquisition.run(max_records)
        for batch in aborted:
            self.archive(batch.base_offset, batch.last_offset, RecordState.ACQUIRED)
            acquired = without(acquired, batch.base_offset, batch.last_offset)
        return acquired

    def acknowledge(self, member_id: str, batches: Iterable[AcknowledgedBatch]) -> None:
        """Apply all acknowledgements of a member, or raise an error and apply none."""
        if self.fenced:
            raise NotLeaderOrFollowerError("another broker now leads the share partition")
        changed: list[tuple[int, int, Delivery]] = []
        before: list[tuple[Delivery, RecordState, str]] = []
        try:
            for said in batches:
                for first, last, delivery, kind in self._said(member_id, said):
                    if kind is Acknowledge.RENEW:
                        self.locked(delivery, first, last)
                        continue
                    before.append((delivery, delivery.state, delivery.member_id))
                    delivery.settle(AFTER[kind], self.settings().delivery_count_limit)
                    changed.append((first, last, delivery))
        except (InvalidRecordStateError, InvalidRequestError):
            for delivery, state, owner in reversed(before):
                delivery.state, delivery.member_id = state, owner
            raise
        self.settled(changed)

    def _said(self, member_id: str, said: AcknowledgedBatch) -> Iterable[tuple[int, int, Delivery, Acknowledge]]:
        """Yield the records of an acknowledgement with its type. Raises an error if it is invalid."""
        if said.last < self.start_offset:
            return
        for batch in self._named(said):
            if batch.last < self.start_offset:
                continue
            if batch.whole is not None:
                if batch.whole.member_id == NOBODY:
                    raise InvalidRecordStateError(
                        "The batch cannot be acknowledged. The batch is not in the acquired state."
                    )
                if batch.whole.member_id != member_id:
                    raise InvalidRecordStateError("Member is not the owner of batch record")
                alike = len(said.types) == 1 and batch.first >= self.start_offset
                if alike and batch.lies_within(said.first, said.last):
                    yield batch.first, batch.last, batch.whole, self._allowed(said.type_of(said.first))
                    continue
            self.split(batch)
            for offset, delivery in batch.records(max(said.first, self.start_offset), said.last):
                if delivery.state is not RecordState.ACQUIRED:
                    raise InvalidRecordStateError("The offset cannot be acknowledged. The offset is not acquired.")
                if delivery.member_id != member_id:
                    raise InvalidRecordStateError("Member is not the owner of offset")
                yield offset, offset, delivery, self._allowed(said.type_of(offset))

    def _named(self, said: AcknowledgedBatch) -> list[InFlightBatch]:
        """Return the batches that contain the acknowledged records. Raises the error of a real broker if any is
        missing.
        """
        floor = self.floor(said.first)
        if floor is None and said.first < self.start_offset <= said.last:
            floor = self.floor(self.start_offset)
        if floor is None:
            raise InvalidRecordStateError(
                "Batch record not found. The request batch offsets are not found in the cache."
            )
        named = [batch for batch in self.batches[self.batches.index(floor) :] if batch.first <= said.last]
        for what, offset in (("first", said.first), ("last", said.last)):
            if offset > named[-1].last:
                raise InvalidRequestError(
                    f"Batch record not found. The {what} offset in request is past acquired records."
                )
        return named

    def _allowed(self, kind: Acknowledge) -> Acknowledge:
        if kind is Acknowledge.RENEW and not self.settings().renew_acknowledge_enable:
            raise InvalidRecordStateError("Renewing acquisition locks is not enabled for the group.")
        return kind

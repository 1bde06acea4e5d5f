"""A partition that the members of a share group read together (Java: ``SharePartition``).

Its state is kept at the leader of the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...errors import InvalidRecordStateError, InvalidRequestError, NotLeaderOrFollowerError
from .batch import StoredBatch
from .share_acquiring import Acquisition
from .share_deliveries import AFTER, NOBODY, Acknowledge, Acquired, Delivery, InFlightBatch, RecordState, without
from .share_records import InFlightRecords


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
        """Return the batches that contain the records of an acknowledgement."""
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

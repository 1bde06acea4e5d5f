"""The truth about a partition: its log, its leader, and what each broker believes about that."""

from __future__ import annotations

import struct

from tests.core.producer_sim import SimPartition

_EPOCH_AT = 12
"""Where a batch's header says in which leader epoch it was written."""


class Partition(SimPartition):
    """One log that all replicas share: what is acknowledged is never lost. Brokers learn late who leads."""

    def __init__(self, index: int, leader: int) -> None:
        super().__init__(leader)
        self.index = index
        self._batches: list[tuple[int, bytes]] = []
        """The offset behind each batch's last record, and the batch."""
        self._beliefs: dict[int, tuple[int, int]] = {}
        """(leader, epoch) of the brokers that have not heard of the latest election."""

    @property
    def end(self) -> int:
        """The offset behind the last record."""
        return len(self.log)

    def append(self, raw: memoryview) -> tuple[int, int]:
        """Error code and base offset."""
        before = self.end
        code, offset = super().append(raw)
        if self.end > before:
            stored = bytearray(raw)
            struct.pack_into(">q", stored, 0, offset)
            struct.pack_into(">i", stored, _EPOCH_AT, self.epoch)
            self._batches.append((self.end, bytes(stored)))
        return code, offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from this offset on, at least one if there is any."""
        found = b""
        for end, content in self._batches:
            if end > offset:
                if found and len(found) + len(content) > max_bytes:
                    break
                found += content
        return found

    def elect(self, leader: int, brokers: list[int]) -> None:
        """Another leader (or none, -1); nobody knows yet."""
        for broker in brokers:
            self._beliefs.setdefault(broker, (self.leader, self.epoch))
        self.leader = leader
        self.epoch += 1

    def learn(self, broker: int) -> None:
        """A broker hears of the latest election."""
        self._beliefs.pop(broker, None)

    def seen_by(self, broker: int) -> tuple[int, int]:
        """Leader and epoch as the broker believes."""
        return self._beliefs.get(broker, (self.leader, self.epoch))

"""The true state of a partition: its log, its leader, and each broker's view of them."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter

from aiokafka_lead._records import read_batches

from .codes import INVALID_PRODUCER_EPOCH, NONE, OUT_OF_ORDER_SEQUENCE_NUMBER

_EPOCH_AT = 12
"""Position of the leader epoch in a batch's header."""


@dataclass
class ProducerState:
    """State of one producer id in a partition's log (Java: ``ProducerStateEntry``)."""

    epoch: int = -1
    last_sequence: int = -1
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    """First and last sequence and base offset of the latest batches."""


class Partition:
    """One log that all replicas share: no acknowledged record is ever lost. Brokers learn late of a new leader."""

    def __init__(self, index: int, leader: int) -> None:
        self.index = index
        self.leader = leader
        self.epoch = 0
        self.log: list[bytes | None] = []
        """The values of its records."""
        self.producers: dict[int, ProducerState] = {}
        self._batches: list[tuple[int, bytes]] = []
        """The offset after each batch's last record, and the batch."""
        self._beliefs: dict[int, tuple[int, int]] = {}
        """(leader, epoch) as known by brokers that have not learned of the latest election."""

    @property
    def end(self) -> int:
        """Return the offset after the last record."""
        return len(self.log)

    def append(self, raw: memoryview | bytes) -> tuple[int, int]:
        """Return error code and base offset, by the rules of ProducerAppendInfo."""
        (batch,) = read_batches(raw)
        offset = self.end
        if batch.producer_id >= 0:
            state = self.producers.setdefault(batch.producer_id, ProducerState())
            first, last = batch.base_sequence, (batch.base_sequence + batch.record_count - 1) & 0x7FFFFFFF
            if batch.producer_epoch == state.epoch:
                for known_first, known_last, known_offset in state.recent:
                    if (known_first, known_last) == (first, last):
                        return NONE, known_offset
            if state.epoch >= 0:
                if batch.producer_epoch < state.epoch:
                    return INVALID_PRODUCER_EPOCH, -1
                expected = 0 if batch.producer_epoch > state.epoch else (state.last_sequence + 1) & 0x7FFFFFFF
                if first != expected:
                    return OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            if batch.producer_epoch != state.epoch:
                state.recent.clear()
            state.epoch, state.last_sequence = batch.producer_epoch, last
            state.recent.append((first, last, offset))
        self.log.extend(batch.columns().values)
        stored = bytearray(raw)
        struct.pack_into(">q", stored, 0, offset)
        struct.pack_into(">i", stored, _EPOCH_AT, self.epoch)
        self._batches.append((self.end, bytes(stored)))
        return NONE, offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from this offset on, at least one if there is any."""
        first = bisect_right(self._batches, offset, key=itemgetter(0))
        found = b""
        for _, content in islice(self._batches, first, None):
            if found and len(found) + len(content) > max_bytes:
                break
            found += content
        return found

    def elect(self, leader: int, brokers: Iterable[int] = ()) -> None:
        """Elect another leader (or none, -1); these brokers do not know yet."""
        for broker in brokers:
            self._beliefs.setdefault(broker, (self.leader, self.epoch))
        self.leader = leader
        self.epoch += 1

    def learn(self, broker: int) -> None:
        """Notify a broker of the latest election."""
        self._beliefs.pop(broker, None)

    def seen_by(self, broker: int) -> tuple[int, int]:
        """Return leader and epoch as known by the broker."""
        return self._beliefs.get(broker, (self.leader, self.epoch))

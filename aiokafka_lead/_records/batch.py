"""One batch of a partition's log, whatever its message format."""

from __future__ import annotations

from ..errors import CorruptRecordError
from ..types import TimestampType
from .columns import Columns
from .compression import decompress
from .decoder import index_records, read_records
from .layout import CODEC_MASK, CODEC_NAMES, CONTROL_BIT, DEFAULT_MAX_DECOMPRESSED_BYTES, TRANSACTIONAL_BIT, ControlType
from .record import ConsumerRecord

__all__ = ["BatchView"]


class BatchView:
    """One batch of a partition's log: its header at once, its records when they are asked for.

    Batches of message formats 0 and 1 look the same: a message, or a compressed set of them, is a batch.
    """

    def __init__(
        self,
        payload: bytes | memoryview,
        *,
        base_offset: int,
        last_offset_delta: int,
        base_timestamp_ms: int,
        max_timestamp_ms: int,
        record_count: int,
        size_bytes: int,
        attributes: int,
        timestamp_type: TimestampType,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        magic: int = 2,
        compressed: bool = False,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = base_offset + last_offset_delta
        """The last offset that this batch takes, whether or not compaction left a record there."""
        self.next_offset = self.last_offset + 1
        self.base_timestamp_ms = base_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.timestamp_type = timestamp_type
        self.record_count = record_count
        self.size_bytes = size_bytes
        """As it was received, header included."""
        self.leader_epoch = leader_epoch
        """-1 where the broker told none."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.is_transactional = attributes & TRANSACTIONAL_BIT != 0
        self.is_control = attributes & CONTROL_BIT != 0
        self.compression = CODEC_NAMES[attributes & CODEC_MASK]
        self.magic = magic
        self._payload = payload
        self._compressed = compressed
        """The payload is still to be decompressed."""
        self._max_decompressed_bytes = max_decompressed_bytes

    def load(self) -> bytes | memoryview:
        """The records' bytes, decompressed at the first call.

        Reading records does this itself; call it apart to have it done elsewhere, as in a thread.
        """
        if self._compressed:
            self._payload = decompress(self.compression, self._payload, self._max_decompressed_bytes)
            self._compressed = False
        return self._payload

    def records(
        self, topic: str, partition: int, from_offset: int = 0
    ) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """All records whose offset is at least ``from_offset``."""
        return read_records(
            self.load(),
            self.record_count,
            self.last_offset - self.base_offset,
            self.base_offset,
            self.base_timestamp_ms,
            self.max_timestamp_ms if self.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
            topic,
            partition,
            self.timestamp_type,
            None if self.leader_epoch < 0 else self.leader_epoch,
            from_offset,
        )

    def columns(self, from_offset: int = 0) -> Columns:
        """The same records by column; all are checked now, lists are made as they are asked for."""
        return Columns(
            index_records(
                self.load(),
                self.record_count,
                self.last_offset - self.base_offset,
                self.base_offset,
                self.base_timestamp_ms,
                self.max_timestamp_ms if self.timestamp_type is TimestampType.LOG_APPEND_TIME else None,
                from_offset,
            )
        )

    def control_type(self) -> ControlType:
        """What a control batch says; `ControlType.UNKNOWN` for what this client does not know."""
        if not self.is_control:
            raise ValueError("this is no control batch")
        keys = self.columns().keys
        key = keys[0] if keys else None
        # A key is version (int16) and type (int16); later versions may append fields.
        if key is None or len(key) < 4:
            raise CorruptRecordError("a control record has no valid key")
        if int.from_bytes(key[:2], "big", signed=True) < 0:
            raise CorruptRecordError("a control record's key has a negative version")
        return ControlType(int.from_bytes(key[2:4], "big", signed=True))

    def __repr__(self) -> str:
        return (
            f"<BatchView offsets {self.base_offset}..{self.last_offset} records={self.record_count} magic={self.magic} "
            f"compression={self.compression} size_bytes={self.size_bytes}>"
        )

"""One batch of a partition's log, in any message format, and its records in columns.

If a compiler is available, this code is compiled through ``batch.pxd``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BatchTooLargeError, CorruptRecordError
from ..errors.base import own_copy, without_frames
from ..types import Headers, TimestampType
from .compression import decompress
from .decoder import Record, RecordIndex, index_records, join_indexes, read_records
from .layout import CODEC_MASK, CODEC_NAMES, CONTROL_BIT, LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, ControlType, Header
from .record import ConsumerRecord

RECORD_BYTES = 100
"""Estimated memory in bytes of a record without its contents.

The record itself may take only seven bytes in a batch.
"""

_CODEC_MASK = CODEC_MASK
_LOG_APPEND_TIME_BIT = LOG_APPEND_TIME_BIT
_TRANSACTIONAL_BIT = TRANSACTIONAL_BIT
_CONTROL_BIT = CONTROL_BIT
_CREATE_TIME = TimestampType.CREATE_TIME
_LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME
_NO_TIMESTAMP = TimestampType.NO_TIMESTAMP
_INT64_MAX = 2**63 - 1
_RECORD_BYTES = RECORD_BYTES


def too_many_records(count: int, max_bytes: int) -> BatchTooLargeError:
    """Return the error for a batch whose records exceed the limit even without their contents."""
    return BatchTooLargeError(f"the batch, of {count} records, is larger than {max_bytes} bytes in memory")


class BatchView:
    """One batch of a partition's log. The header is read at once, the records on request.

    Batches of message formats 0 and 1 have the same interface. There, a message or a compressed set of messages is a
    batch.
    """

    def __init__(
        self, header: Header, payload: bytes | memoryview, size_bytes: int, max_decompressed_bytes: int
    ) -> None:
        (
            self.base_offset,
            _,
            self.leader_epoch,
            self.magic,
            _,
            attributes,
            last_offset_delta,
            self.base_timestamp_ms,
            self.max_timestamp_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = header
        if self.base_offset < 0 or last_offset_delta < 0 or self.base_offset > _INT64_MAX - 1 - last_offset_delta:
            raise CorruptRecordError(f"a batch has invalid offsets: {self.base_offset}, and {last_offset_delta} more")
        if self.record_count < 0 or self.record_count > last_offset_delta + 1:
            raise CorruptRecordError(
                f"the batch at {self.base_offset} has an invalid number of records: {self.record_count}"
            )
        codec = attributes & _CODEC_MASK
        if codec > 4:
            raise CorruptRecordError(f"the batch at {self.base_offset} has the unknown compression codec {codec}")
        self.last_offset = self.base_offset + last_offset_delta
        """The last offset of this batch, even if compaction has removed its record."""
        self.next_offset = self.last_offset + 1
        self.is_transactional = attributes & _TRANSACTIONAL_BIT != 0
        self.is_control = attributes & _CONTROL_BIT != 0
        self.compression = CODEC_NAMES[codec]
        if self.magic == 0:
            self.timestamp_type = _NO_TIMESTAMP
        elif attributes & _LOG_APPEND_TIME_BIT:
            self.timestamp_type = _LOG_APPEND_TIME
        else:
            self.timestamp_type = _CREATE_TIME
        self.size_bytes = size_bytes
        """Size in bytes as received, including the header."""
        self._payload = payload
        # Older formats have been decompressed for the conversion to format 2.
        self._compressed = codec != 0 and self.magic == 2
        self._max_decompressed_bytes = max_decompressed_bytes
        self._failure: BatchTooLargeError | CorruptRecordError | None = None
        """The error of a failed attempt to decompress the batch, or None."""

    def load(self) -> bytes | memoryview:
        """Return the bytes of the records. The first call decompresses them.

        Reading records calls this method. Call it first if the decompression should run in a thread.
        """
        if self._compressed:
            self._decompress(self._max_decompressed_bytes)
        return self._payload

    def load_within(self, max_bytes: int) -> bool:
        """Call `load` and return True, unless the result would exceed ``max_bytes``.

        In that case, returns False after little work.
        """
        if self._compressed:
            self._check_count()
            if self._failure is None and len(self._payload) > max_bytes:
                return False
            try:
                self._decompress(min(max_bytes, self._max_decompressed_bytes))
            except BatchTooLargeError as error:
                if self._failure is not None or max_bytes >= self._max_decompressed_bytes:
                    raise error
                return False
        return True

    def _check_count(self) -> None:
        count = self.record_count
        # The code that reads the records refuses a count that is impossible for this number of bytes.
        if count > self._max_decompressed_bytes // _RECORD_BYTES and (self._compressed or count < len(self._payload)):
            raise too_many_records(self.record_count, self._max_decompressed_bytes)

    def _decompress(self, max_bytes: int) -> None:
        if self._failure is not None:
            raise own_copy(self._failure)
        self._check_count()
        try:
            self._payload = decompress(self.compression, self._payload, max_bytes)
        except (BatchTooLargeError, CorruptRecordError) as error:
            # Do not retry, because the operation is slow.
            if max_bytes >= self._max_decompressed_bytes or isinstance(error, CorruptRecordError):
                self._failure = without_frames(own_copy(error))
            raise
        self._compressed = False

    @property
    def is_loaded(self) -> bool:
        """True if reading records requires no decompression."""
        return not self._compressed

    def records(
        self, topic: str, partition: int, from_offset: int = 0
    ) -> list[ConsumerRecord[bytes | None, bytes | None]]:
        """Return all records whose offset is at least ``from_offset``."""
        epoch = None if self.leader_epoch < 0 else self.leader_epoch
        sample: ConsumerRecord[bytes | None, bytes | None] = ConsumerRecord(
            topic, partition, 0, 0, self.timestamp_type, None, None, (), epoch
        )
        return self.records_like(sample, from_offset, self.last_offset)

    def records_like(self, sample: Record, from_offset: int, last_offset: int) -> list[Record]:
        """Return the records with these offsets, as copies of ``sample``, which has their common attributes."""
        self._check_count()
        return read_records(
            self.load(),
            self.record_count,
            self.base_offset,
            self.last_offset - self.base_offset,
            self.base_timestamp_ms,
            self.max_timestamp_ms if self.timestamp_type is _LOG_APPEND_TIME else None,
            sample,
            from_offset,
            last_offset,
        )

    def columns(self, from_offset: int = 0) -> Columns:
        """Return the records in columns. All records are checked now, and the lists are created on request."""
        self._check_count()
        return Columns(
            index_records(
                self.load(),
                self.record_count,
                self.base_offset,
                self.last_offset - self.base_offset,
                self.base_timestamp_ms,
                self.max_timestamp_ms if self.timestamp_type is _LOG_APPEND_TIME else None,
                from_offset,
            )
        )

    def control_type(self) -> ControlType:
        """Return the type of a control batch.

        It is `ControlType.UNKNOWN` if this package does not know it, or if compaction has removed the record.
        """
        if not self.is_control:
            raise ValueError("this is not a control batch")
        keys = self.columns().keys
        if not keys:
            return ControlType.UNKNOWN
        key = keys[0]
        # The key consists of version (int16) and type (int16). Later versions may append fields.
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


class Columns:
    """The offsets, timestamps, keys, values and headers of a batch's records. Each list is created on request."""

    def __init__(self, index: RecordIndex) -> None:
        self.index = index
        self._offsets: list[int] | None = None
        self._timestamps_ms: list[int] | None = None
        self._keys: list[bytes | None] | None = None
        self._values: list[bytes | None] | None = None
        self._headers: list[Headers] | None = None

    @classmethod
    def joined(cls, parts: Sequence[Columns]) -> Columns:
        """Join the columns of consecutive batches. Copies the bytes of their records."""
        return cls(join_indexes([part.index for part in parts]))

    def only(self, rows: Sequence[int]) -> Columns:
        """Return columns with only the records at these indices."""
        return Columns(self.index.only(rows))

    def __len__(self) -> int:
        return len(self.index.offsets)

    @property
    def size_bytes(self) -> int:
        """Uncompressed size of the records in bytes."""
        return len(self.index.payload)

    @property
    def offsets(self) -> list[int]:
        """Offset of each record."""
        if self._offsets is None:
            self._offsets = self.index.offsets.tolist()
        return self._offsets

    @property
    def timestamps_ms(self) -> list[int]:
        """Timestamp of each record in milliseconds since 1970, or -1."""
        if self._timestamps_ms is None:
            self._timestamps_ms = self.index.timestamps_ms.tolist()
        return self._timestamps_ms

    @property
    def keys(self) -> list[bytes | None]:
        """Key of each record, or None if it has none."""
        if self._keys is None:
            self._keys = self.index.keys()
        return self._keys

    @property
    def values(self) -> list[bytes | None]:
        """Value of each record, or None if it has none."""
        if self._values is None:
            self._values = self.index.values()
        return self._values

    @property
    def headers(self) -> list[Headers]:
        """Headers of each record."""
        if self._headers is None:
            self._headers = self.index.headers()
        return self._headers

"""Finds the end of a fetch answer's batches without decoding them."""

from __future__ import annotations

from struct import Struct

from ..._values import NamedTuple

# A log entry of any message format begins with its offset (int64) and the length of the rest (int32). Format 2
# continues with leader epoch (int32), format (int8), checksum (int32), attributes (int16) and last offset delta
# (int32).
_ENTRY = Struct(">qiib")
_LAST_OFFSET_DELTA = Struct(">i")
_OVERHEAD = 12
_LAST_OFFSET_DELTA_AT = 23
_V2_HEADER = 61


class FetchedSpan(NamedTuple):
    """The range covered by the complete batches of an answer."""

    next_offset: int
    """The offset after the last batch, for the next fetch; -1 if there is no complete batch."""
    leader_epoch: int
    """The epoch under which the last batch was written, or -1."""


_NOTHING = FetchedSpan(-1, -1)


def scan_batches(buffer: memoryview) -> FetchedSpan:
    """Walk over batch lengths to the last complete batch.

    Invalid bytes end the walk; the reader of batches reports them as corrupt.
    """
    at = last = 0
    end = len(buffer) - _ENTRY.size
    found = False
    while at <= end:
        length: int = _ENTRY.unpack_from(buffer, at)[1]
        following = at + _OVERHEAD + length
        if length < 5 or following > len(buffer):
            break
        last = at
        found = True
        at = following
    if not found:
        return _NOTHING
    offset, length, leader_epoch, magic = _ENTRY.unpack_from(buffer, last)
    if magic < 2:
        # Formats 0 and 1: an entry has the offset of its last message.
        return FetchedSpan(offset + 1, -1)
    if _OVERHEAD + length < _V2_HEADER:
        return _NOTHING
    return FetchedSpan(
        offset + _LAST_OFFSET_DELTA.unpack_from(buffer, last + _LAST_OFFSET_DELTA_AT)[0] + 1, leader_epoch
    )

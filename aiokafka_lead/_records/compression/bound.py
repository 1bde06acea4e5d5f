"""What every codec says of data that it does not accept."""

from __future__ import annotations

from ...errors import CorruptRecordError


def too_large(codec: str, max_bytes: int) -> CorruptRecordError:
    """More would come out than the reader allows."""
    return CorruptRecordError(f"a batch compressed with {codec} is larger than {max_bytes} bytes when decompressed")


def truncated(codec: str) -> CorruptRecordError:
    """The data ends before its own end mark."""
    return CorruptRecordError(f"a batch compressed with {codec} ends too early")

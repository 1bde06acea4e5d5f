"""What the codecs share: how far they go at a time, and what they say of data that they do not accept."""

from __future__ import annotations

from ...errors import BatchTooLargeError, CorruptRecordError

_LEAST_STEP = 64 * 1024


def first_step(compressed_size: int) -> int:
    """How much to make at a time where nothing tells the size: no small input takes memory for the whole bound."""
    return max(_LEAST_STEP, 4 * compressed_size)


def too_large(codec: str, max_bytes: int) -> BatchTooLargeError:
    """More would come out than the reader allows."""
    return BatchTooLargeError(f"the batch, compressed with {codec}, is larger than {max_bytes} bytes when decompressed")


def truncated(codec: str) -> CorruptRecordError:
    """The data ends before its own end mark."""
    return CorruptRecordError(f"a batch compressed with {codec} ends too early")

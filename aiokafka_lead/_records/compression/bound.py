"""Step sizes of decompression, and errors about data that is not accepted, for all codecs."""

from __future__ import annotations

from ...errors import BatchTooLargeError, CorruptRecordError

_LEAST_STEP = 64 * 1024


def first_step(compressed_size: int) -> int:
    """Return the size of the first output buffer if the total is unknown.

    For a small input, it is far below the limit.
    """
    return max(_LEAST_STEP, 4 * compressed_size)


def too_large(codec: str, max_bytes: int) -> BatchTooLargeError:
    """Return the error for a result that is larger than the reader allows."""
    return BatchTooLargeError(f"the batch, compressed with {codec}, is larger than {max_bytes} bytes when decompressed")


def truncated(codec: str) -> CorruptRecordError:
    """Return the error for data that ends before its end mark."""
    return CorruptRecordError(f"a batch compressed with {codec} ends too early")

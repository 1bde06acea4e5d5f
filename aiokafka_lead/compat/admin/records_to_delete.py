"""`RecordsToDelete`."""

from __future__ import annotations

__all__ = ["RecordsToDelete"]


class RecordsToDelete:
    """Records of a partition before this offset; -1 means all records."""

    def __init__(self, before_offset: int) -> None:
        self.before_offset = before_offset

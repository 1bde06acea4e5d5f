"""`RecordsToDelete`."""

from __future__ import annotations

__all__ = ["RecordsToDelete"]


class RecordsToDelete:
    """The records of a partition before this offset; -1 means all."""

    def __init__(self, before_offset: int) -> None:
        self.before_offset = before_offset

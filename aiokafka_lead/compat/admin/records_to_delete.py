"""`RecordsToDelete`, in a module of the same name as in aiokafka."""

from __future__ import annotations

__all__ = ["RecordsToDelete"]


class RecordsToDelete:
    """Offset of a partition before which records are deleted; -1 deletes all records."""

    def __init__(self, before_offset: int) -> None:
        self.before_offset = before_offset

"""The records of a batch in columns.

If a compiler is available, this code is compiled through ``columns.pxd``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..types import Headers
from .decoder import RecordIndex, join_indexes


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
        """Return the columns of these rows."""
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
        """Key of each record."""
        if self._keys is None:
            self._keys = self.index.keys()
        return self._keys

    @property
    def values(self) -> list[bytes | None]:
        """Value of each record."""
        if self._values is None:
            self._values = self.index.values()
        return self._values

    @property
    def headers(self) -> list[Headers]:
        """Headers of each record."""
        if self._headers is None:
            self._headers = self.index.headers()
        return self._headers

"""Splits bytes into frames: a length of four bytes, then that number of bytes."""

from __future__ import annotations

from ...errors import FrameTooLargeError

_SCRATCH_BYTES = 65_536


class FrameReader:
    """Collects incoming bytes. Sans-I/O: fill part of `buffer`, and pass the number of bytes to `advance`.

    Small frames are cut out of one scratch buffer; a frame that does not fit there is read into a buffer of its exact
    size. Each returned frame has its own memory.
    """

    __slots__ = ("_filled", "_large", "_large_filled", "_max_bytes", "_scratch")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._filled = 0
        # A frame too large for the scratch buffer, while it arrives.
        self._large: bytearray | None = None
        self._large_filled = 0

    def buffer(self) -> memoryview:
        """Return the buffer for the next bytes; never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return memoryview(self._scratch)[self._filled :]

    def advance(self, count: int) -> list[bytes | bytearray]:
        """Note ``count`` bytes put into `buffer`; return the completed frames. Raises FrameTooLargeError."""
        if self._large is not None:
            self._large_filled += count
            if self._large_filled < len(self._large):
                return []
            frame, self._large = self._large, None
            return [frame]
        self._filled += count
        frames: list[bytes | bytearray] = []
        scratch, at = self._scratch, 0
        while self._filled - at >= 4:
            size = int.from_bytes(scratch[at : at + 4], "big", signed=True)
            if not 0 <= size <= self._max_bytes:
                raise FrameTooLargeError(f"a frame announces {size} bytes")
            if self._filled - at - 4 >= size:
                frames.append(bytes(scratch[at + 4 : at + 4 + size]))
                at += 4 + size
            elif size + 4 > _SCRATCH_BYTES:
                self._large = bytearray(size)
                self._large_filled = self._filled - at - 4
                self._large[: self._large_filled] = scratch[at + 4 : self._filled]
                at = self._filled
            else:
                break
        rest = self._filled - at
        if at and rest:
            scratch[:rest] = scratch[at : self._filled]
        self._filled = rest
        return frames

    def feed(self, data: bytes) -> list[bytes | bytearray]:
        """Do the same for bytes in a separate buffer."""
        frames: list[bytes | bytearray] = []
        view = memoryview(data)
        while view:
            target = self.buffer()
            count = min(len(target), len(view))
            target[:count] = view[:count]
            view = view[count:]
            frames += self.advance(count)
        return frames

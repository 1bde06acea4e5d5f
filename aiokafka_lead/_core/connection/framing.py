"""Frames in a byte stream. A frame is a big-endian 4-byte length, followed by that number of bytes.

There is no I/O here: the transport requests a buffer, fills it, reports the number of bytes, and receives the complete
frames. Small frames are copied out of a reused buffer. The rest of a large frame is read directly into its own memory.
A slice of any frame therefore stays valid while it is referenced.

If a compiler is available, this code is compiled through ``framing.pxd``. The compiled code does not clear the memory
of large frames, which saves a tenth of the time of consuming.
"""

from __future__ import annotations

from functools import cache
from struct import Struct

from ..._cpython import raw
from ..._wire import Buffer
from ...errors import KafkaError
from .foreign import frame_length_error

SCRATCH_BYTES = 32 * 1024
"""Size in bytes of the reused buffer.

It suits a TLS record or many small responses. Larger frames get their own memory.
"""
FIRST_SCRATCH_BYTES = 4 * 1024
"""Initial size in bytes of the reused buffer, until more bytes arrive at once.

It is small because a client may have hundreds of idle connections.
"""

FREED_BYTES = 8 * 1024 * 1024
"""Size in bytes of the block that is freed once. After that, glibc keeps up to twice this amount of freed memory."""

_unpack_length = Struct(">i").unpack_from


@cache
def _keep_freed_memory() -> None:
    """Make glibc keep the memory of freed frames and records. Only the first call has an effect.

    Otherwise, glibc returns this memory to the system, which has to map and clear memory for the next frame. That takes
    up to half of the time of consuming.
    """
    raw.new_buffer(FREED_BYTES)


class FrameReader:
    """Collects the frames of one connection.

    ``max_bytes`` is the maximum length of a frame. It is checked before memory is allocated, and may be increased
    later. If the stream is invalid, ``error`` is set and no more bytes are accepted.
    """

    __slots__ = ("_body", "_body_view", "_end", "_filled", "_scratch", "_scratch_view", "error", "max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.error: KafkaError | None = None
        self._scratch = raw.new_buffer(FIRST_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._end = 0
        """Length of the incomplete frame at the start of the reused buffer, in bytes."""
        self._body: bytearray | None = None
        """The incomplete large frame, without its length prefix, or None."""
        self._body_view = memoryview(b"")
        self._filled = 0
        """Number of bytes of the large frame that have arrived."""

    @property
    def incomplete(self) -> bool:
        """True if part of a frame has arrived, but not all of it."""
        return self._body is not None or self._end > 0

    @property
    def missing_bytes(self) -> int:
        """Number of bytes that a large frame still lacks. 0 if none is in progress."""
        return 0 if self._body is None else len(self._body) - self._filled

    def get_buffer(self) -> memoryview:
        """Return the buffer for the next bytes. It is never empty. It is valid until the next call of `received`."""
        if self._body is not None:
            return self._body_view[self._filled :]
        return self._scratch_view[self._end :] if self._end else self._scratch_view

    def received(self, count: int) -> list[Buffer]:
        """Process ``count`` bytes, which the caller has written to the buffer. Return the frames that they complete."""
        if self._body is not None:
            return self._received_body(count)
        scratch = self._scratch_view
        if not self._end and count >= 4:
            (length,) = _unpack_length(scratch)
            if length == count - 4 and length <= self.max_bytes:
                return [scratch[4:count].tobytes()]  # the most frequent case: exactly one whole frame
        frames: list[Buffer] = []
        end = self._end + count
        if end == FIRST_SCRATCH_BYTES == len(scratch):
            scratch = self._grown_scratch()
        start = 0
        while end - start >= 4:
            (length,) = _unpack_length(scratch, start)
            if not 0 <= length <= self.max_bytes:
                self.error = frame_length_error(bytes(scratch[start:end]), length, self.max_bytes)
                return frames
            stop = start + 4 + length
            if stop > end:
                if 4 + length > SCRATCH_BYTES:
                    self._begin_body(length, scratch[start + 4 : end])
                    return frames
                break
            frames.append(scratch[start + 4 : stop].tobytes())
            start = stop
        if 0 < start < end:
            self._scratch[: end - start] = self._scratch[start:end]
        self._end = end - start
        return frames

    def feed(self, data: bytes) -> list[Buffer]:
        """Process ``data``, and return the complete frames.

        For transports that provide bytes instead of filling a buffer.
        """
        frames: list[Buffer] = []
        view = memoryview(data)
        while len(view) and self.error is None:
            room = self.get_buffer()
            count = min(len(room), len(view))
            room[:count] = view[:count]
            frames += self.received(count)
            view = view[count:]
        return frames

    def _grown_scratch(self) -> memoryview:
        """Replace the full buffer by a larger one, and return it."""
        grown = raw.new_buffer(SCRATCH_BYTES)
        grown[:FIRST_SCRATCH_BYTES] = self._scratch
        self._scratch = grown
        self._scratch_view = memoryview(grown)
        return self._scratch_view

    def _begin_body(self, length: int, beginning: memoryview) -> None:
        _keep_freed_memory()
        self._body = raw.new_buffer(length)
        self._body_view = memoryview(self._body)
        self._filled = len(beginning)
        self._body_view[: self._filled] = beginning
        self._end = 0

    def _received_body(self, count: int) -> list[Buffer]:
        self._filled += count
        frame = self._body_view
        if self._filled < len(frame):
            return []
        self._body = None
        self._body_view = memoryview(b"")
        return [frame]

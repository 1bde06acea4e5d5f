"""The interface of transports, which is the same for all event loops, with and without TLS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...._wire import Buffer
from ....errors import KafkaError

JOINED_BYTES = 64 * 1024
"""Size in bytes up to which copying is faster than another system call or TLS record."""


class TransportHandler(Protocol):
    """Receives the events of a transport, synchronously on the event loop. The methods must not raise exceptions."""

    def on_frame(self, frame: Buffer, /) -> None:
        """Handle a complete frame, without its length. The handler may keep the memory."""

    def on_writable(self) -> None:
        """Handle that the operating system has accepted all data, after the transport was ``paused``."""

    def on_closed(self, error: KafkaError, /) -> None:
        """Handle the end of the connection or an invalid stream.

        Called at most once, and not after `Transport.close`.
        """


class Transport(Protocol):
    """An open byte stream that is split into frames."""

    @property
    def paused(self) -> bool:
        """True if written data waits for the operating system, because the peer is slower than this client."""
        ...

    def limit_frames(self, max_bytes: int) -> None:
        """Accept frames up to this length from now on."""
        ...

    def write(self, chunks: Sequence[Buffer], /) -> None:
        """Send the buffers, which must not change until they are sent.

        Never blocks and never raises; see ``on_closed``.
        """
        ...

    def close(self) -> None:
        """Close the connection at once. The handler is not called any more."""
        ...

    async def run(self) -> None:
        """Run until the connection ends, and then release its resources.

        Must run in a task while the transport is used. Raises no errors. A cancellation closes the connection.
        """
        ...


def coalesce(chunks: Sequence[Buffer]) -> Sequence[Buffer]:
    """Return the same bytes in fewer buffers. Small adjacent buffers are joined, and large buffers are not copied."""
    if len(chunks) == 1:
        return chunks
    if sum(map(len, chunks)) <= JOINED_BYTES:
        return (b"".join(chunks),)
    buffers: list[Buffer] = []
    run: list[Buffer] = []
    run_bytes = 0
    for chunk in chunks:
        if run and run_bytes + len(chunk) > JOINED_BYTES:
            buffers.append(b"".join(run) if len(run) > 1 else run[0])
            run, run_bytes = [], 0
        run.append(chunk)
        run_bytes += len(chunk)
    buffers.append(b"".join(run) if len(run) > 1 else run[0])
    return buffers

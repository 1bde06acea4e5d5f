"""The interface of a transport, independent of event loop and security."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...._wire import Buffer
from ....errors import KafkaError

JOINED_BYTES = 64 * 1024
"""Up to this size one copy is cheaper than another system call or TLS record."""


class TransportHandler(Protocol):
    """Receives the events of a transport, synchronously and on the event loop. These methods must not raise."""

    def on_frame(self, frame: Buffer, /) -> None:
        """Handle a complete frame without its length; the memory belongs to the receiver."""

    def on_writable(self) -> None:
        """Handle that all written data has gone to the operating system, after the transport was ``paused``."""

    def on_closed(self, error: KafkaError, /) -> None:
        """Handle the end of the connection, or an invalid stream. Called once at most, not after `Transport.close`."""


class Transport(Protocol):
    """An open byte stream that is split into frames."""

    @property
    def paused(self) -> bool:
        """True if written bytes still wait for the operating system: the peer is slower than this client."""
        ...

    def limit_frames(self, max_bytes: int) -> None:
        """Accept frames up to this length from now on."""
        ...

    def write(self, chunks: Sequence[Buffer], /) -> None:
        """Send the buffers, which must not change until then. Never blocks and never fails; see ``on_closed``."""
        ...

    def close(self) -> None:
        """Drop the connection immediately: stop reading, and stop calling the handler."""
        ...

    async def run(self) -> None:
        """Work until the connection ends, then release its resources.

        Must run concurrently with the users of the transport; raises no errors of its own; closes when it is cancelled.
        """
        ...


def coalesce(chunks: Sequence[Buffer]) -> Sequence[Buffer]:
    """Return the same bytes in few buffers: small neighbours are joined, large buffers stay uncopied."""
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

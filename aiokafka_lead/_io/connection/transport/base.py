"""What a transport is to a connection, whichever event loop and security it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...._wire import Buffer
from ....errors import KafkaError

__all__ = ["Transport", "TransportHandler", "coalesce"]

JOINED_BYTES = 64 * 1024
"""Up to here one copy is cheaper than one more system call or TLS record."""


class TransportHandler(Protocol):
    """Gets what happens on a transport, synchronously and on the event loop. None of these may raise."""

    def on_frame(self, frame: Buffer, /) -> None:
        """A complete frame without its length; the memory belongs to the receiver."""

    def on_writable(self) -> None:
        """What was written has gone to the operating system after the transport was ``paused``."""

    def on_closed(self, error: KafkaError, /) -> None:
        """The connection ended, or the stream is garbage. Called at most once, and not after `Transport.close`."""


class Transport(Protocol):
    """An open byte stream that is cut into frames."""

    @property
    def paused(self) -> bool:
        """Whether written bytes still wait for the operating system: the peer is slower than this client."""
        ...

    def limit_frames(self, max_bytes: int) -> None:
        """Accept frames up to this length from now on."""
        ...

    def write(self, chunks: Sequence[Buffer], /) -> None:
        """Sends the buffers, which must not change until then. Never blocks and never fails; see ``on_closed``."""
        ...

    def close(self) -> None:
        """Drops the connection at once: nothing more is read, and the handler hears nothing more."""
        ...

    async def run(self) -> None:
        """Works until the connection ends, then gives back what the operating system lent.

        Must run beside the tasks that use the transport; raises nothing of its own; closes when it is cancelled.
        """
        ...


def coalesce(chunks: Sequence[Buffer]) -> Sequence[Buffer]:
    """The same bytes in few buffers: neighbours are joined as long as the result is small, large ones go uncopied."""
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

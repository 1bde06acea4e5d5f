"""Transport for asyncio and uvloop, which read directly into the memory of a frame, even with TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Sequence
from typing import cast

import anyio

from ...._core.connection.framing import FrameReader
from ...._forks import detach_in_children
from ...._wire import Buffer
from ....errors import KafkaError
from ...cancellation import to_the_end
from ...loop import Waiter
from .base import TransportHandler, coalesce, lost_error, tls_error
from .dial import AddressInfo, refuse_self, tune

ABORT_S = 1.0
"""Time limit in seconds for steps that take one iteration of the event loop."""


class AsyncioTransport(asyncio.BufferedProtocol):
    """A connection as an asyncio protocol. See `base.Transport`."""

    def __init__(self, handler: TransportHandler, max_frame_bytes: int) -> None:
        self.paused = False
        self._handler = handler
        self._reader = FrameReader(max_frame_bytes)
        self._transport: asyncio.Transport | None = None
        self._closed = False
        """True if the handler has been notified of the end or has requested it."""
        self._ended: Waiter[None] = Waiter()

    @staticmethod
    async def connect(address: AddressInfo) -> socket.socket:
        """Connect to an address, and return the non-blocking socket. Raises OSError."""
        family, sockaddr = address
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            tune(sock)
            detach_in_children(sock)
            await asyncio.get_running_loop().sock_connect(sock, sockaddr)
            refuse_self(sock)
        except BaseException:
            sock.close()
            raise
        return sock

    @staticmethod
    async def drop(connected: socket.socket) -> None:
        """Close the result of `connect`. Does not suspend."""
        connected.close()

    @classmethod
    async def open(
        cls,
        connected: socket.socket,
        host: str,
        *,
        ssl_context: ssl.SSLContext | None,
        handler: TransportHandler,
        max_frame_bytes: int,
    ) -> AsyncioTransport:
        """Open the stream on a connected socket. With ``ssl_context``, do the TLS handshake with ``host`` first.

        ``handler`` receives frames of at most ``max_frame_bytes``. Raises `KafkaError`.
        """
        protocol = cls(handler, max_frame_bytes)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: protocol, sock=connected, ssl=ssl_context, server_hostname=host if ssl_context else None
            )
        except (OSError, EOFError, ValueError) as error:
            protocol.close()
            raise tls_error(error, ssl_context) from error
        except BaseException:
            protocol.close()
            raise
        return protocol

    def limit_frames(self, max_bytes: int) -> None:
        self._reader.max_bytes = max_bytes

    def write(self, chunks: Sequence[Buffer], /) -> None:
        transport = self._transport
        if transport is None or self._closed or transport.is_closing():
            return  # Requests in flight fail when the event loop reports that the connection is lost.
        for buffer in coalesce(chunks):
            transport.write(buffer)

    def close(self) -> None:
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    async def run(self) -> None:
        try:
            await self._ended.wait()
        finally:
            self.close()
            if not self._ended.done:
                await to_the_end(self._wait_until_closed, "kafka socket's end")

    async def _wait_until_closed(self) -> None:
        """Wait until asyncio has closed the socket, which happens in one of the next iterations."""
        with anyio.move_on_after(ABORT_S):
            await self._ended.wait()

    # --- called by the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._closed:  # cancelled while asyncio was setting up the stream
            self._transport.abort()
            return
        # The transport counts as paused while the operating system has not accepted all data. asyncio's TLS pauses at
        # the high-water mark, not above it, so with a mark of 0 it would always be paused.
        self._transport.set_write_buffer_limits(high=1, low=0)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        for frame in self._reader.received(nbytes):
            if self._closed:  # by the handler of an earlier frame
                return
            self._handler.on_frame(frame)
        if self._reader.error is not None:
            self._end(self._reader.error)

    def eof_received(self) -> bool:
        return False  # close, because the broker has closed its side and cannot answer further requests

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if not self._closed:
            self._handler.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set_result(None)
        self._end(lost_error(exc))

    def _end(self, error: KafkaError) -> None:
        if not self._closed:
            self.close()
            self._handler.on_closed(error)

"""Transport for trio, through anyio."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Sequence

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.streams.tls import TLSStream

from ...._core.connection.framing import FrameReader
from ...._forks import detach_in_children
from ...._wire import Buffer
from ....errors import KafkaError
from ...loop import Signal, uninterrupted
from .base import TransportHandler, coalesce, lost_error, tls_error
from .dial import AddressInfo, refuse_self, tune

READ_BYTES = 64 * 1024
LARGE_READ_BYTES = 512 * 1024
"""Number of bytes to read at a time within a large frame."""

PAUSE_BYTES = 256 * 1024
"""With TLS, the transport counts as paused if it has more unsent bytes than this."""

_FOREIGN = (OSError, EOFError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class AnyioTransport:
    """A connection as an anyio stream. See `base.Transport`.

    Without TLS, as much data as possible is written directly to the socket, so most writes do not need the writing
    task.
    """

    def __init__(self, stream: ByteStream, handler: TransportHandler, max_frame_bytes: int) -> None:
        self.paused = False
        self._stream = stream
        self._handler = handler
        self._reader = FrameReader(max_frame_bytes)
        self._socket = _direct_socket(stream)
        self._outgoing: deque[memoryview] = deque()
        self._outgoing_bytes = 0
        self._pause_bytes = PAUSE_BYTES if self._socket is None else 0
        self._wake = Signal()
        self._scope = anyio.CancelScope()
        self._closed = False
        """True if the handler has been notified of the end or has requested it."""

    @staticmethod
    async def connect(address: AddressInfo) -> SocketStream:
        """Connect to an address, and return the stream. Raises OSError."""
        try:
            host, port, *more = address[1]
            scope = f"%{more[1]}" if more and more[1] else ""  # of a link-local address
            connected = await anyio.connect_tcp(host + scope, port)
        except OSError as error:
            # The cause of anyio's error is the operating system's error.
            raise error.__cause__ if isinstance(error.__cause__, OSError) else error from None
        raw = connected.extra(SocketAttribute.raw_socket)
        tune(raw)
        if isinstance(raw, socket.socket):
            detach_in_children(raw)
        try:
            refuse_self(raw)
        except ConnectionRefusedError:
            await anyio.aclose_forcefully(connected)
            raise
        return connected

    @staticmethod
    async def drop(connected: SocketStream) -> None:
        """Close a socket that `connect` returned and that is not needed."""
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(connected)

    @classmethod
    async def open(
        cls,
        connected: SocketStream,
        host: str,
        *,
        ssl_context: ssl.SSLContext | None,
        handler: TransportHandler,
        max_frame_bytes: int,
    ) -> AnyioTransport:
        """Open the stream on a connected socket. With ``ssl_context``, do the TLS handshake with ``host`` first.

        ``handler`` receives frames of at most ``max_frame_bytes``. Raises `KafkaError`.
        """
        if ssl_context is None:
            return cls(connected, handler, max_frame_bytes)
        try:
            stream = await TLSStream.wrap(
                connected, server_side=False, hostname=host, ssl_context=ssl_context, standard_compatible=False
            )
        except BaseException as error:
            await cls.drop(connected)
            if isinstance(error, (*_FOREIGN, ValueError)):
                raise tls_error(error, ssl_context) from error
            raise
        return cls(stream, handler, max_frame_bytes)

    def limit_frames(self, max_bytes: int) -> None:
        self._reader.max_bytes = max_bytes

    def write(self, chunks: Sequence[Buffer], /) -> None:
        if self._closed:
            return
        for buffer in coalesce(chunks):
            rest = memoryview(buffer)
            if self._socket is not None and not self._outgoing:
                rest = _send_now(self._socket, rest)
            if len(rest):
                self._outgoing.append(rest)
                self._outgoing_bytes += len(rest)
        if self._outgoing:
            self.paused = self._outgoing_bytes > self._pause_bytes
            self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._scope.cancel()

    async def run(self) -> None:
        try:
            with self._scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(uninterrupted(self._write_all))
                    await self._read_all()
                    group.cancel_scope.cancel()
        finally:
            self.close()
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(self._stream)

    async def _read_all(self) -> None:
        reader = self._reader
        try:
            while not self._closed:
                large = min(reader.missing_bytes, LARGE_READ_BYTES)
                self._hand_over(await self._stream.receive(max(READ_BYTES, large)))
        except _FOREIGN as error:
            self._end(lost_error(None if type(error) is anyio.EndOfStream else error))

    def _hand_over(self, data: bytes) -> None:
        """Pass frames to the handler.

        This is a separate function, because variables of the reading task would keep the last frame alive while it
        waits.
        """
        for frame in self._reader.feed(data):
            if self._closed:
                return
            self._handler.on_frame(frame)
        if self._reader.error is not None:
            self._end(self._reader.error)

    async def _write_all(self) -> None:
        try:
            while True:
                await self._wake.wait()
                while self._outgoing:
                    buffer = self._outgoing[0]
                    await self._stream.send(buffer)  # type: ignore[arg-type]
                    self._outgoing.popleft()
                    self._outgoing_bytes -= len(buffer)
                if self.paused:
                    self.paused = False
                    self._handler.on_writable()
        except _FOREIGN as error:
            self._end(lost_error(error))

    def _end(self, error: KafkaError) -> None:
        if not self._closed:
            self.close()
            self._handler.on_closed(error)


def _direct_socket(stream: ByteStream) -> socket.socket | None:
    """Return the operating system's socket, or None if bytes cannot be sent on it directly, for example with TLS."""
    if isinstance(stream, TLSStream):
        return None
    raw = stream.extra(SocketAttribute.raw_socket, None)
    return raw if isinstance(raw, socket.socket) and raw.gettimeout() == 0 else None


def _send_now(sock: socket.socket, data: memoryview) -> memoryview:
    """Send as much as the socket accepts without waiting. Return the rest."""
    try:
        return data[sock.send(data) :]
    except OSError:  # the socket would block, or is broken, which the writing task notices
        return data

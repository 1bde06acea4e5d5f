"""Sockets of connections: asyncio protocols, which are fast, and anyio streams on other event loops.

Both pass frames to a `ServerConnection` and send its output, without a task per request.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
from collections.abc import Callable
from typing import Any, cast

import anyio.abc
import anyio.lowlevel
from anyio.streams.stapled import MultiListener
from anyio.streams.tls import TLSAttribute, TLSStream

from ..._forks import detach_in_children
from ..._wire import Buffer
from ...errors import FrameTooLargeError
from .connection import ServerConnection, Transport
from .engine import BrokerOptions

_SCRATCH_BYTES = 65_536


class FrameReader:
    """Splits incoming bytes into frames, without I/O.

    Fill part of `buffer`, and pass the number of bytes to `advance`. Small frames are copied from a scratch buffer. A
    frame that does not fit into it is read into a buffer of its exact size. Returned frames never share memory.
    """

    __slots__ = ("_filled", "_large", "_large_filled", "_max_bytes", "_scratch")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._filled = 0
        # A frame that is too large for the scratch buffer, while it arrives.
        self._large: bytearray | None = None
        self._large_filled = 0

    def buffer(self) -> memoryview:
        """Return the buffer for the next bytes, which is never empty."""
        if self._large is not None:
            return memoryview(self._large)[self._large_filled :]
        return memoryview(self._scratch)[self._filled :]

    def advance(self, count: int) -> list[bytes | bytearray]:
        """Process ``count`` bytes in `buffer`, and return the frames that are now complete.

        Raises FrameTooLargeError.
        """
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
                raise FrameTooLargeError(f"a frame has {size} bytes, more than the broker accepts")
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
        """Process bytes in a separate buffer, like `advance`."""
        frames: list[bytes | bytearray] = []
        view = memoryview(data)
        while view:
            target = self.buffer()
            count = min(len(target), len(view))
            target[:count] = view[:count]
            view = view[count:]
            frames += self.advance(count)
        return frames


_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with time 0, with which closing sends a reset, as if the process had been killed."""

_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ssl.SSLError)
"""Errors that mean that the client has closed the connection. With TLS, a send may also raise EndOfStream."""

_HIGH_WATER_BYTES = 1_048_576
"""Maximum number of unsent bytes for a client. If there are more, the client's requests are not served."""

_ACCEPT_PAUSE_S = 1.0
"""Seconds without accepting after the operating system had no free file descriptor (as in asyncio's server)."""

_TLS_HANDSHAKE_S = 30.0

_CLOSE_ROUNDS = 10
"""Maximum number of loop iterations to wait for asyncio to close a socket, which takes one or two."""

_CLOSE_S = 1.0
"""The same limit in seconds."""

_Sockets = MultiListener[anyio.abc.SocketStream]

Connect = Callable[[Transport, str], ServerConnection]
"""Creates the connection for an accepted socket. The str is the address of the client."""


async def listen(
    host: str,
    port: int,
    options: BrokerOptions,
    connect: Connect,
    task_group: anyio.abc.TaskGroup,
) -> Listener:
    """Listen on an address and pass each connection to ``connect``. Port 0 means any free port."""
    sockets = await anyio.create_tcp_listener(local_host=host, local_port=port, backlog=1024)
    for each in sockets.listeners:
        detach_in_children(each.extra(anyio.abc.SocketAttribute.raw_socket))
    kind = _SocketAdmission if running_backend() == "asyncio" else _StreamAdmission
    listener = Listener(sockets, kind(options, connect, task_group))
    task_group.start_soon(listener.serve)
    return listener


class Listener:
    """Listening sockets, and the tasks that set up connections."""

    def __init__(self, sockets: _Sockets, admission: _Admission) -> None:
        self.port: int = sockets.extra(anyio.abc.SocketAttribute.local_port)
        self._sockets = sockets
        self._admission = admission
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()

    async def serve(self) -> None:
        """Accept connections until closed or cancelled, and then close the listening sockets."""
        try:
            with self._scope:
                async with anyio.create_task_group() as arrivals:
                    await self._admission.accept(self._sockets, arrivals)
        finally:
            # Set this here, because asyncio's Task.cancel may interrupt tasks that wait in close().
            with anyio.CancelScope(shield=True):
                await self._sockets.aclose()
            self._ended.set()

    async def close(self) -> None:
        """Stop listening, and drop sockets that are not connections yet. Connections stay open."""
        self._scope.cancel()
        await self._ended.wait()


class _Admission:
    """Accepts sockets and turns them into connections.

    An accepted socket belongs to a task, which closes the socket if it is cancelled. This is a task in ``arrivals``
    until the connection is set up, including TLS, and then a task in ``task_group``.
    """

    def __init__(
        self,
        options: BrokerOptions,
        connect: Connect,
        task_group: anyio.abc.TaskGroup,
    ) -> None:
        self._options = options
        self._connect = connect
        self._task_group = task_group

    async def accept(self, sockets: _Sockets, arrivals: anyio.abc.TaskGroup) -> None:
        """Accept connections in tasks of ``arrivals``, until these are cancelled."""
        raise NotImplementedError


def _peer_name(address: Any) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)


_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
}


def _subject(certificate: Any) -> str | None:
    """Return the subject of the client's certificate as a principal (RFC 2253), or None without a certificate."""
    if not certificate:
        return None
    names = [name for part in certificate["subject"] for name in part]
    return ",".join(f"{_SHORT.get(kind, kind)}={value}" for kind, value in reversed(names))


def _reset_when_closed(raw_socket: Any) -> None:
    raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


# --- asyncio ---------------------------------------------------------------------------------------------------------


class _SocketAdmission(_Admission):
    """Accepts sockets without asyncio's server.

    When asyncio's server is closed, accepted sockets that are not connections yet stay open without an owner (CPython's
    gh-109564), and TLS handshakes continue.
    """

    async def accept(self, sockets: _Sockets, arrivals: anyio.abc.TaskGroup) -> None:
        for listener in sockets.listeners:
            arrivals.start_soon(self._accept, listener.extra(anyio.abc.SocketAttribute.raw_socket), arrivals)

    async def _accept(self, listening: socket.socket, arrivals: anyio.abc.TaskGroup) -> None:
        # Do not use the loop's sock_accept, which loses a socket that it accepts while being cancelled.
        while True:
            await anyio.wait_readable(listening)
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, ConnectionError):  # the client has disconnected again
                continue
            except OSError:  # no free file descriptors, so clients wait until some are free
                await anyio.sleep(_ACCEPT_PAUSE_S)
            else:
                accepted.setblocking(False)
                detach_in_children(accepted)
                arrivals.start_soon(self._admit, accepted)

    async def _admit(self, accepted: socket.socket) -> None:
        protocol = _Protocol(self._connect, self._options.max_frame_bytes)
        loop = asyncio.get_running_loop()
        context = self._options.ssl_context
        try:
            await loop.connect_accepted_socket(
                lambda: protocol,
                accepted,
                ssl=context,
                ssl_handshake_timeout=None if context is None else _TLS_HANDSHAKE_S,
            )
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await _wait_closed(accepted)
            if not isinstance(error, OSError):  # the client has disconnected or does not speak TLS
                raise
        else:
            self._task_group.start_soon(protocol.run)


async def _wait_closed(dropped: socket.socket) -> None:
    """Wait until asyncio has closed the socket of a dropped transport."""
    for _ in range(_CLOSE_ROUNDS):
        if dropped.fileno() < 0:
            return
        await anyio.lowlevel.checkpoint()


class _Protocol(asyncio.BufferedProtocol):
    """asyncio protocol that reads into the frame reader's buffers and serves requests in the same callback."""

    def __init__(self, connect: Connect, max_frame_bytes: int) -> None:
        self._connect = connect
        self._reader = FrameReader(max_frame_bytes)
        self._transport: asyncio.Transport | None = None
        self._connection: ServerConnection | None = None
        self._ended = anyio.Event()

    async def run(self) -> None:
        """Wait until the socket is closed. A cancellation closes it immediately."""
        assert self._transport is not None
        try:
            await self._ended.wait()
        finally:
            self._transport.abort()
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._ended.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._connection = self._connect(
            _AsyncioTransport(self._transport), _peer_name(transport.get_extra_info("peername"))
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        assert self._connection is not None
        try:
            frames = self._reader.advance(nbytes)
        except FrameTooLargeError as error:
            self._connection.refuse(error)
            return
        if frames:
            self._connection.frames_received(frames)

    def pause_writing(self) -> None:
        assert self._connection is not None
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        assert self._connection is not None
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()
        if self._connection is not None:
            self._connection.connection_lost()


class _AsyncioTransport:
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.certificate = _subject(transport.get_extra_info("peercert"))
        self.close = transport.close
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, chunks: list[Buffer]) -> None:
        if len(chunks) == 1:
            self._transport.write(chunks[0])
        else:
            # Do not use writelines, which does not pause writing before CPython 3.12.9 and 3.13.2 (gh-127655).
            self._transport.write(b"".join(chunks))

    def abort(self) -> None:
        raw_socket = self._transport.get_extra_info("socket")
        if raw_socket is not None and not self._transport.is_closing():
            _reset_when_closed(raw_socket)
        self._transport.abort()


# --- anyio streams ---------------------------------------------------------------------------------------------------


class _StreamAdmission(_Admission):
    async def accept(self, sockets: _Sockets, arrivals: anyio.abc.TaskGroup) -> None:
        await sockets.serve(self._admit, arrivals)

    async def _admit(self, accepted: anyio.abc.ByteStream) -> None:
        detach_in_children(accepted.extra(anyio.abc.SocketAttribute.raw_socket))
        stream = accepted
        context = self._options.ssl_context
        if context is not None:
            try:
                with anyio.fail_after(_TLS_HANDSHAKE_S):
                    stream = await TLSStream.wrap(
                        accepted, server_side=True, ssl_context=context, standard_compatible=False
                    )
            except BaseException as error:
                with anyio.CancelScope(shield=True):
                    await anyio.aclose_forcefully(accepted)
                if not isinstance(error, Exception):  # the client has disconnected or does not speak TLS
                    raise
                return
        self._task_group.start_soon(_StreamTransport(stream).serve, self._connect, self._options.max_frame_bytes)


class _StreamTransport:
    """Transport for a stream, with one task that reads and serves requests, and another that sends written bytes."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self.certificate = _subject(stream.extra(TLSAttribute.peer_certificate, None))
        self._outgoing: list[Buffer] = []
        # Unsent output, including the part being sent.
        self._outgoing_bytes = 0
        self._paused = False
        # Wakes the sending task, which waits for it while there is no output.
        self._wake = anyio.Event()
        self._may_read: anyio.Event | None = None
        self._closing = False
        self._scope = anyio.CancelScope()
        self._connection: ServerConnection | None = None

    async def serve(self, connect: Connect, max_frame_bytes: int) -> None:
        peer = _peer_name(self._stream.extra(anyio.abc.SocketAttribute.remote_address, ""))
        self._connection = connect(self, peer)
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._send)
                    await self._receive(FrameReader(max_frame_bytes))
                    tasks.cancel_scope.cancel()
        finally:
            self._connection.connection_lost()
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(self._stream)

    async def _receive(self, reader: FrameReader) -> None:
        assert self._connection is not None
        while True:
            if self._may_read is not None:
                await self._may_read.wait()
            try:
                data = await self._stream.receive()
            except _GONE:
                return
            try:
                frames = reader.feed(data)
            except FrameTooLargeError as error:
                self._connection.refuse(error)
                return
            if frames:
                self._connection.frames_received(frames)

    async def _send(self) -> None:
        assert self._connection is not None
        while True:
            while self._outgoing:
                chunks, self._outgoing = self._outgoing, []
                try:
                    await self._stream.send(b"".join(chunks))
                except _GONE:
                    self._scope.cancel()
                    return
                self._outgoing_bytes = sum(len(chunk) for chunk in self._outgoing)
                if self._paused and self._outgoing_bytes <= _HIGH_WATER_BYTES:
                    self._paused = False
                    self._connection.resume_writing()
            if self._closing:
                self._scope.cancel()
                return
            self._wake = anyio.Event()
            await self._wake.wait()

    def write(self, chunks: list[Buffer]) -> None:
        self._outgoing += chunks
        self._outgoing_bytes += sum(len(chunk) for chunk in chunks)
        self._wake.set()
        if self._outgoing_bytes > _HIGH_WATER_BYTES and not self._paused and self._connection is not None:
            self._paused = True
            self._connection.pause_writing()

    def close(self) -> None:
        self._closing = True
        self._wake.set()

    def abort(self) -> None:
        raw_socket = self._stream.extra(anyio.abc.SocketAttribute.raw_socket, None)
        if raw_socket is not None:
            _reset_when_closed(raw_socket)
        self._scope.cancel()

    def pause_reading(self) -> None:
        if self._may_read is None:
            self._may_read = anyio.Event()

    def resume_reading(self) -> None:
        if self._may_read is not None:
            self._may_read.set()
            self._may_read = None


def running_backend() -> str | None:
    """Return ``"asyncio"``, ``"trio"`` or None.

    trio is checked first, because it may run in guest mode on an asyncio loop.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return "trio"
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return None
    return "asyncio"

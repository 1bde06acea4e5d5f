"""An event loop on virtual time, whose connections are memory: time passes only when there is nothing else to do."""

from __future__ import annotations

import asyncio
import itertools
import select
import socket
from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from anyio._backends._asyncio import CancelScope

from .plain import clock

TURN_S = 1e-6
"""Time that one iteration of the loop takes."""

TURNS_AT_ONCE = 20_000
"""Bound for iterations of the loop without a wait."""

END = b""
"""The end of a stream, in the place of its bytes."""

_BEHIND_S = 1e-6
"""Least time between two arrivals on one stream, which keeps their order."""


class StuckError(AssertionError):
    """No further event is possible, or time does not advance."""


class Network:
    """Delays of the network, and its unreachable ports."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.longest_s = 0.003
        self.silent: set[int] = set()
        """Ports at which connects get no answer."""
        self.stalled: set[tuple[int, bool]] = set()
        """Ports to which, and (True) from which, no bytes arrive, although connections stay open."""
        self.ends: list[End] = []

    def delay_s(self) -> float:
        """Return a one-way delay."""
        return self._rng.uniform(0.0002, self.longest_s)

    def heal(self) -> None:
        """End all faults; delayed bytes arrive."""
        self.silent.clear()
        self.stalled.clear()
        for end in self.ends:
            end.resume_way()


class End(asyncio.Transport):
    """One end of a connection to a port."""

    def __init__(self, loop: VirtualLoop, protocol: asyncio.BufferedProtocol, port: int, *, server: bool) -> None:
        super().__init__({"peername": ("127.0.0.1", port)})
        self.peer: End | None = None
        self._loop = loop
        self._protocol = protocol
        self._way = port, server
        self._held: list[bytes] = []
        """Sent bytes that are delivered once there is a path."""
        self._inbox: deque[bytes] = deque()
        self._arrives_at = 0.0
        self._reading = True
        self._closing = False
        self._lost = False

    # --- sending -----------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if not self._closing and data:
            self._send(bytes(data))

    def _send(self, chunk: bytes) -> None:
        if self._held or self.peer is None or self._way in self._loop.network.stalled:
            self._held.append(chunk)
        else:
            self._put_on_way(self.peer, chunk)

    def _put_on_way(self, peer: End, chunk: bytes) -> None:
        loop = self._loop
        self._arrives_at = max(loop.time() + loop.network.delay_s(), self._arrives_at + _BEHIND_S)
        loop.call_at(self._arrives_at, peer.arrive, chunk)

    def join(self, peer: End) -> None:
        """Begin to deliver to the other end."""
        self.peer = peer
        self.resume_way()

    def resume_way(self) -> None:
        """Send the delayed bytes."""
        held, self._held = self._held, []
        for chunk in held:
            self._send(chunk)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def arrive(self, chunk: bytes) -> None:
        """Note that bytes, or the end, have come."""
        self._inbox.append(chunk)
        self._deliver()

    def _deliver(self) -> None:
        while self._inbox and self._reading and not self._lost:
            chunk = self._inbox.popleft()
            if chunk == END:
                self._closing = True
                self._lose(ConnectionResetError("reset"))
                return
            buffer = memoryview(self._protocol.get_buffer(-1))
            taken = min(len(buffer), len(chunk))
            buffer[:taken] = chunk[:taken]
            if taken < len(chunk):
                self._inbox.appendleft(chunk[taken:])
            self._protocol.buffer_updated(taken)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return self._reading

    # --- the end -----------------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._send(END)
            self._loop.call_soon(self._lose, None)

    abort = close

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._loop.network.ends.remove(self)
            self._protocol.connection_lost(error)

    # --- the rest of a transport -------------------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: any amount is buffered."""

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol


class _Waits:
    """The loop's selector: moves the clock in place of waiting."""

    def __init__(self, ready: Callable[[], Iterable[asyncio.Handle]]) -> None:
        self._ready = ready
        self._turns = 0

    def select(self, timeout_s: float | None) -> list[Any]:
        if timeout_s is None:
            raise StuckError("nothing will happen any more")
        clock.now += timeout_s + TURN_S
        self._turns = 0 if timeout_s > TURN_S else self._turns + 1
        if self._turns > TURNS_AT_ONCE:
            raise StuckError(f"it does not come to rest: {[_described(handle) for handle in self._ready()]}")
        return []


def _described(handle: asyncio.Handle) -> str:
    """Describe a callback: for a task, the lines at which it waits, outermost first."""
    task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    if not isinstance(task, asyncio.Task):
        return repr(handle)
    lines: list[str] = []
    awaited: Any = task.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        lines.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        awaited = awaited.cr_await
    return f"{task.get_name()}: {' > '.join(lines)}"


_count = itertools.count()


class _Task(asyncio.Task[Any]):
    """A task whose place in a set follows from the order of tasks, and not from its address."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._number = next(_count)
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self._number


def _count_scopes() -> None:
    """Do the same for anyio's cancel scopes, which have no place for a number."""
    numbers: dict[int, int] = {}
    begin = CancelScope.__init__

    def begin_counted(scope: CancelScope, **options: Any) -> None:
        numbers[id(scope)] = next(_count)
        begin(scope, **options)

    CancelScope.__init__ = begin_counted  # type: ignore[method-assign,assignment]
    CancelScope.__hash__ = lambda self: numbers[id(self)]  # type: ignore[method-assign]


_count_scopes()


class VirtualLoop(asyncio.BaseEventLoop):
    """Listening sockets are the operating system's, so that servers need no change; accepted ones lead to memory."""

    _ready: deque[asyncio.Handle]

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.network = Network(Random(seed))
        self._selector = _Waits(lambda: self._ready)
        self.set_task_factory(lambda loop, coroutine, **options: _Task(coroutine, loop=loop, **options))
        self._clock_resolution = 1e-9
        self._listening: dict[int, Callable[[], None]] = {}
        self._ports: dict[socket.socket, int] = {}
        self._unmatched: dict[Any, End] = {}
        """Unconnected ends, by the client's address."""

    def time(self) -> float:
        return clock.now

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        return socket.getaddrinfo(host, port, **options)

    # --- listening sockets -------------------------------------------------------------------------------------------

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:  # type: ignore[override]
        self._listening[fd] = callback
        if select.select([fd], [], [], 0)[0]:
            self.call_soon(self._readable, fd)

    def remove_reader(self, fd: Any) -> bool:
        return self._listening.pop(fd, None) is not None

    def _readable(self, fd: int) -> None:
        callback = self._listening.get(fd)
        if callback is not None:
            callback()

    # --- connections -------------------------------------------------------------------------------------------------

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        port = address[1]
        await asyncio.sleep(self.network.delay_s())
        if port in self.network.silent:
            await self.create_future()
        sock.setblocking(True)
        sock.connect(address)
        sock.setblocking(False)
        self._ports[sock] = port
        for fd in list(self._listening):
            self.call_soon(self._readable, fd)
        await asyncio.sleep(self.network.delay_s())

    async def create_connection(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        sock = options["sock"]
        protocol = protocol_factory()
        return self._join(protocol, sock, sock.getsockname(), self._ports.pop(sock), server=False), protocol

    async def connect_accepted_socket(self, protocol_factory: Any, sock: socket.socket, **options: Any) -> Any:
        protocol = protocol_factory()
        return self._join(protocol, sock, sock.getpeername(), sock.getsockname()[1], server=True), protocol

    def _join(self, protocol: Any, sock: socket.socket, key: Any, port: int, *, server: bool) -> End:
        sock.close()
        end = End(self, protocol, port, server=server)
        self.network.ends.append(end)
        other = self._unmatched.pop(key, None)
        if other is None:
            self._unmatched[key] = end
        protocol.connection_made(end)
        if other is not None:
            end.join(other)
            other.join(end)
        return end

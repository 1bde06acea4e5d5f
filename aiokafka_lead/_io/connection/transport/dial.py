"""Connects to a name with happy eyeballs (RFC 8305) over its current addresses.

asyncio's ``create_connection`` does the same, but not on uvloop; anyio does on every loop. Neither considers earlier
failures or reports the result of each address.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import chain, zip_longest
from typing import Any, Protocol, TypeVar

import anyio
from anyio.lowlevel import RunVar

from ....errors import KafkaConnectionError, UnresolvedHostError
from ....errors.shown import shown
from ...loop import uninterrupted
from ...threads import BlockingCalls
from .errors import connect_error

S = TypeVar("S")

ATTEMPT_DELAY_S = 0.25
"""Head start of an address before the next address is tried in parallel (RFC 8305, section 5)."""

_KEEPALIVE = tuple(
    (getattr(socket, name), value)
    for name, value in (
        ("TCP_KEEPIDLE", 60),  # seconds before the first probe
        ("TCP_KEEPALIVE", 60),  # the same on macOS
        ("TCP_KEEPINTVL", 10),  # seconds between probes
        ("TCP_KEEPCNT", 6),  # number of probes
    )
    if hasattr(socket, name)
)
"""Options of keepalive, as far as the operating system has them."""

PORT_MAX = 65_535
HOST_CHARACTERS = 253
"""Maximum length of a DNS name (RFC 1035)."""

_AT_ONCE = 16
"""Number of names that are looked up at the same time in an event loop."""

_look_ups: RunVar[BlockingCalls] = RunVar("aiokafka_lead look-ups")

AddressInfo = tuple[socket.AddressFamily, Any]
"""Family of a socket, and the argument of its ``connect``."""


class Progress(Protocol):
    """Receives the result of each address."""

    def begin(self, address: str, /) -> None: ...

    def refused(self, address: str, error: KafkaConnectionError, /) -> None: ...


async def resolve(host: str, port: int) -> dict[str, AddressInfo]:
    """Return the name's current addresses, in the resolver's order, with alternating families (RFC 8305, section 4).

    Raises `KafkaConnectionError`.
    """
    check_endpoint(host, port)
    try:
        infos = _numeric(host, port) or await _looked_up(host, port)
    except (OSError, UnicodeError) as error:
        raise connect_error(error) from error
    except KafkaConnectionError as error:
        raise UnresolvedHostError(f"cannot connect: {error.message}") from error
    families = [[info for info in infos if info[0] == family] for family in dict.fromkeys(info[0] for info in infos)]
    return {info[4][0]: (info[0], info[4]) for info in chain(*zip_longest(*families)) if info is not None}


async def _looked_up(host: str, port: int) -> list[Any]:
    """Ask the operating system's resolver.

    If name servers are silent, it blocks for up to a minute, and nothing can interrupt it. ``asyncio.run`` would wait
    for a thread of the event loop's own executor that long.
    """
    try:
        calls = _look_ups.get()
    except LookupError:
        calls = BlockingCalls("look-ups of names", _AT_ONCE)
        _look_ups.set(calls)
    return await calls.run(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))


def check_endpoint(host: str, port: int) -> None:
    """Raise `KafkaConnectionError` for an invalid host or port, which may come from brokers' answers.

    Operating systems would use port 70000 as 4464, and a line feed would end a header of a request to a proxy.
    """
    if not 0 < port <= PORT_MAX or not 0 < len(host) <= HOST_CHARACTERS or not host.isprintable() or " " in host:
        raise KafkaConnectionError(f"cannot connect: {shown(host)}:{port} is no address")


def _numeric(host: str, port: int) -> list[Any]:
    """Return the address of a numeric host, without a thread; an empty list for a name."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


async def race(
    addresses: Mapping[str, AddressInfo],
    connect: Callable[[AddressInfo], Awaitable[S]],
    drop: Callable[[S], Awaitable[None]],
    progress: Progress,
) -> tuple[str, S]:
    """Return the first address that accepts, and the connection. Each address has a head start over the next.

    If no address accepts, raises the `KafkaConnectionError` of the first that refused.
    """
    winner: list[tuple[str, S]] = []
    errors: list[KafkaConnectionError] = []

    def refused(address: str, error: KafkaConnectionError) -> None:
        errors.append(error)
        progress.refused(address, error)

    async def attempt(address: str) -> None:
        progress.begin(address)
        try:
            connected = await connect(addresses[address])
        except OSError as error:
            refusal = connect_error(error)
            refusal.__cause__ = error
            refused(address, refusal)
            return
        except KafkaConnectionError as error:
            refused(address, error)
            return
        if winner:
            await drop(connected)
        else:
            winner.append((address, connected))

    async def attempt_beside(address: str, over: anyio.Event) -> None:
        await attempt(address)
        if winner:
            group.cancel_scope.cancel()
        else:
            over.set()

    try:
        if len(addresses) == 1:  # without tasks, which might not start at the end of an event loop
            await attempt(*addresses)
        else:
            async with anyio.create_task_group() as group:
                for address in addresses:
                    over = anyio.Event()
                    group.start_soon(uninterrupted(attempt_beside), address, over)
                    with anyio.move_on_after(ATTEMPT_DELAY_S):
                        await over.wait()
    except BaseException:
        for _, connected in winner:
            await drop(connected)
        raise
    if not winner:
        raise errors[0] if errors else connect_error(None)
    return winner[0]


def tune(sock: socket.socket) -> None:
    """Disable delays of small requests, and enable keepalive.

    Keepalive detects a vanished peer, and keeps load balancers from dropping an idle connection. They do so after a few
    minutes, some without a sign, while operating systems send the first probe after two hours.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for number, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, number, value)


def refuse_self(sock: socket.socket) -> None:
    """Raise ConnectionRefusedError if the socket is connected to itself.

    TCP does this if a port of this host has no listener and the system chooses the same port as the socket's local
    port. Requests would come back as answers, and a restarting broker could not bind its port.
    """
    try:
        peer = sock.getpeername()
    except OSError:
        return  # the connection is lost already, as the transport will report
    if sock.getsockname() == peer:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

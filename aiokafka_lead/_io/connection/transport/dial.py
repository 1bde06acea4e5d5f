"""Connections to a host with Happy Eyeballs (RFC 8305), using its current addresses.

asyncio's ``create_connection`` also does this, except on uvloop. anyio does it on every event loop. But neither
considers earlier failures or reports the result of each address.
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
from .base import connect_error

S = TypeVar("S")

ATTEMPT_DELAY_S = 0.25
"""Seconds after which the next address is tried in parallel (RFC 8305, section 5)."""

_KEEPALIVE = tuple(
    (getattr(socket, name), value)
    for name, value in (
        ("TCP_KEEPIDLE", 60),  # seconds until the first probe
        ("TCP_KEEPALIVE", 60),  # the same on macOS
        ("TCP_KEEPINTVL", 10),  # seconds between probes
        ("TCP_KEEPCNT", 6),  # number of probes
    )
    if hasattr(socket, name)
)
"""The keepalive options that the operating system supports."""

PORT_MAX = 65_535
HOST_CHARACTERS = 253
"""Maximum length of a DNS name (RFC 1035)."""

_AT_ONCE = 16
"""Maximum number of names that an event loop resolves at the same time."""

_look_ups: RunVar[BlockingCalls] = RunVar("aiokafka_lead look-ups")

AddressInfo = tuple[socket.AddressFamily, Any]
"""The family of a socket, and the argument for its ``connect``."""


class Progress(Protocol):
    """Follows the attempts to connect to each address of a host."""

    def begin(self, address: str, /) -> None: ...

    def refused(self, address: str, error: KafkaConnectionError, /) -> None: ...


async def resolve(host: str, port: int) -> dict[str, AddressInfo]:
    """Return the host's current addresses in the resolver's order, with alternating families (RFC 8305, section 4).

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
    """Resolve a name with the operating system's resolver.

    If name servers do not respond, the resolver blocks for up to a minute and cannot be interrupted. ``asyncio.run``
    would wait all of that time for a thread of the event loop's own executor.
    """
    try:
        calls = _look_ups.get()
    except LookupError:
        calls = BlockingCalls("look-ups of names", _AT_ONCE)
        _look_ups.set(calls)
    return await calls.run(partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))


def check_endpoint(host: str, port: int) -> None:
    """Raise `KafkaConnectionError` for an invalid host or port, which may come from a broker's response.

    Operating systems would use port 70000 as 4464, and a line feed would end the header of a request to a proxy.
    """
    if not 0 < port <= PORT_MAX or not 0 < len(host) <= HOST_CHARACTERS or not host.isprintable() or " " in host:
        raise KafkaConnectionError(f"cannot connect: {shown(host)}:{port} is not a valid address")


def _numeric(host: str, port: int) -> list[Any]:
    """Return the address of a numeric host, or an empty list if the host is a name. No thread is needed."""
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
    """Return the first address that accepts, and the connection. Each address has a head start over the next one.

    If no address accepts, raises the `KafkaConnectionError` of the first address that refused.
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
        if len(addresses) == 1:  # without tasks, which might not start while an event loop is ending
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
    """Disable the delay of small packets, and enable keepalive.

    Keepalive detects a peer that has vanished. It also prevents load balancers from dropping an idle connection, which
    they do after a few minutes, some without telling either side. By default, operating systems send the first probe
    only after two hours.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for number, value in _KEEPALIVE:
        sock.setsockopt(socket.IPPROTO_TCP, number, value)


def refuse_self(sock: socket.socket) -> None:
    """Raise ConnectionRefusedError if the socket is connected to itself.

    TCP allows this if no process is listening on the port of this host and the system chooses the same port as the
    socket's local port. Requests would then come back as responses, and a restarting broker could not bind its port.
    """
    try:
        peer = sock.getpeername()
    except OSError:
        return  # the connection is already lost, which the transport reports
    if sock.getsockname() == peer:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

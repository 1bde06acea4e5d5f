"""Connecting on asyncio by name: happy eyeballs (RFC 8305) over everything that the name resolves to now.

``create_connection`` would do this for asyncio's own loops, but not on uvloop; and it reports many refused addresses as
one opaque text.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

import anyio

from ...forks import detach_in_children
from .errors import connect_error

__all__ = ["dial", "race", "tune"]

ATTEMPT_DELAY_S = 0.25
"""How long an address has for itself until the next one is tried beside it (RFC 8305, section 5)."""

AddressInfo = tuple[socket.AddressFamily, Any]


async def dial(host: str, port: int) -> socket.socket:
    """A connected socket, not blocking, from the first address that accepts; `KafkaConnectionError` if none does."""
    try:
        addresses = _numeric(host, port) or await _resolve(host, port)
    except (OSError, UnicodeError) as error:
        raise connect_error([error]) from error
    return await race(_interleave(addresses))


def _numeric(host: str, port: int) -> list[AddressInfo]:
    """The address that the host is already; nothing for a name. Spares the event loop's thread for names."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [(info[0], info[4]) for info in infos]


async def _resolve(host: str, port: int) -> list[AddressInfo]:
    infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(info[0], info[4]) for info in infos]


async def race(addresses: Sequence[AddressInfo]) -> socket.socket:
    """A socket connected to the first address that accepts, each of them getting a head start over the next."""
    if len(addresses) == 1:  # no race, and no task that the end of an event loop might keep from starting
        try:
            return await _connect(addresses[0])
        except OSError as error:
            raise connect_error([error]) from error
    winner: list[socket.socket] = []
    errors: list[BaseException] = []

    async def attempt(address: AddressInfo, over: anyio.Event) -> None:
        try:
            connected = await _connect(address)
        except OSError as error:
            errors.append(error)
            over.set()
            return
        if winner:
            connected.close()
        else:
            winner.append(connected)
            group.cancel_scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            for address in addresses:
                over = anyio.Event()
                group.start_soon(attempt, address, over)
                if address is not addresses[-1]:
                    with anyio.move_on_after(ATTEMPT_DELAY_S):
                        await over.wait()
    except BaseException:
        for connected in winner:
            connected.close()
        raise
    if not winner:
        raise connect_error(errors) from (errors[0] if errors else None)
    return winner[0]


async def _connect(address: AddressInfo) -> socket.socket:
    family, sockaddr = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        tune(sock)
        detach_in_children(sock)
        await asyncio.get_running_loop().sock_connect(sock, sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock


def tune(sock: socket.socket) -> None:
    """No delay for small requests; a peer that vanished without a word is found out in the end."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _interleave(addresses: Sequence[AddressInfo]) -> list[AddressInfo]:
    """The resolver's order, its families taking turns (RFC 8305, section 4)."""
    families = dict.fromkeys(family for family, _ in addresses)
    lanes = [[address for address in addresses if address[0] == family] for family in families]
    return [address for address in chain.from_iterable(zip_longest(*lanes)) if address is not None]

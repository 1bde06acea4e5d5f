"""A path from one client to all brokers that can be cut: bytes then wait, and connections stay open.

It counts the client's requests, and can lose the answer to a request, deliver a request late, or redirect the path to
one broker to another.

The proxy replaces brokers' addresses in responses with its own addresses.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka_lead._wire import ApiKey, decode_response, encode_response, request_class

from ..tcp_proxy import TcpProxy

_NAMES_BROKERS = {
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.DESCRIBE_CLUSTER,
}
"""APIs whose answers contain brokers' addresses."""

_ENDPOINTS = ("brokers", "coordinators", "node_endpoints")
"""The fields that contain them, unless they are at the top level of the answer."""

LATE_S = 0.3
"""Delay of a request that is delivered late, in seconds."""


class CutProxy(TcpProxy):
    """Listens on a port for each broker, in a separate thread, while used as a context manager."""

    def __init__(self, brokers: str) -> None:
        super().__init__()
        self._brokers = brokers.split(",")
        self._ports: dict[str, int] = {}
        """Own ports by the brokers' ports, as texts."""
        self._open = asyncio.Event()
        self._astray: dict[int, tuple[str, int]] = {}
        """Targets of redirected paths, by the brokers' ports."""
        self._clients: dict[int, set[asyncio.StreamWriter]] = {}
        """Open connections by the port of the intended broker."""
        self.asked: Counter[tuple[int, int]] = Counter()
        """Number of requests of each API and version."""
        self.loses: Callable[[int], bool] = _no
        """Returns True to lose the answer to a request of this API, with its connection."""
        self.delays: Callable[[int], bool] = _no
        """Returns True to delay a request of this API by `LATE_S`, while the client loses its connection."""
        self._to_hold: int | None = None
        self._released = asyncio.Event()

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap servers for a client."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    def cut(self) -> None:
        """Block all traffic."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def heal(self) -> None:
        """Let traffic through again, waiting bytes first."""
        self._loop.call_soon_threadsafe(self._open.set)

    def hold(self, api: int) -> None:
        """Hold the next request of this API until `release`, while the client loses its connection."""
        self._released.clear()
        self._to_hold = api

    def release(self) -> None:
        """Deliver the held request."""
        self._loop.call_soon_threadsafe(self._released.set)

    def lead(self, broker: str, to: str | None) -> None:
        """Redirect the path to a broker to another address, or (None) back, and cut its open connections."""
        _, _, port = broker.rpartition(":")

        def lead() -> None:
            if to is None:
                self._astray.pop(int(port), None)
            else:
                host, _, other = to.rpartition(":")
                self._astray[int(port)] = host, int(other)
            for writer in self._clients.pop(int(port), ()):
                writer.close()

        self._loop.call_soon_threadsafe(lead)

    async def _start(self) -> None:
        self._open.set()
        for broker in self._brokers:
            host, _, port = broker.rpartition(":")
            server = await asyncio.start_server(self._handler(host, int(port)), "127.0.0.1", 0)
            self._servers.append(server)
            self._ports[port] = server.sockets[0].getsockname()[1]

    def _handler(self, host: str, port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self._open.wait()
                from_broker, broker = await asyncio.open_connection(*self._astray.get(port, (host, port)))
            except (OSError, asyncio.CancelledError):
                writer.close()
                return
            self._clients.setdefault(port, set()).add(writer)
            asked: dict[int, tuple[int, int]] = {}
            self._begin(self._pump(reader, broker, lambda frame: self._noted(frame, asked, writer)), broker)
            self._begin(self._pump(from_broker, writer, lambda frame: self._rewritten(frame, asked)), writer)

        return handle

    async def _noted(self, frame: bytes, asked: dict[int, tuple[int, int]], to_client: asyncio.StreamWriter) -> bytes:
        api, version, correlation_id = struct.unpack_from(">hhi", frame)
        asked[correlation_id] = api, version
        self.asked[api, version] += 1
        if api == self._to_hold:
            self._to_hold = None
            to_client.close()
            await self._released.wait()
        elif self.delays(api):
            to_client.close()
            await asyncio.sleep(LATE_S)
        return frame

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Callable[[bytes], Awaitable[bytes]]
    ) -> None:
        try:
            while True:
                prefix = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">i", prefix)[0])
                await self._open.wait()
                frame = await seen(frame)
                writer.write(struct.pack(">i", len(frame)) + frame)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass

    async def _rewritten(self, frame: bytes, asked: dict[int, tuple[int, int]]) -> bytes:
        api, version = asked.pop(struct.unpack_from(">i", frame)[0])
        if self.loses(api):
            raise ConnectionAbortedError
        if api not in _NAMES_BROKERS:
            return frame
        correlation_id, response = decode_response(request_class(api).RESPONSE, version, memoryview(frame))
        named: list[Any] = [response]
        for field in _ENDPOINTS:
            named += getattr(response, field, ())
        for each in named:
            if str(getattr(each, "port", None)) in self._ports:
                each.host, each.port = "127.0.0.1", self._ports[str(each.port)]
        return b"".join(encode_response(response, version, correlation_id))[4:]


def _no(api: int) -> bool:
    return False

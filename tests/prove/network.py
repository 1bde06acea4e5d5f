"""The network between clients and brokers: TCP through a proxy that can cause network faults."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio

from ..proxies import RealProxy
from ..tcp_proxy import TcpProxy

__all__ = ["KINDS", "Network", "ProxiedNetwork"]

KINDS = ("cut", "stall to broker", "stall to client", "trickle", "half-close", "misroute")
"""Faults of the path to a broker.

In this order: current and new connections are reset; bytes to the broker wait; bytes to the client wait; bytes come
slowly; the client receives the end of the stream but can still write; the path leads to another broker.
"""

_SLOW_BYTES, _SLOW_S = 256, 0.05
_CHUNK = 65_536


class _Way:
    """The path to one broker."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.leads_to = port
        self.is_cut = False
        self.is_slow = False
        self.open_to_broker = asyncio.Event()
        self.open_to_client = asyncio.Event()
        self.open_to_broker.set()
        self.open_to_client.set()
        self.writers: set[asyncio.StreamWriter] = set()
        """Writers of all connections: to clients and to brokers."""
        self.clients: set[asyncio.StreamWriter] = set()

    def reset(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class Network(TcpProxy):
    """Listens for each broker in a separate thread while used as a context manager. Methods may block briefly."""

    kinds = KINDS

    def __init__(self, ways: Mapping[int, tuple[int, int]], strangers: Mapping[int, int] | None = None) -> None:
        """Create a network. ``ways`` has the port for clients and the broker's port, by broker id.

        ``strangers`` has additional ports that a misrouted path may lead to, by unused broker ids.
        """
        self._ports = dict(ways)
        self._leads_to = {**{broker: port for broker, (_, port) in ways.items()}, **(strangers or {})}
        super().__init__()
        self._ways: dict[int, _Way] = {}

    def port(self, broker: int) -> int:
        """Return the port for clients of a broker."""
        return self._ports[broker][0]

    def strike(self, broker: int, kind: str, other: int) -> None:
        """Cause one of `KINDS` on a broker's path; ``other`` is the target of a misrouted path."""
        self._call(self._strike(self._ways[broker], kind, self._leads_to[other]))

    def heal(self) -> None:
        """Undo all faults: deliver waiting bytes, and reset misrouted connections."""
        self._call(self._heal())

    async def _start(self) -> None:
        for broker, (listens_at, port) in self._ports.items():
            way = self._ways[broker] = _Way(port)
            server = await asyncio.start_server(self._handler(way), "127.0.0.1", listens_at)
            self._servers.append(server)

    async def _strike(self, way: _Way, kind: str, elsewhere: int) -> None:
        if kind == "cut":
            way.is_cut = True
            way.reset()
        elif kind == "stall to broker":
            way.open_to_broker.clear()
        elif kind == "stall to client":
            way.open_to_client.clear()
        elif kind == "trickle":
            way.is_slow = True
        elif kind == "half-close":
            for client in way.clients:
                if client.can_write_eof() and not client.is_closing():
                    with suppress(OSError):  # the client has reset the connection
                        client.write_eof()
        else:
            assert kind == "misroute"
            way.leads_to = elsewhere
            way.reset()

    async def _heal(self) -> None:
        for way in self._ways.values():
            if way.leads_to != way.port:
                way.leads_to = way.port
                way.reset()
            way.is_cut = way.is_slow = False
            way.open_to_broker.set()
            way.open_to_client.set()

    def _handler(self, way: _Way) -> Any:
        async def handle(reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
            if way.is_cut:
                client.transport.abort()
                return
            try:
                from_broker, broker = await asyncio.open_connection("127.0.0.1", way.leads_to)
            except (OSError, asyncio.CancelledError):
                client.transport.abort()
                return
            way.clients.add(client)
            for source, sink, gate in (
                (reader, broker, way.open_to_broker),
                (from_broker, client, way.open_to_client),
            ):
                way.writers.add(sink)
                self._begin(self._pump(way, source, sink, gate), sink)

        return handle

    async def _pump(
        self, way: _Way, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        try:
            while data := await source.read(_CHUNK):
                await gate.wait()
                while way.is_slow and data:
                    sink.write(data[:_SLOW_BYTES])
                    data = data[_SLOW_BYTES:]
                    await asyncio.sleep(_SLOW_S)
                sink.write(data)
                await sink.drain()
        except (OSError, RuntimeError):  # RuntimeError: bytes for a client after its end of stream
            pass
        finally:
            way.writers.discard(sink)
            way.clients.discard(sink)


class ProxiedNetwork:
    """Like `Network`, for clients that reach all brokers through one of Debian's proxies, which is killed or frozen."""

    kinds = ("proxy SIGKILL", "proxy SIGSTOP")

    def __init__(self, proxy: RealProxy) -> None:
        self._proxy = proxy
        self._struck: str | None = None

    def strike(self, broker: int, kind: str, other: int) -> None:
        """Kill the proxy, or make it hang; the brokers are ignored."""
        self._struck = kind
        if kind == "proxy SIGKILL":
            self._proxy.kill()
        else:
            self._proxy.freeze()

    def heal(self) -> None:
        """Restart the proxy, or let it continue."""
        struck, self._struck = self._struck, None
        if struck == "proxy SIGKILL":
            anyio.run(self._proxy.start)
        elif struck is not None:
            self._proxy.thaw()

"""One embedded broker's presence on the network: its listener and its connections."""

from __future__ import annotations

import itertools

import anyio.abc

from .._state.cluster import BrokerNode
from .connection import ServerConnection, Transport
from .context import Handlers
from .engine import Engine
from .transports import Listener, listen

_CONNECTION_NUMBERS = itertools.count(1)


class BrokerServer:
    """Listens while the broker runs."""

    def __init__(
        self,
        engine: Engine,
        handlers: Handlers,
        node: BrokerNode,
        bind_host: str,
        task_group: anyio.abc.TaskGroup,
    ) -> None:
        self._engine = engine
        self._handlers = handlers
        self.node = node
        self._bind_host = bind_host
        self._task_group = task_group
        self._listener: Listener | None = None
        self._connections: set[ServerConnection] = set()
        self._shares = engine.share_broker(node.node_id)
        self.leads_to: BrokerServer | None = None
        """The broker that answers at this one's address; None while it does itself."""

    @property
    def connections(self) -> list[ServerConnection]:
        """The connections that are open."""
        return list(self._connections)

    async def start(self, port: int) -> int:
        """Listen; returns the port, which is another one only for 0."""
        options = self._engine.options
        self._listener = await listen(self._bind_host, port, options, self._accept, self._task_group)
        self.node.running = True
        return self._listener.port

    async def stop(self, *, reset: bool) -> None:
        """Stop listening, and close what is open: with a reset as a killed process does, or after what is written."""
        self.node.running = False
        self.node.fetch_sessions.clear()
        self._shares.clear()
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
        if reset:
            self.reset_connections()
        for connection in self.connections:
            connection.close()

    def reset_connections(self) -> None:
        """Reset what is open, as a proxy does that leads somewhere else from now on."""
        for connection in self.connections:
            connection.abort()

    def _accept(self, transport: Transport, peer: str) -> ServerConnection:
        return (self.leads_to or self).connect(transport, peer)

    def connect(self, transport: Transport, peer: str) -> ServerConnection:
        """Take a client's connection; it is reset at once when the broker does not run."""
        connection = ServerConnection(
            self._engine,
            self._handlers,
            self.node,
            next(_CONNECTION_NUMBERS),
            transport,
            peer,
            self._closed,
        )
        self._connections.add(connection)
        if not self.node.running:
            connection.abort()
        return connection

    def _closed(self, connection: ServerConnection) -> None:
        self._connections.discard(connection)
        self._shares.connection_lost(connection.number)

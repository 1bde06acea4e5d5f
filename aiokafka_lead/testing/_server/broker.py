"""The listener and the connections of an embedded broker."""

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
    """Listens for connections while the broker is running."""

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
        self._connections: dict[ServerConnection, None] = {}
        self._shares = engine.share_broker(node.node_id)
        self.leads_to: BrokerServer | None = None
        """Another broker that answers at the address of this broker, or None."""

    @property
    def connections(self) -> list[ServerConnection]:
        """The open connections of clients to this broker."""
        return list(self._connections)

    async def start(self, port: int) -> int:
        """Listen, and return the port. A ``port`` of 0 means any free port."""
        options = self._engine.options
        self._listener = await listen(self._bind_host, port, options, self._accept, self._task_group)
        self.node.running = True
        return self._listener.port

    async def stop(self, *, reset: bool) -> None:
        """Stop listening, and close the connections.

        They are closed after pending writes or, with ``reset``, immediately, as if the process had been killed.
        """
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
        """Reset open connections, like a proxy that changes its target."""
        for connection in self.connections:
            connection.abort()

    def _accept(self, transport: Transport, peer: str) -> ServerConnection:
        return (self.leads_to or self).connect(transport, peer)

    def connect(self, transport: Transport, peer: str) -> ServerConnection:
        """Accept a client's connection. Reset it immediately if the broker is not running."""
        connection = ServerConnection(
            self._engine,
            self._handlers,
            self.node,
            next(_CONNECTION_NUMBERS),
            transport,
            peer,
            self._closed,
        )
        self._connections[connection] = None
        if not self.node.running:
            connection.abort()
        return connection

    def _closed(self, connection: ServerConnection) -> None:
        self._connections.pop(connection, None)
        self._shares.connection_lost(connection.number)

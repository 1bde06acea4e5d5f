"""The class `Brokers`, which owns all connections of a client."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from ..._core.chance import shuffle
from ..._core.metadata.reachability import Endpoint, NodeState, Reachability
from ..._core.metadata.types import Broker
from ..._options.logs import client_log
from ..._wire import ApiVersions, Request
from ...config import ClientConfig
from ...errors import KafkaConnectionError, KafkaError
from ...errors.base import own_copy
from ..deadline import Deadline
from ..loop import Spawner
from .connection import Connection
from .failures import timeout_kind
from .handshake import Expected, Security
from .link import Link, LinkContext
from .settings import AnyLane, ConnectionSettings, Lane
from .transport import way_of

FRAME_OVERHEAD_BYTES = 1024 * 1024
"""Allowance in bytes for the parts of a Fetch response that are not records."""


class _Node:
    """A broker, its address, and a link for each lane that was used."""

    __slots__ = ("broker", "endpoint", "links")

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.endpoint: Endpoint = broker.endpoint
        self.links: dict[AnyLane, Link] = {}


class Brokers:
    """The connections of a client, by node and lane. They are opened on demand.

    All tasks run in ``tasks``, for example an anyio TaskGroup, which must outlive this object. If it is cancelled, the
    connections close. As in Java, bootstrap servers are the nodes -1, -2, and so on. The class is not thread-safe.
    """

    def __init__(self, config: ClientConfig, tasks: Spawner, hot: Sequence[type[Request[Any]]] = ()) -> None:
        """Start without nodes. The codecs of the ``hot`` requests are created before a connection is ready."""
        self._request_timeout_s = config.request_timeout_ms / 1000
        self._reachability = Reachability(
            reconnect_backoff_ms=config.reconnect_backoff_ms,
            reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
            setup_timeout_ms=config.socket_connection_setup_timeout_ms,
            setup_timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
            retry_backoff_max_ms=config.retry_backoff_max_ms,
            refused_login_ms=config.refused_login_ms,
        )
        fetch_max_bytes: int = getattr(config, "fetch_max_bytes", 0)  # both kinds of consumers have this option
        settings = ConnectionSettings(
            client_id=config.client_id,
            request_timeout_s=self._request_timeout_s,
            max_idle_s=config.connections_max_idle_ms / 1000,
            max_in_flight=config.max_in_flight_requests_per_connection,
            receive_max_bytes=max(config.receive_max_bytes, fetch_max_bytes + FRAME_OVERHEAD_BYTES),
        )
        self._context = LinkContext(
            settings=settings,
            security=Security.from_config(config, tasks),
            hot=hot,
            reachability=self._reachability,
            way=way_of(config),
            expected=self._expected,
            tasks=tasks,
            notify=self._notify,
            connected=self._connected,
            log=client_log("connection", config.client_id),
        )
        self._nodes: dict[int, _Node] = {}
        self._retired: list[Link] = []
        """Links of removed nodes that still have requests in flight."""
        self._listeners: list[Callable[[int], None]] = []
        self.cluster_id: str | None = None
        """The id of the cluster to which known brokers must belong. None disables these checks."""
        self._checks_cluster = config.metadata_cluster_check_enable
        self.connections_made = 0
        """Number of connections that have become ready."""
        self.last_offer: ApiVersions | None = None
        """API versions of the broker that most recently became connected, or None."""
        self.on_connected: Callable[[], None] | None = None
        """Called when a connection has become ready, after the two attributes above have been updated."""
        self._closed_by: KafkaError | None = None

    def _expected(self, endpoint: Endpoint) -> Expected | None:
        if self.cluster_id is None:
            return None
        return Expected(self.cluster_id, self._checks_cluster, self._reachability.has_led_astray(endpoint))

    # --- the nodes ---

    @property
    def nodes(self) -> Mapping[int, Broker]:
        """The known nodes by id. Bootstrap servers have negative ids."""
        return {node_id: node.broker for node_id, node in self._nodes.items()}

    def set_nodes(self, nodes: Mapping[int, Broker]) -> None:
        """Replace the set of nodes.

        - A node whose address has not changed keeps its connections.
        - If the address has changed, the connections are closed at once, an attempt to connect is abandoned, and new
          connections are opened on demand.
        - The connections of a removed node close when their requests in flight are answered, because late responses
          still count.
        """
        for node_id in [node_id for node_id in self._nodes if node_id not in nodes]:
            self._drop(node_id)
        for broker in nodes.values():
            self.add_node(broker)

    def add_node(self, broker: Broker) -> None:
        """Add a node, or change the address of a known one."""
        known = self._nodes.get(broker.node_id)
        if known is not None and known.endpoint == broker.endpoint:
            known.broker = broker
            return
        # First replace the node, because tasks that wait for the old links look it up again when these are closed.
        self._nodes[broker.node_id] = _Node(broker)
        if known is not None:
            for link in known.links.values():
                link.close(None)

    def add_listener(self, listener: Callable[[int], None]) -> None:
        """Call ``listener`` with a node's id when its state changes, or when it accepts requests again.

        A state changes when a connection is ready, lost, failed or being opened (see `state` and `ready`). The call is
        synchronous and may be redundant. It must be quick and must not raise exceptions.
        """
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[int], None]) -> None:
        """Undo `add_listener`."""
        self._listeners.remove(listener)

    # --- connections ---

    def ready(self, node_id: int, lane: AnyLane = Lane.DATA) -> Connection | None:
        """Return the node's connection if it is ready, otherwise None.

        A ready connection may be busy (see `Connection.can_send`). If there is none, one is opened now or after the
        backoff, and then the listeners are called. Call this method again after each failure, because a link connects
        again only on request.
        """
        node = self._nodes.get(node_id)
        if node is None:
            return None
        link = node.links.get(lane)
        if link is None:
            link = self._new_link(node, lane)
        connection = link.connection
        if connection is not None and connection.ready:
            return connection
        if self._closed_by is None:
            link.want()
        return None

    async def get(self, node_id: int, lane: AnyLane = Lane.CONTROL, timeout_ms: float | None = None) -> Connection:
        """Return a ready connection to the node. If there is none, wait for the backoff to end and try to connect once.

        Raises the error of that attempt: `KafkaConnectionError` (retriable), or an error of authentication or TLS. Also
        raises `KafkaConnectionError` after ``timeout_ms``, by default ``request_timeout_ms``, and at once for an
        unknown node.
        """
        timeout_s = self._request_timeout_s if timeout_ms is None else timeout_ms / 1000
        deadline = Deadline(timeout_s * 1000)
        while True:
            connection = self.ready(node_id, lane)
            if connection is not None:
                return connection
            if self._closed_by is not None:
                raise own_copy(self._closed_by)
            node = self._nodes.get(node_id)
            if node is None:
                raise KafkaConnectionError(f"node {node_id} is not part of the cluster that this client knows")
            link = node.links[lane]
            try:
                await link.wait(deadline.left_s())
            except TimeoutError:
                raise self._not_in_time(link, timeout_s) from None

    def state(self, node_id: int) -> NodeState:
        """Return the best state of the node's links, or BACKOFF if the node is unknown."""
        node = self._nodes.get(node_id)
        return NodeState.BACKOFF if node is None else self._state(node, time.monotonic())

    def retry_at(self, node_id: int) -> float:
        """Return the end of the node's backoff in monotonic seconds.

        Returns 0.0 if the node has no backoff, and infinity if the node is unknown.
        """
        node = self._nodes.get(node_id)
        return math.inf if node is None else self._reachability.retry_at(node.endpoint)

    def last_error(self, node_id: int) -> KafkaError | None:
        """Return the error of the node's last attempt or connection, or None if a connection is ready."""
        node = self._nodes.get(node_id)
        return None if node is None else self._reachability.last_error(node.endpoint)

    def last_errors(self, node_ids: Iterable[int]) -> dict[int, KafkaError]:
        """Return `last_error` of each of these nodes that has one."""
        last = {node_id: self.last_error(node_id) for node_id in node_ids}
        return {node_id: error for node_id, error in last.items() if error is not None}

    def final_error(self, node_id: int) -> KafkaError | None:
        """Return `last_error` if a retry cannot help, otherwise None.

        The refusal of a login that worked before does not count.
        """
        node = self._nodes.get(node_id)
        return None if node is None else self._reachability.final_error(node.endpoint)

    @property
    def reachable(self) -> bool:
        """True if a node has a ready connection, and no later connection to it has failed or been lost.

        An idle connection to a stuck broker counts as well.
        """
        return any(
            self.last_error(node_id) is None and self.state(node_id) is NodeState.READY for node_id in self._nodes
        )

    def unanswered_s(self, node_id: int, now: float) -> float:
        """Return the seconds since the last request on a connection to the node that has unanswered requests.

        Returns the longest time if several connections have unanswered requests, and 0 if none has. The rebalance lane
        does not count, because group members wait for each other there.
        """
        node = self._nodes.get(node_id)
        links = {} if node is None else node.links
        asked = [link.connection for lane, link in links.items() if lane is not Lane.REBALANCE]
        return max((now - each.used_at for each in asked if each is not None and each.in_flight), default=0.0)

    def offers(self) -> list[ApiVersions]:
        """Return the API versions that each ready connection to a known broker has negotiated."""
        links = [link for node_id, node in self._nodes.items() if node_id >= 0 for link in node.links.values()]
        return [link.connection.versions for link in links if link.connection is not None and link.connection.ready]

    def failed_since(self, at: float) -> list[int]:
        """Return the nodes whose latest attempt failed, or whose connection was lost, at the time ``at`` or later."""
        reachability = self._reachability
        return [node_id for node_id, node in self._nodes.items() if reachability.failed_since(node.endpoint, at)]

    def ready_since(self, node_id: int, at: float) -> bool:
        """Return True if a connection to the node became ready at the time ``at`` (monotonic) or later."""
        node = self._nodes.get(node_id)
        return node is not None and self._reachability.ready_since(node.endpoint, at)

    def led_astray(self, node_id: int) -> None:
        """Check the cluster id of each new connection to this node, because its address has led to another cluster."""
        node = self._nodes.get(node_id)
        if node is not None:
            self._reachability.led_astray(node.endpoint)

    def evaded(self, node_id: int, asked_at: float) -> None:
        """Record that a node did not answer a request, sent at ``asked_at``, that any broker can answer.

        `least_loaded` then avoids the node. If only bootstrap servers are known and all are in doubt, reconnects to
        them. The next connection may lead to another broker, because a name may have several addresses or belong to a
        load balancer.
        """
        node = self._nodes.get(node_id)
        if node is not None:
            self._reachability.evaded(node.endpoint, asked_at, time.monotonic())
            if all(other < 0 and self.in_doubt(other) for other in self._nodes):
                error = KafkaConnectionError("it did not answer a request that any broker can answer")
                self._reachability.leave(node.endpoint, error)
                self._reconnect(node, error)

    def leave(self, node_id: int, error: KafkaError, *, silent: bool = False) -> bool:
        """Reconnect to the node, at another address of its host if possible. ``error`` ends the current connections.

        Returns True if the new connection may help. It cannot help if all other addresses have been left since the last
        useful response. The next request tries unreachable addresses again. An address is ``silent`` if it has not
        responded in time. It is left in any case, because it gets more time at each turn (`patience_s`).
        """
        node = self._nodes.get(node_id)
        if node is None:
            return False  # it was removed during the request
        reachability = self._reachability
        moves = reachability.leave(node.endpoint, error) or silent
        moves |= reachability.may_lead_elsewhere(node.endpoint, time.monotonic())
        if moves or not self.all_left(node_id):
            self._reconnect(node, error)
        return moves

    def look_further(self, node_id: int, loss_s: float) -> bool:
        """Leave a bootstrap server that knows no more than the known brokers. Return True if the client reconnects.

        Another address of the server may know more brokers. The server is left only now and then.
        """
        node = self._nodes.get(node_id)
        further = node is not None and self._reachability.may_lead_elsewhere(node.endpoint, time.monotonic(), loss_s)
        if further:
            self.leave(node_id, KafkaConnectionError("it knows no more than the known brokers"))
        return further

    def all_left(self, node_id: int) -> bool:
        """Return True if all addresses of the node's host have been left, and none is merely unreachable."""
        node = self._nodes.get(node_id)
        return node is None or self._reachability.all_left(node.endpoint)

    def patience_s(self, node_id: int) -> float:
        """Return the seconds until another address of the node's host is tried, or infinity if there is none."""
        node = self._nodes.get(node_id)
        return math.inf if node is None else self._reachability.patience_s(node.endpoint)

    def _reconnect(self, node: _Node, error: KafkaError) -> None:
        link = node.links.pop(Lane.CONTROL, None)
        if link is not None:
            link.close(error)

    def informed(self, node_id: int) -> None:
        """Record a useful response. The node is no longer in doubt."""
        node = self._nodes.get(node_id)
        if node is not None:
            self._reachability.informed(node.endpoint)

    def in_doubt(self, node_id: int) -> bool:
        """Return True if the node has not answered requests (see `evaded`). Other nodes are then asked first."""
        node = self._nodes.get(node_id)
        return node is not None and self._reachability.in_doubt(node.endpoint, time.monotonic())

    def least_loaded(self, lane: Lane = Lane.CONTROL, avoid: Container[int] = ()) -> int | None:
        """Return the best broker for a request that any broker can answer, or None.

        As in Java, this is the ready node with the fewest requests in flight, otherwise a connecting node, otherwise a
        node to which a connection can be opened. The choice between equal nodes is random, so that clients spread over
        the brokers. Nodes in doubt come after all others, and nodes in ``avoid`` come last, even if they are connected.

        Returns None if all nodes are in backoff, or none is known. Unlike in Java, bootstrap servers are not
        considered, because they may belong to another cluster until they have answered Metadata.
        """
        now = time.monotonic()
        best: int | None = None
        best_rank: tuple[bool, bool, int, int] | None = None
        nodes = [(node_id, node) for node_id, node in self._nodes.items() if node_id >= 0]
        shuffle(nodes)
        for node_id, node in nodes:
            state, in_flight = self._rank(node, lane, now)
            if state == _RANK[NodeState.BACKOFF]:
                continue
            rank = (node_id in avoid, self._reachability.in_doubt(node.endpoint, now), state, in_flight)
            if best_rank is None or rank < best_rank:
                best, best_rank = node_id, rank
        return best

    def close_lane(self, lane: AnyLane, error: KafkaError) -> None:
        """Close all connections of a lane that is no longer used. Requests in flight fail with the error."""
        links = [link for node in self._nodes.values() if (link := node.links.pop(lane, None)) is not None]
        for link in [*links, *(link for link in self._retired if link.lane == lane)]:
            link.close(error)
        self._retired = [link for link in self._retired if link.lane != lane]

    def close_all(self, error: KafkaError) -> None:
        """Close all connections, including those that are being opened. Requests in flight fail with the error.

        Nodes and their backoffs are kept, and can be connected again.
        """
        links = [link for node in self._nodes.values() for link in node.links.values()] + self._retired
        self._retired = []
        # First forget the links, so that tasks woken by their end do not find them.
        for node in self._nodes.values():
            node.links = {}
        for link in links:
            link.close(error)

    def stop(self, error: KafkaError) -> None:
        """Close all connections, and open no more. From now on, `get` raises this error."""
        self.refuse(error)
        self.close_all(error)

    def refuse(self, error: KafkaError) -> None:
        """Open no more connections. From now on, `get` raises this error. Existing connections stay open."""
        self._closed_by = error

    # --- internal ---

    def _new_link(self, node: _Node, lane: AnyLane) -> Link:
        """Return a link for a node on this lane.

        A retired link that still has requests in flight is reused. On a second connection to the same broker, later
        requests could overtake earlier ones.
        """
        self._retired = [link for link in self._retired if not link.idle]
        for link in self._retired:
            if (link.node_id, link.endpoint, link.lane) == (node.broker.node_id, node.endpoint, lane) and link.revive():
                self._retired.remove(link)
                break
        else:
            context = self._context._replace(settings=self._context.settings.of(lane))
            link = Link(node.broker.node_id, node.endpoint, lane, context)
        node.links[lane] = link
        return link

    def _drop(self, node_id: int) -> None:
        node = self._nodes.pop(node_id)
        for link in node.links.values():
            link.retire()
            if not link.idle:
                self._retired.append(link)

    def _notify(self, node_id: int) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(node_id)
            except Exception as error:  # A bug in the listener. A task reports it, instead of ending the connection.
                self._context.tasks.start_soon(_raise, error, name="kafka listener")

    def _connected(self, versions: ApiVersions) -> None:
        self.connections_made += 1
        self.last_offer = versions
        if self.on_connected is not None:
            self.on_connected()

    def _state(self, node: _Node, now: float) -> NodeState:
        states = {link.state(now) for link in node.links.values()}
        for state in (NodeState.READY, NodeState.CONNECTING):
            if state in states:
                return state
        retry_at = self._reachability.retry_at(node.endpoint)
        return NodeState.BACKOFF if now < retry_at else NodeState.CONNECTABLE

    def _rank(self, node: _Node, lane: AnyLane, now: float) -> tuple[int, int]:
        link = node.links.get(lane)
        connection = link.connection if link is not None else None
        if connection is not None and connection.ready:
            return (_RANK[NodeState.READY] if connection.can_send() else _BUSY_RANK, connection.in_flight)
        # Another connection would cost client and broker more than waiting in the queue.
        return (_RANK[self._state(node, now)], self._context.settings.max_in_flight)

    def _not_in_time(self, link: Link, timeout_s: float) -> KafkaError:
        last = self._reachability.last_error(link.endpoint)
        if last is not None:
            why = f"; the last try: {last.message}"
        else:
            # A broker's listener with another security protocol may not respond at all.
            why = "" if link.stage is None else f" (no answer during {link.stage})"
        return timeout_kind(link.stage)(f"no connection within {timeout_s * 1000:.0f} ms{why}", broker=link.label)


async def _raise(error: Exception) -> None:
    raise error


_RANK: dict[NodeState, int] = {
    NodeState.READY: 0,
    NodeState.CONNECTING: 1,
    NodeState.CONNECTABLE: 2,
    NodeState.BACKOFF: 4,
}
_BUSY_RANK = 3

"""A client's simulated connections: how they begin and end, and the outcome of requests in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from aiokafka_lead._core.metadata.reachability import Endpoint, NodeState, Reachability
from aiokafka_lead._core.metadata.types import Broker
from aiokafka_lead._options.addresses import Search
from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import KafkaConnectionError, KafkaError, RequestTimedOutError
from tests.simulated.timeline import Meter, Timeline

from .dial import Dial, Route

if TYPE_CHECKING:
    from .cluster import Cluster, FaultyBroker

OnDone = Callable[[Any, KafkaError | None], None]

CONNECTS_PER_SECOND = 30
"""Bound on connects to one name per second. The backoff begins with 50 ms."""


class Request:
    """A request to a broker."""

    __slots__ = ("done", "on_done")

    def __init__(self, on_done: OnDone) -> None:
        self.on_done = on_done
        self.done = False

    def finish(self, answer: Any, error: KafkaError | None) -> None:
        if not self.done:
            self.done = True
            self.on_done(answer, error)


class Link:
    """A connection to an address. Requests and answers keep their order. If it breaks, those in flight are lost."""

    def __init__(self, links: Links, node_id: int, endpoint: Endpoint, lane: str) -> None:
        self.node_id = node_id
        self.endpoint = endpoint
        self.lane = lane
        self.in_flight: deque[Request] = deque()
        self.peer: FaultyBroker | None = None
        """The server at the address, while connected."""
        self.state = NodeState.CONNECTABLE
        self.closed = False
        self._links = links
        self._timeline = links.timeline
        self._life = 0
        """The peer's life, when the connection was made."""
        self._wanted = False
        self._dial: Dial | None = None
        """The connect under way."""
        self._arrivals = [0.0, 0.0]
        """Times of the latest request's arrival at the broker and of the latest answer's at the client."""

    def want(self) -> None:
        """Connect now, or when the backoff has expired."""
        if self.closed or self.state is not NodeState.CONNECTABLE or self._wanted:
            return
        self._wanted = True
        retry_at = self._links.reachability.retry_at(self.endpoint)
        self._timeline.later(max(0.0, retry_at - self._timeline.now), self._connect)

    def _connect(self) -> None:
        if self.closed or self.state is not NodeState.CONNECTABLE:
            return
        retry_at = self._links.reachability.retry_at(self.endpoint)
        if self._timeline.now < retry_at:  # another lane failed meanwhile
            self._timeline.later(retry_at - self._timeline.now, self._connect)
            return
        self._wanted = False
        self.state = NodeState.CONNECTING
        self._links.connects.count(self.endpoint)
        reachability = self._links.reachability
        timeout_s = reachability.setup_timeout_s(self.endpoint)
        search: Search[KafkaError, FaultyBroker | Route] = reachability.search(self.endpoint)
        dial = self._dial = Dial(self._timeline, self._links.cluster.targets(self.endpoint), search, self._dialled)
        self._timeline.later(timeout_s, lambda: self._give_up(dial))

    def _dialled(self, peer: FaultyBroker | None) -> None:
        if self.closed:
            return
        self._dial = None
        if peer is None:
            self._refused("refused")
            return
        self.state = NodeState.READY
        self.peer, self._life = peer, peer.life
        peer.links.append(self)
        self._links.reachability.succeeded(self.endpoint, self._timeline.now)
        self._links.changed(self)

    def _give_up(self, dial: Dial) -> None:
        if self._dial is dial and not self.closed:
            dial.give_up()
            self._dial = None
            self._refused("no answer")

    def _refused(self, why: str) -> None:
        self.state = NodeState.CONNECTABLE
        self._links.reachability.failed(self.endpoint, self._timeline.now, KafkaConnectionError(why))
        self._links.changed(self)

    # --- requests ----------------------------------------------------------------------------------------------------

    def reaches(self, peer: FaultyBroker, life: int) -> bool:
        """Return True if this is a connection to the broker in that life."""
        return self.peer is peer and self._life == life

    def submit(self, handle: Callable[[FaultyBroker, Callable[[Any], None]], None], on_done: OnDone) -> None:
        """Send a request: the broker runs ``handle``, which calls back with the answer."""
        peer, life, request = self.peer, self._life, Request(on_done)
        assert peer is not None
        self.in_flight.append(request)
        self._timeline.later(self._links.request_timeout_s, lambda: self._expire(request))

        def arrive() -> None:
            if self.reaches(peer, life) and peer.running and peer.life == life:
                peer.serve(lambda: handle(peer, reply))

        def reply(answer: Any) -> None:
            if self.reaches(peer, life) and peer.running and peer.life == life:
                self._timeline.later(self._after(1), lambda: self._answered(request, answer))

        self._timeline.later(self._after(0), arrive)

    def _after(self, direction: int) -> float:
        now = self._timeline.now
        self._arrivals[direction] = max(now + self._timeline.latency(), self._arrivals[direction])
        return self._arrivals[direction] - now

    def _answered(self, request: Request, answer: Any) -> None:
        if not request.done:
            self.in_flight.remove(request)
            request.finish(answer, None)
            self._links.changed(self)

    def _expire(self, request: Request) -> None:
        if not request.done and self.peer is not None:
            self.in_flight.remove(request)
            request.finish(None, RequestTimedOutError("no answer"))
            self.lost()

    # --- ends --------------------------------------------------------------------------------------------------------

    def lost(self) -> None:
        """Note that the connection broke."""
        if self.peer is not None:
            error = KafkaConnectionError("connection lost")
            self._links.reachability.lost(self.endpoint, self._timeline.now, error)
            self._end(error)
            self.state = NodeState.CONNECTABLE
            self._links.changed(self)

    def close(self, error: KafkaError) -> None:
        """Close permanently. A connect in progress cannot finish."""
        self.closed = True
        self._end(error)

    def _end(self, error: KafkaError) -> None:
        if self.peer is not None:
            self.peer.links.remove(self)
            self.peer = None
        requests, self.in_flight = self.in_flight, deque()
        for request in requests:
            request.finish(None, error)


class Links:
    """`Brokers` without sockets."""

    def __init__(
        self,
        timeline: Timeline,
        cluster: Cluster,
        config: ClientConfig,
        on_node: Callable[[int], None],
    ) -> None:
        self.timeline = timeline
        self.cluster = cluster
        self.request_timeout_s = config.request_timeout_ms / 1000
        self.reachability = Reachability(
            reconnect_backoff_ms=config.reconnect_backoff_ms,
            reconnect_backoff_max_ms=config.reconnect_backoff_max_ms,
            setup_timeout_ms=config.socket_connection_setup_timeout_ms,
            setup_timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
            rng=timeline.rng.random,
        )
        self.connects = Meter(timeline, "connects", CONNECTS_PER_SECOND)
        self._on_node = on_node
        self.nodes: dict[int, Broker] = {}
        self._links: dict[tuple[int, str], Link] = {}
        self._lanes: dict[str, None] = {}
        """Lanes used so far."""
        self._retired: list[Link] = []

    def set_nodes(self, nodes: Mapping[int, Broker]) -> None:
        """Keep exactly these brokers. A changed address closes the links; removed nodes may answer pending requests."""
        self.nodes = dict(nodes)
        ended: list[tuple[Link, str]] = []
        for key, link in list(self._links.items()):
            node = nodes.get(link.node_id)
            if node is not None and (node.host, node.port) == link.endpoint:
                continue
            del self._links[key]
            if node is None and link.in_flight:
                self._retired.append(link)
            else:
                ended.append((link, "gone" if node is None else "moved"))
        for link, why in ended:
            link.close(KafkaConnectionError(why))

    def ready(self, node_id: int, lane: str) -> Link | None:
        """Return the connection, if there is one; else begin to make it."""
        node = self.nodes.get(node_id)
        if node is None:
            return None
        link = self._links.get((node_id, lane))
        if link is None:
            self._lanes[lane] = None
            link = self._links[node_id, lane] = self._revived(node, lane) or Link(
                self, node_id, (node.host, node.port), lane
            )
        if link.state is NodeState.READY:
            return link
        link.want()
        return None

    def _revived(self, node: Broker, lane: str) -> Link | None:
        wanted = (node.node_id, (node.host, node.port), lane)
        for link in self._retired:
            if (link.node_id, link.endpoint, link.lane) == wanted:
                self._retired.remove(link)
                return link
        return None

    def close_lane(self, node_id: int, lane: str) -> None:
        """Send the next request on another connection, because the name may resolve to another broker."""
        link = self._links.pop((node_id, lane), None)
        if link is not None:
            link.close(KafkaConnectionError("left"))

    def is_ready(self, node_id: int, lane: str) -> bool:
        """Return True if there is a connection on this lane."""
        link = self._links.get((node_id, lane))
        return link is not None and link.state is NodeState.READY

    @property
    def connecting(self) -> bool:
        """True while a connection is being made."""
        return any(link.state is NodeState.CONNECTING for link in self._links.values())

    def state(self, node_id: int) -> NodeState:
        """Return the best of its connections."""
        node = self.nodes.get(node_id)
        if node is None:
            return NodeState.BACKOFF
        states = {link.state for lane in self._lanes if (link := self._links.get((node_id, lane))) is not None}
        for state in (NodeState.READY, NodeState.CONNECTING):
            if state in states:
                return state
        late = self.timeline.now < self.reachability.retry_at((node.host, node.port))
        return NodeState.BACKOFF if late else NodeState.CONNECTABLE

    def changed(self, link: Link) -> None:
        """Handle a connection that was made, failed or lost, or that accepts requests again."""
        if link in self._retired:
            if not link.in_flight:
                self._retired.remove(link)
                link.close(KafkaConnectionError("gone"))
        else:
            self._on_node(link.node_id)

    def close_all(self, error: KafkaError) -> None:
        """Close every connection, including connections being made."""
        links = [*self._links.values(), *self._retired]
        self._links, self._retired = {}, []
        for link in links:
            link.close(error)

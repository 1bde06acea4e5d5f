"""A client's metadata task, without tasks: real policy, simulated connections."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence, Set

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.metadata.reachability import Endpoint, NodeState
from aiokafka_lead._core.metadata.rebootstrap import RebootstrapCause, RebootstrapPolicy
from aiokafka_lead._core.metadata.refresh import FIRST_SPACING_MS, HINTED, STALE, Reason, RefreshSchedule, lost
from aiokafka_lead._core.metadata.state import MetadataState
from aiokafka_lead._core.metadata.topics import TopicsInUse
from aiokafka_lead._core.metadata.types import ClusterSnapshot, LeaderHint, MetadataListener, Moved
from aiokafka_lead._wire.messages.metadata import MetadataResponse
from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import KafkaConnectionError, KafkaError, RebootstrapError, RebootstrapRequiredError
from tests.core.cluster_answers import read_whole
from tests.simulated.timeline import Meter, Timeline

from .cluster import TOPIC, Cluster
from .links import Links

HEDGE_AFTER_S = 0.5
METADATA_VERSION = 13
METADATA_PER_SECOND = 130
"""Bound on requests. A client asks a broker whose answers have news every 10 ms, and failures restart the backoff."""


class _Round:
    """One refresh: the brokers that were asked, and the results."""

    def __init__(self, avoid: Sequence[Set[int]], *, full: bool) -> None:
        self.avoid = avoid
        """Brokers to ask after all other brokers, members of the first set last."""
        self.full = full
        """False for a lookup of a topic that is not known yet."""
        self.asked: dict[int, float] = {}
        """Times at which each broker was asked."""
        self.sent: dict[int, float] = {}
        """Times at which the requests were sent, on connections."""
        self.failed: set[int] = set()
        self.out_of_reach: set[int] = set()
        """Requests in ``sent`` that can be sent again to another broker, because their broker is silent."""
        self.looks = 0
        """Number of searches for the next broker to ask."""
        self.over = False


class SimClient:
    """A client's metadata, which is kept fresh."""

    def __init__(self, timeline: Timeline, cluster: Cluster, config: ClientConfig) -> None:
        rng = timeline.rng.random
        self.timeline = timeline
        self.links = Links(timeline, cluster, config, self._on_node)
        self.state = MetadataState(config.bootstrap_servers, leader_hint_policy=config.leader_hint_policy)
        self.requests = Meter(timeline, "metadata requests", METADATA_PER_SECOND)
        self.listener: MetadataListener = lambda snapshot, moved: None
        self._cluster = cluster
        self._request_timeout_s = config.request_timeout_ms / 1000
        retry_backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self._schedule = RefreshSchedule(config.metadata_max_age_ms, retry_backoff)
        first_ms = min(FIRST_SPACING_MS, config.retry_backoff_ms)
        self._topics = TopicsInUse(math.inf, Backoff(first_ms, config.retry_backoff_max_ms, rng))
        self._topics.keep([TOPIC])
        self._topics.look_up(TOPIC, timeline.now)
        self._policy = RebootstrapPolicy(
            config.metadata_recovery_strategy,
            config.metadata_recovery_rebootstrap_trigger_ms,
            Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, rng),
        )
        self._looked_up = False
        self._at_a_loss = False
        self._round: _Round | None = None
        self._seen = self.state.snapshot
        self.woken = True
        """True if any event has occurred since the last `pump`."""
        self.links.set_nodes(self.state.snapshot.brokers)

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.state.snapshot

    def request_update(self, reason: Reason = STALE) -> None:
        """Note that a caller needs fresher metadata."""
        beside = self._policy.enabled and self.state.outsiders()
        if not reason.is_doubt or self.snapshot.has_rivals or beside:
            self._schedule.request(reason)

    def offer_hints(self, hints: Sequence[LeaderHint]) -> None:
        """Apply leaders that refusals named."""
        accepted = self.state.apply_hints(hints)
        self._publish({(hint.topic, hint.partition) for hint, taken in zip(hints, accepted, strict=True) if taken})
        self.request_update(HINTED if any(accepted) else STALE)
        for leader in {hint.leader_id for hint, taken in zip(hints, accepted, strict=True) if taken}:
            self.links.ready(leader, "data")

    def next_at(self) -> float:
        """Return the time at which a refresh is due."""
        if self._round is not None:
            return math.inf
        return min(self._schedule.due_at(), self._schedule.lookup_at(self._topics.next_due()))

    def pump(self) -> None:
        """Refresh, or look the topic up, if it is time."""
        now = self.timeline.now
        if self.next_at() <= now:
            due = self._schedule.due_at() <= now
            full = due and (self._looked_up or self._schedule.lookup_at(self._topics.next_due()) > now)
            self._looked_up = not full
            self._see_if_at_a_loss()
            self._policy.attempted(now)
            self._schedule.started(now, full=full)
            denying = self._topics.doubted([TOPIC], now)
            at_hand = [node for node in self.links.nodes if self.links.state(node) is not NodeState.BACKOFF]
            avoid = self._schedule.least_trusted(at_hand, denying, full=full)
            current = self._round = _Round(avoid, full=full)
            self.timeline.later(self._request_timeout_s, lambda: self._give_up(current))
            self._ask_next(current)

    # --- a refresh ---------------------------------------------------------------------------------------------------

    def _ask_next(self, current: _Round, *, again: bool = False) -> None:
        if current.over:
            return
        states = {n: self.links.state(n) for n in self.links.nodes}
        at_hand = [n for n, state in states.items() if state is not NodeState.BACKOFF]
        nodes = [n for n in at_hand if n not in current.asked]
        if not nodes and again and current.failed != current.asked.keys():
            nodes = [n for n in at_hand if n in current.out_of_reach]
        if nodes:
            order = {NodeState.READY: 0, NodeState.CONNECTING: 1, NodeState.CONNECTABLE: 2}
            node = min(
                nodes,
                key=lambda n: (
                    *(n in untrusted for untrusted in current.avoid),
                    self._evades(n),
                    order[states[n]],
                    not self.links.is_ready(n, "control"),
                    self.timeline.rng.random(),
                ),
            )
            current.failed.discard(node)
            current.out_of_reach.discard(node)
            current.asked[node] = self.timeline.now
            self._ask(current, node)
        elif current.failed == current.asked.keys():
            self._give_up(current)
        self._look_again_later(current)

    def _look_again_later(self, current: _Round) -> None:
        current.looks += 1
        look = current.looks
        self.timeline.later(
            HEDGE_AFTER_S, lambda: self._ask_next(current, again=True) if look == current.looks else None
        )

    def _evades(self, node: int) -> bool:
        return self.links.reachability.in_doubt(self._endpoint(node), self.timeline.now)

    def _endpoint(self, node: int) -> Endpoint:
        broker = self.links.nodes[node]
        return broker.host, broker.port

    def _ask(self, current: _Round, node: int) -> None:
        if current.over:
            return
        link = self.links.ready(node, "control")
        if link is not None:
            self.requests.count()
            current.sent[node] = self.timeline.now
            cluster, endpoint = self._cluster, link.endpoint
            waiting = [True]

            def take(answer: MetadataResponse, error: KafkaError | None) -> None:
                if waiting:
                    waiting.clear()
                    self._answered(current, node, endpoint, answer, error)

            def lose_patience() -> None:
                if waiting and not current.over:
                    waiting.clear()
                    self._leave(node, endpoint, KafkaConnectionError("no answer"), silent=True)
                    self._ask(current, node)

            if node < 0 and (patience_s := self.links.reachability.patience_s(endpoint)) < math.inf:
                self.timeline.later(patience_s, lose_patience)
            link.submit(lambda peer, reply: reply(cluster.metadata(peer)), take)
        elif node not in self.links.nodes or self.links.state(node) is NodeState.BACKOFF:
            current.failed.add(node)
            current.out_of_reach.add(node)
            self._ask_next(current)
        else:
            self.timeline.later(0.001, lambda: self._ask(current, node))

    def _answered(
        self, current: _Round, node: int, endpoint: Endpoint, answer: MetadataResponse, error: KafkaError | None
    ) -> None:
        if current.over:
            return
        if error is not None:
            current.failed.add(node)
            if isinstance(error, KafkaConnectionError):
                current.out_of_reach.add(node)
            else:
                self._evaded(node, endpoint, current.asked[node])
            self._ask_next(current)
            return
        try:
            helped = self._apply(current, node, endpoint, answer)
        except KafkaError as unhelpful:
            if node < 0 and self._leave(node, endpoint, unhelpful):
                self._ask(current, node)
                return
            current.failed.add(node)
            self._evaded(node, endpoint, self.timeline.now)
            self._ask_next(current)
            return
        self._end(current, answered_by=node)
        if not helped:
            self._judge()

    def _evaded(self, node: int, endpoint: Endpoint, asked_at: float) -> None:
        reachability = self.links.reachability
        reachability.evaded(endpoint, asked_at, self.timeline.now)
        if all(other < 0 and self._evades(other) for other in self.links.nodes):
            reachability.leave(endpoint, KafkaConnectionError("of no use"))
            self.links.close_lane(node, "control")

    def _leave(self, node: int, endpoint: Endpoint, error: KafkaError, *, silent: bool = False) -> bool:
        reachability = self.links.reachability
        moves = reachability.leave(endpoint, error) or silent
        moves |= reachability.may_lead_elsewhere(endpoint, self.timeline.now)
        if moves or not reachability.all_left(endpoint):
            self.links.close_lane(node, "control")
        return moves

    def _give_up(self, current: _Round) -> None:
        if not current.over:
            self._end(current)
            self._failed()
            self._judge()

    def _end(self, current: _Round, answered_by: int | None = None) -> None:
        for node, asked_at in current.asked.items():
            late = self.timeline.now - asked_at >= HEDGE_AFTER_S
            if late and node != answered_by and node not in current.failed and node in self.links.nodes:
                self._evaded(node, self._endpoint(node), asked_at)
        current.over = True
        self._round = None
        self.woken = True

    def _see_if_at_a_loss(self) -> None:
        """Also ask bootstrap servers if the answers of known brokers do not help."""
        known = [node for node in self.snapshot.brokers if self.links.state(node) is not NodeState.BACKOFF]
        nodes = [node for node in known if not self._evades(node)]
        at_a_loss = self._policy.enabled and self._schedule.at_a_loss(nodes, self.timeline.now)
        if at_a_loss != self._at_a_loss:
            self._at_a_loss = at_a_loss
            self._set_nodes()

    def _set_nodes(self) -> None:
        self.links.set_nodes({**self.snapshot.brokers, **(self.state.outsiders() if self._at_a_loss else {})})

    def _apply(self, current: _Round, node: int, endpoint: Endpoint, answer: MetadataResponse) -> bool:
        """Return True if the answer was useful; raise a useless answer's error, unless it leads to a bootstrap."""
        now = self.timeline.now
        try:
            beside = node < 0 and not self.state.bootstrapping
            lately, failed_since = now - self._request_timeout_s, self.links.reachability.failed_since
            failed = [b.node_id for b in self.snapshot.brokers.values() if failed_since((b.host, b.port), lately)]
            suspects = {*failed, *self._schedule.doubted}
            whole = read_whole(answer, METADATA_VERSION)
            applied = self.state.apply(whole, now, self._topics, beside=beside, suspects=suspects)
        except RebootstrapRequiredError:
            self._failed()
            if self._policy.enabled:
                self._rebootstrap(RebootstrapCause.REQUIRED)
            return False
        self.links.reachability.informed(endpoint)
        in_vain = beside and not (applied.changed and applied.complete)
        left = in_vain and self.links.reachability.may_lead_elsewhere(endpoint, now, self._schedule.loss_s(now))
        if left:
            self._leave(node, endpoint, KafkaConnectionError("it knows no more"))
        self._policy.answered(by_bootstrap_server=node < 0)
        leading = self.state.snapshot.leading(suspects.difference(applied.moved))
        self._schedule.succeeded(
            now,
            node,
            changed=applied.changed,
            complete=applied.complete,
            moved=applied.moved,
            full=current.full,
            unhelpful=current.asked.keys() - {node},
            out_of_reach=leading.intersection(failed),
            leading=leading,
            left=left,
            asked_at=current.sent[node],
        )
        self._publish()
        if self.snapshot.partition_count(TOPIC):
            self._topics.found(TOPIC)
        elif not beside:
            self._topics.missed(TOPIC, node, now)
        return True

    def _failed(self) -> None:
        self.state.counters.refresh_failures += 1
        self._schedule.failed(self.timeline.now)

    def _judge(self) -> None:
        up = (NodeState.READY, NodeState.CONNECTING)
        cause = self._policy.judge(
            self.timeline.now,
            reachable=any(self.links.state(node) in up for node in self.snapshot.brokers),
            bootstrapping=self.state.bootstrapping,
        )
        if cause is not None:
            self._rebootstrap(cause)

    def _rebootstrap(self, cause: RebootstrapCause) -> None:
        if cause is not RebootstrapCause.UNAVAILABLE:
            self.links.close_all(RebootstrapError())
        self.state.rebootstrap(cause)
        self._policy.rebootstrapped(self.timeline.now)
        self._publish()
        self.request_update()

    def _publish(self, moved: Collection[tuple[str, int]] | None = None) -> None:
        snapshot, former = self.state.snapshot, self._seen
        if snapshot is not former:
            self._seen = snapshot
            if snapshot.brokers is not former.brokers:
                self._set_nodes()
            self.listener(snapshot, Moved(former, snapshot, moved))
            self.woken = True

    def _on_node(self, node_id: int) -> None:
        self.woken = True
        if node_id in self.snapshot.brokers and self.links.state(node_id) is NodeState.BACKOFF:
            self.request_update(lost(node_id))
            self.state.unreachable(node_id)
            self._publish()

    def end(self) -> None:
        """Close every connection, and refresh no more."""
        self.links.close_all(KafkaConnectionError("the client is closed"))
        self._round = _Round((), full=True)

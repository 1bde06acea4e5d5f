"""The task that refreshes the client's metadata and is its only owner.

The task runs one refresh at a time. Everything else is synchronous: merging hints, adding topics, requesting refreshes,
and waking the task. `MetadataState`, `TopicsInUse`, `RefreshSchedule` and `RebootstrapPolicy` make the decisions, and
this module does the I/O.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio

from ... import errors
from ..._core.backoff import Backoff
from ..._core.metadata.answer import MetadataReader
from ..._core.metadata.reachability import NodeState
from ..._core.metadata.rebootstrap import RebootstrapCause, RebootstrapPolicy, leads_to_bootstrap
from ..._core.metadata.refresh import FIRST_SPACING_MS, HINTED, STALE, Reason, RefreshSchedule, lost
from ..._core.metadata.state import MetadataState
from ..._core.metadata.topics import TopicsInUse
from ..._core.metadata.types import Broker, ClusterSnapshot, LeaderHint, Listeners, MetadataListener, TopicMetadata
from ..._core.trust import patience_of
from ..._options.logs import client_log
from ...config import ClientConfig
from ...errors.base import own_copy
from ..asking_around import in_order
from ..connection.brokers import Brokers
from ..connection.settings import Lane
from ..deadline import Deadline
from ..loop import Signal, Waiter, in_slices
from .ask import Answer, Plan, TopicLookups, ask, candidates, describe, final_error, not_known, reachable, unusable

if TYPE_CHECKING:
    from ...metrics import MetadataMetrics


class MetadataActor:
    """Owns the cluster snapshot: refreshes it, merges leader hints, and notifies listeners of changes."""

    def __init__(self, config: ClientConfig, brokers: Brokers) -> None:
        retry_backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        lookup_backoff = Backoff(min(FIRST_SPACING_MS, config.retry_backoff_ms), config.retry_backoff_max_ms)
        self._log = client_log("metadata", config.client_id)
        self._request_timeout_s = config.request_timeout_ms / 1000
        self._resolve_timeout_s = config.bootstrap_resolve_timeout_ms / 1000
        self._create_topics = config.allow_auto_create_topics
        self._cluster_change_level = logging.WARNING if config.cluster_id_mismatch == "warn" else logging.INFO
        self._brokers = brokers
        self._reader = MetadataReader()
        self._state = MetadataState(config.bootstrap_servers, leader_hint_policy=config.leader_hint_policy)
        self._topics = TopicsInUse(config.metadata_max_idle_ms / 1000, lookup_backoff)
        self._schedule = RefreshSchedule(config.metadata_max_age_ms, retry_backoff)
        self._policy = RebootstrapPolicy(
            config.metadata_recovery_strategy,
            config.metadata_recovery_rebootstrap_trigger_ms,
            Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
        )
        self.snapshot = self._state.snapshot
        """The latest snapshot. It is replaced, never modified."""
        self.full_answers = 0
        """Number of responses that contained all topics in use.

        It is incremented before the response becomes the snapshot.
        """
        self.knows_every_topic = False
        """True if a response has listed all topics of the cluster since `set_all_topics` was called."""
        self._wake = Signal()
        self._newer: Waiter[ClusterSnapshot] = Waiter()
        """Completed by the next snapshot."""
        self._lookups = TopicLookups(self._topics, self._wake.set, self._log)
        self._listeners = Listeners(self.snapshot)
        self._errors: Mapping[int, errors.KafkaError] = {}
        """Errors of the last failed refresh, by node id."""
        self._adopts = config.cluster_id_mismatch != "fail"
        self._patience_s = patience_of(config.retry_backoff_max_ms)
        self._refreshing: anyio.CancelScope | None = None
        """Cancel scope of the latest refresh. It is cancelled to end the wait for a stuck broker."""
        self._at_a_loss = False
        """True if the known brokers respond, but their responses do not help."""
        self._looked_up = False
        """True if the last refresh was a look-up. A full refresh then comes first, so that neither kind starves."""
        self._closed: errors.KafkaError | None = None
        brokers.add_listener(self._on_node)

    # --- requests to the actor ---------------------------------------------------------------------------------------

    def request_update(self, reason: Reason = STALE) -> None:
        """Request a refresh as soon as the backoff for this reason allows.

        Until then, further calls have no effect.
        """
        if reason.is_doubt:
            if not (self.snapshot.has_rivals or (self._policy.enabled and self._state.outsiders())):
                return  # no other broker can be the leader
            if reason.node_id not in self._schedule.doubted:
                self._log.warning(
                    "broker %s keeps refusing requests: other brokers are asked for the leaders of its partitions",
                    reason.node_id,
                )
        self._schedule.request(reason)
        self._wake.set()

    def add_topics(self, topics: Iterable[str]) -> None:
        """Keep the metadata of these topics until `remove_topics`, for a consumer's assignment or subscription."""
        names = list(topics)
        self._topics.keep(names)
        for name in names:
            self._lookups.want(name, self.snapshot)

    def remove_topics(self, topics: Iterable[str]) -> None:
        """Undo `add_topics`."""
        self._forget(self._topics.drop(topics))

    def set_all_topics(self, wanted: bool, user: object = None) -> None:
        """Keep the metadata of all topics of the cluster for this user, or stop doing so.

        A subscription by pattern needs all topics, for example.
        """
        if self._topics.keep_all(wanted, user):
            self.knows_every_topic = False
            if self._topics.everything:
                self.request_update()
            else:
                self._forget([name for name in self.snapshot.topics if name not in self._topics])

    @property
    def has_topics(self) -> bool:
        """True if any topic is kept by name, and not just because of `set_all_topics`."""
        return bool(self._topics.names())

    def use_topic(self, topic: str) -> None:
        """Keep the metadata of a topic for ``metadata_max_idle_ms``, because the producer writes to it.

        An unknown topic is looked up. The call is cheap enough for each new batch.
        """
        self._topics.use(topic)
        self._lookups.want(topic, self.snapshot)

    async def topic(self, name: str, timeout_ms: float) -> TopicMetadata:
        """Wait until the topic is known, and return it. The topic is kept as by `use_topic`.

        Raises `UnknownTopicOrPartitionError` (or another error of the cluster), `TopicAuthorizationFailedError`,
        `InvalidTopicError`, or `RequestTimedOutError` if no broker has responded. All of these errors name the topic.
        """
        self._check()
        self._topics.use(name)
        if self.snapshot.partition_count(name):
            return self.snapshot.topics[name]

        def explain(name: str, lookups: int) -> errors.KafkaError:
            return not_known(name, lookups, self.snapshot, timeout_ms, self._reasons())

        return await self._lookups.wait(name, timeout_ms, explain)

    async def wait_newer(self, generation: int, timeout_ms: float) -> ClusterSnapshot:
        """Wait for a snapshot of a later generation and return it. Raises `RequestTimedOutError`."""
        deadline = Deadline(timeout_ms)
        while self.snapshot.generation <= generation:
            self._check()
            try:
                await self._newer.wait(deadline.left_s())
            except TimeoutError:
                raise errors.RequestTimedOutError(
                    f"no newer metadata within {timeout_ms:g} ms{self._reasons()}"
                ) from None
        return self.snapshot

    def offer_hints(self, hints: Sequence[LeaderHint]) -> list[bool]:
        """Merge leader hints. Return True for each hint that was accepted.

        Also requests a refresh, and connects to the new leaders.
        """
        accepted = self._state.apply_hints(hints)
        self._publish({(hint.topic, hint.partition) for hint, taken in zip(hints, accepted, strict=True) if taken})
        self.request_update(HINTED if any(accepted) else STALE)
        for leader_id in {hint.leader_id for hint, taken in zip(hints, accepted, strict=True) if taken}:
            self._brokers.ready(leader_id, Lane.DATA)
        return accepted

    def add_broker(self, broker: Broker) -> None:
        """Add a broker that a coordinator look-up has named, unless it is known.

        If its address differs from the known one, one of the two is outdated. Only Metadata may change an address,
        because a wrong one would also cut the client off from the broker's partitions.
        """
        known = self.snapshot.brokers.get(broker.node_id)
        if known is None:
            self._brokers.add_node(broker)
        elif known.endpoint != broker.endpoint:
            self.request_update()

    def add_listener(self, listener: MetadataListener) -> None:
        """Call ``listener`` after each change of `snapshot`, with the snapshot and its difference from the last one."""
        self._listeners.add(listener)

    def remove_listener(self, listener: MetadataListener) -> None:
        """Undo `add_listener`."""
        self._listeners.remove(listener)

    def metrics(self) -> MetadataMetrics:
        """Return the numbers of hints, refreshes and bootstraps."""
        return self._state.counters.snapshot()

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def bootstrap(self, within: Deadline | None = None) -> None:
        """Fetch the first metadata from the first bootstrap server that responds.

        Raises `KafkaConnectionError` with the reason for each server, once all servers have failed or after
        ``request_timeout_ms``. If all have failed with the same error, and it is not a connection error but, for
        example, a wrong password, raises that error instead. If no server's name can be resolved, raises
        `BootstrapResolutionError` after ``bootstrap_resolve_timeout_ms``. If the deadline ``within`` is given, it
        replaces both times.
        """
        resolved_by = time.monotonic() + self._resolve_timeout_s if within is None else within.at
        deadline = Deadline(self._request_timeout_s * 1000) if within is None else within
        self._brokers.set_nodes(self.snapshot.brokers)
        while True:
            now = time.monotonic()
            plan = Plan(None if self._topics.everything else self._topics.names(), full=True)
            self._schedule.started(now)
            servers = list(self.snapshot.brokers)
            nodes = candidates(self._brokers, servers) or servers
            request = plan.request(self._create_topics)
            outcome = await ask(self._brokers, self._reader, in_order(nodes), request, deadline.left_s())
            if outcome.answer is None:
                # If the last attempt ran out of time, the error of the attempt before it is more useful.
                last = self._brokers.last_errors(outcome.failures)
                unresolved = {
                    node_id: error for node_id, error in last.items() if isinstance(error, errors.UnresolvedHostError)
                }
                failure = unusable(self._state.bootstrap_brokers, {**outcome.failures, **unresolved})
                if not isinstance(failure, errors.BootstrapResolutionError) or time.monotonic() >= resolved_by:
                    raise failure
                self._count_failure(outcome.failures)
                await self._wake.wait(max(0.0, min(resolved_by, self._schedule.due_at()) - time.monotonic()))
                if within is None:
                    # The time limit of requests starts once a name is resolved, which has not happened for any server.
                    deadline = Deadline(self._request_timeout_s * 1000)
                continue
            error = await self._apply(plan, outcome.answer)
            if error is None:
                return
            if not leads_to_bootstrap(error, outcome.answer.node_id):
                self._failed({outcome.answer.node_id: error})
            if deadline.passed:
                raise unusable(self._state.bootstrap_brokers, {outcome.answer.node_id: error})
            await self._wake.wait(max(0.0, min(deadline.at, self._schedule.due_at()) - time.monotonic()))

    def begin(self) -> None:
        """Let `run` fetch the first metadata, without a time limit, instead of calling `bootstrap`."""
        self._brokers.set_nodes(self.snapshot.brokers)

    async def run(self) -> None:
        """Refresh until cancelled. Raises only `ClusterIdMismatchError`, and retries after all other errors."""
        while True:
            if self._policy.is_misled:
                self._rebootstrap(RebootstrapCause.REQUIRED, misled=True)
            now = time.monotonic()
            plan = self._plan(now)
            if plan is None:
                due = min(self._schedule.due_at(), self._schedule.lookup_at(self._topics.next_due()))
                await self._wake.wait(None if due == math.inf else due - now)
            else:
                known = candidates(self._brokers, [*self.snapshot.brokers])
                answering = [node_id for node_id in known if not self._brokers.in_doubt(node_id)]
                was_at_a_loss, self._at_a_loss = self._at_a_loss, self._schedule.at_a_loss(answering, now)
                if self._at_a_loss != was_at_a_loss:
                    self._set_nodes()
                with anyio.CancelScope() as refreshing:
                    self._refreshing = refreshing
                    await self._refresh(plan)
                if refreshing.cancelled_caught:
                    self._schedule.stopped()

    def close(self, error: errors.KafkaError) -> None:
        """Raise this error from all waiting calls, and from all later calls."""
        if self._closed is None:
            self._closed = error
            self._newer.set_error(error)
            self._lookups.fail(error)

    def _check(self) -> None:
        if self._closed is not None:
            raise own_copy(self._closed)

    # --- refreshing --------------------------------------------------------------------------------------------------

    def _plan(self, now: float) -> Plan | None:
        self._forget(self._topics.expire(now))
        full = self._schedule.due_at() <= now
        if self._schedule.lookup_at(self._topics.next_due()) <= now and not (full and self._looked_up):
            return Plan(self._topics.due(now), full=False)
        if full:
            return Plan(None if self._topics.everything else self._topics.names(), full=True)
        return None

    async def _refresh(self, plan: Plan) -> None:
        """Request metadata from one broker after another until a response helps.

        If none does, the client may have to return to the bootstrap servers.
        """
        now = time.monotonic()
        self._policy.attempted(now)
        self._schedule.started(now, full=plan.full)
        self._looked_up = not plan.full
        timeout_s = min(self._request_timeout_s, self._policy.refresh_within_s(now))
        deadline = Deadline(timeout_s * 1000)
        reasons: dict[int, errors.KafkaError] = {}
        denying = self._topics.doubted(plan.topics or (), now)
        avoid = self._schedule.least_trusted(candidates(self._brokers, [*self._brokers.nodes]), denying, full=plan.full)

        def following(asked: Container[int]) -> int | None:
            nodes = [node_id for node_id in self._brokers.nodes if node_id not in reasons and node_id not in asked]
            return next(iter(candidates(self._brokers, nodes, avoid)), None)

        while not deadline.passed and following(()) is not None:
            request = plan.request(self._create_topics)
            outcome = await ask(self._brokers, self._reader, following, request, deadline.left_s())
            reasons.update(outcome.failures)
            if outcome.answer is not None:
                error = await self._apply(plan, outcome.answer, reasons)
                if error is None:
                    return
                node_id = outcome.answer.node_id
                if leads_to_bootstrap(error, node_id):
                    break
                if node_id < 0 and self._brokers.leave(node_id, error):
                    continue  # its name may now lead to a better bootstrap server
                reasons[node_id] = error
        else:
            if self._state.bootstrapping:
                self._see_strangers(reasons)
            self._failed(reasons)
        in_reach = reachable(self._brokers, self.snapshot.brokers, now)
        cause = self._policy.judge(time.monotonic(), reachable=in_reach, bootstrapping=self._state.bootstrapping)
        if cause is not None:
            self._rebootstrap(cause)

    def _see_strangers(self, reasons: Mapping[int, errors.KafkaError]) -> None:
        """Raise the error of bootstrap servers that belong to another cluster, or switch to that cluster."""
        servers = [error for node_id, error in reasons.items() if node_id in self._state.bootstrap_brokers]
        everywhere = all(
            isinstance(reasons.get(node_id), errors.ClusterIdMismatchError) and self._brokers.all_left(node_id)
            for node_id in self._brokers.nodes
        )
        stranger = self._policy.stranger(servers, time.monotonic(), self._patience_s, everywhere=everywhere)
        if stranger is not None and not self._adopts:
            raise stranger
        self._state.may_change_cluster |= stranger is not None

    async def _apply(self, plan: Plan, answer: Answer, unhelpful: Iterable[int] = ()) -> errors.KafkaError | None:
        """Process a response.

        Returns an error if the response is no better than the responses of the ``unhelpful`` nodes.
        """
        ahead = await in_slices(self._state.merge_ahead(answer.cluster, time.monotonic()))
        now = time.monotonic()
        wanted = self._topics if plan.topics is not None else None
        # Records for a partition whose leader is lost must wait, so refresh for `request_timeout_ms` until it has one.
        failed = self._brokers.failed_since(now - self._request_timeout_s)
        suspects = {*failed, *self._schedule.doubted}
        try:
            beside = answer.node_id < 0 and not self._state.bootstrapping
            applied = self._state.apply(answer.cluster, now, wanted, ahead, beside=beside, suspects=suspects)
        except errors.RebootstrapRequiredError as error:
            self._failed({answer.node_id: error})
            if self._policy.enabled:
                self._rebootstrap(RebootstrapCause.REQUIRED)
            return error
        except errors.ClusterIdMismatchError as error:
            if not self._policy.enabled:
                if not self._adopts:
                    raise
                self._state.may_change_cluster = True
                return await self._apply(plan, answer, unhelpful)
            if answer.node_id < 0:
                return error
            # A known broker's address now belongs to another cluster. The bootstrap servers determine which cluster is
            # right.
            self._brokers.led_astray(answer.node_id)
            self._count_failure({answer.node_id: error})
            self._rebootstrap(RebootstrapCause.OTHER_CLUSTER)
            return error
        except errors.KafkaError as error:
            self._brokers.evaded(answer.node_id, now)
            return error
        self._state.may_change_cluster = False
        self._brokers.informed(answer.node_id)
        in_vain = beside and not (applied.changed and applied.complete)
        left = in_vain and self._brokers.look_further(answer.node_id, self._schedule.loss_s(now))
        if applied.other_cluster is not None:
            ids = (answer.cluster.cluster_id, applied.other_cluster)
            self._log.log(self._cluster_change_level, "connected to cluster %s, formerly to cluster %s", *ids)
        self._errors = {}
        self._policy.answered(by_bootstrap_server=answer.node_id < 0)
        leading = self._state.snapshot.leading(suspects.difference(applied.moved))
        self._schedule.succeeded(
            now,
            answer.node_id,
            changed=applied.changed,
            complete=applied.complete,
            moved=applied.moved,
            full=plan.full,
            unhelpful=unhelpful,
            out_of_reach=leading.intersection(failed),
            leading=leading,
            left=left,
            asked_at=answer.asked_at,
        )
        self.full_answers += plan.full
        self.knows_every_topic = self._topics.everything and (self.knows_every_topic or plan.topics is None)
        self._publish()
        names = self._topics.names() if plan.topics is None else plan.topics
        # A bootstrap server may be a known broker under another name, so its denial of a topic does not count.
        answered = [name for name in names if not beside or self.snapshot.partition_count(name)]
        self._lookups.answered(answered, self.snapshot, answer.node_id, now)
        return None

    def _count_failure(self, reasons: Mapping[int, errors.KafkaError]) -> None:
        self._errors = reasons or self._brokers.last_errors(self.snapshot.brokers)
        self._state.counters.refresh_failures += 1
        self._schedule.failed(time.monotonic())
        self._log.debug("metadata refresh failed: %s", describe(self._errors, self._brokers.nodes))

    def _failed(self, reasons: Mapping[int, errors.KafkaError]) -> None:
        """Handle a failed refresh. If a retry cannot help, waiting calls raise the error.

        They do not raise `ClusterIdMismatchError`. Either the client switches to the other cluster, or it fails once no
        server leads to its own cluster.
        """
        self._count_failure(reasons)
        final = final_error(self._errors)
        if final is not None and not isinstance(final, errors.ClusterIdMismatchError):
            self._lookups.fail(final)

    def _rebootstrap(self, cause: RebootstrapCause, *, misled: bool = False) -> None:
        now = time.monotonic()
        servers = ", ".join(f"{broker.host}:{broker.port}" for broker in self._state.bootstrap_brokers.values())
        self._log.info("bootstrapping again (%s) from %s", cause.name, servers)
        # In the other cases, connections to some brokers may still work (rules 27 and 35 of `_core.leadership`).
        if cause is not RebootstrapCause.UNAVAILABLE and not misled:
            self._brokers.close_all(errors.RebootstrapError())
        self._state.rebootstrap(cause)
        self._policy.rebootstrapped(now)
        self._publish()
        self.request_update()

    def _on_node(self, node_id: int) -> None:
        """Handle a node that has become ready, has been lost, cannot be reached, or accepts requests again."""
        broker = self.snapshot.brokers.get(node_id)
        if broker is None:
            return
        state = self._brokers.state(node_id)
        if state is NodeState.READY:
            self._policy.led_right(broker.endpoint)
        elif isinstance(self._brokers.last_error(node_id), errors.MisroutedConnectionError) and self._policy.misled(
            broker.endpoint
        ):
            if self._refreshing is not None:
                self._refreshing.cancel()
            self._wake.set()
        if state is NodeState.BACKOFF:
            # Other brokers may soon lead its partitions, or its address may have changed.
            self.request_update(lost(node_id))
            self._state.unreachable(node_id)
            self._publish()

    # --- topics and the snapshot -------------------------------------------------------------------------------------

    def _forget(self, names: Sequence[str]) -> None:
        if names and not self._topics.everything:
            self._state.forget(names)
            self._publish()

    def _publish(self, moved: Collection[tuple[str, int]] | None = None) -> None:
        """Publish the current snapshot. ``moved`` contains all partitions that have changed, or is None if unknown."""
        snapshot, former = self._state.snapshot, self.snapshot
        if snapshot is former:
            return
        self.snapshot = snapshot
        if snapshot.brokers is not former.brokers:
            self._brokers.cluster_id = snapshot.cluster_id if self._policy.enabled else None
            self._set_nodes()
        newer, self._newer = self._newer, Waiter()
        newer.set_result(snapshot)
        self._listeners.notify(snapshot, moved)

    def _set_nodes(self) -> None:
        """Set the nodes to the known brokers. Add bootstrap servers while these do not help (rule 33)."""
        beside = self._state.outsiders() if self._at_a_loss and self._policy.enabled else {}
        self._brokers.set_nodes({**self.snapshot.brokers, **beside})

    def _reasons(self) -> str:
        return f" ({describe(self._errors, self._brokers.nodes)})" if self._errors else ""

"""A share consumer's membership in its group, the task that sends heartbeats, and the consumer's health."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import anyio

from ..._core.consumer.health import Facts, Limits, judge
from ..._core.metadata.types import ClusterSnapshot, Moved
from ..._core.share.member import ShareMember
from ..._core.share.planner import SharePlanner
from ..._options.logs import client_log
from ...config.share import ShareConsumerConfig
from ...errors.base import own_copy
from ...health import ConsumerHealth
from ..client import Client
from ..consumer.health import TICK_S, WARN_AFTER_S, LoopWatch, since, unusable
from ..group.coordinators import Coordinators
from ..group.heartbeats import GroupCoordinator, Heartbeats
from ..loop import News


class ShareMembership:
    """Joins the group of a share consumer, sends its heartbeats, and leaves the group. Owns the member."""

    def __init__(self, client: Client, member: ShareMember, group_id: str, changed: Callable[[], None]) -> None:
        self._client = client
        self._member = member
        self._coordinator = GroupCoordinator(Coordinators(client), group_id)
        self._changed = changed
        """Called when the member has changed."""
        self._heartbeats = Heartbeats(member, self._coordinator, client.metadata.request_update)
        self._news = News()
        self.topics: tuple[str, ...] = ()
        """The subscribed topics."""

    @property
    def joined(self) -> bool:
        """True if the consumer is currently a member of its group."""
        return self._member.joined

    @property
    def session_s(self) -> float:
        """Approximate number of seconds after which the coordinator removes a member without heartbeats."""
        return self._member.session_s

    @property
    def last_heartbeat_at(self) -> float | None:
        """Time of the last acknowledged heartbeat (``time.monotonic()``), or None."""
        return self._heartbeats.last_at

    @property
    def coordinator(self) -> int | None:
        """Node id of the group's coordinator, or None if it is unknown."""
        return self._coordinator.node_id

    # --- calls of the application ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group if there is a subscription, and start sending heartbeats."""
        self._client.metadata.add_listener(self._on_metadata)
        self._member.topics_changed(self._client.metadata.snapshot)
        if self.topics:
            self._member.subscribe(self.topics, time.monotonic())
        self._client.spawn(partial(self._heartbeats.run, self.notify), name="kafka share heartbeats")

    def subscribe(self, topics: tuple[str, ...], *, started: bool) -> None:
        """Subscribe to these topics. Without topics, leave the group in the background."""
        before, self.topics = set(self.topics), topics
        metadata = self._client.metadata
        metadata.add_topics(set(topics) - before)
        metadata.remove_topics(before - set(topics))
        if not started:
            return
        if topics:
            self._member.subscribe(topics, time.monotonic())
        else:
            self._member.leave(time.monotonic())
        self.notify()

    def check(self) -> None:
        """Raise the error that keeps the consumer out of the group, if any, and try to join again."""
        error = self._member.error
        if error is not None:
            self._member.join(time.monotonic())
            self.notify()
            raise own_copy(error)

    async def leave(self, timeout_s: float) -> None:
        """Leave the group, and wait at most ``timeout_s`` seconds for the coordinator's response."""
        self._member.leave(time.monotonic())
        self.notify()
        with anyio.move_on_after(timeout_s):
            while not self._member.out or self._heartbeats.asking:
                await self._news.wait()

    # --- events ------------------------------------------------------------------------------------------------------

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        self._member.topics_changed(snapshot)
        self.notify()

    def notify(self) -> None:
        """Wake the consumer and the heartbeat task, because the state of the member has changed."""
        self._heartbeats.wake.set()
        self._news.tell()
        self._changed()


class ShareHealthWatch:
    """Determines the health of a share consumer, for `ShareConsumer.health`."""

    def __init__(
        self,
        client: Client,
        config: ShareConsumerConfig,
        membership: ShareMembership,
        planner: SharePlanner,
        hungry: Callable[[], bool],
        busy_since: Callable[[], float | None],
        refused: Callable[[float], str | None],
        started: Callable[[], bool],
    ) -> None:
        """Watch a share consumer.

        - ``hungry`` returns True if reads are waiting for records of assigned partitions.
        - ``busy_since`` returns the time at which the application started its current work (``time.monotonic()``), or
          None.
        - ``refused`` returns a description of the refusals that a run currently tolerates, or None.
        """
        self._client = client
        self._membership = membership
        self._planner = planner
        self._hungry = hungry
        self._busy_since = busy_since
        self._refused = refused
        self._started = started
        self._started_at: float | None = None
        self._stuck_s = config.request_timeout_ms / 1000
        self._fetch_s = (config.request_timeout_ms + config.fetch_max_wait_ms) / 1000
        self._loop = LoopWatch(WARN_AFTER_S[1], self._look, self._starved, client_log("consumer", config.client_id))
        self._hungry_since: float | None = None

    def start(self) -> None:
        """Start watching the event loop."""
        self._started_at = time.monotonic()
        self._client.spawn(self._loop.run, name="kafka loop watch")

    def health(self) -> ConsumerHealth:
        """Return the consumer's health at this moment."""
        membership, loop, now = self._membership, self._loop, time.monotonic()
        hungry_s, busy_since = since(self._hungry_since, now), self._busy_since()
        return judge(
            Facts(
                unusable=unusable(self._started_at, self._started(), self._client.fatal),
                # If no read is waiting, no records are fetched, which is not a problem.
                hungry=hungry_s is not None and hungry_s > self._fetch_s,
                since_start_s=0.0 if self._started_at is None else now - self._started_at,
                since_fetch_s=since(self._planner.counters.answered_at, now),
                since_heartbeat_s=since(membership.last_heartbeat_at, now),
                grouped=bool(membership.topics),
                joined=membership.joined,
                kept_out=None,
                coordinator=membership.coordinator,
                handler_s=since(busy_since, now),
                since_tick_s=now - loop.ticked_at if self._started_at is not None else 0.0,
                blocked_s=loop.blocked_s,
                since_blocked_s=since(loop.blocked_until, now),
                reachable=self._client.brokers.reachable,
                stuck={} if hungry_s is None else self._planner.stuck(now, self._stuck_s),
                refused=self._refused(now),
            ),
            Limits(
                fetch_s=self._fetch_s,
                heartbeat_s=membership.session_s,
                handler_s=math.inf,  # a handler may take long, because its lock is renewed
                tick_s=TICK_S + WARN_AFTER_S[1],
            ),
        )

    def _look(self) -> None:
        if not self._hungry():
            self._hungry_since = None
        elif self._hungry_since is None:
            self._hungry_since = time.monotonic()

    def _starved(self, late_s: float, now: float) -> str:
        return "in that time, no fetch was answered, no lock renewed and no heartbeat sent"

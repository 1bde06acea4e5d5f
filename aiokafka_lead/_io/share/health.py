"""Gathers the observations for a share consumer's health, cheaply and without requests."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ..._core.consumer.health import Facts, Limits, judge
from ..._core.share.planner import SharePlanner
from ..._options.logs import client_log
from ...config.share import ShareConsumerConfig
from ...health import ConsumerHealth
from ..client import Client
from ..consumer.health import TICK_S, WARN_AFTER_S, LoopWatch, since, unusable
from .membership import ShareMembership


class ShareHealthWatch:
    """The health observations of one consumer."""

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
        """``hungry`` returns True if a read waits for records of assigned partitions.

        ``busy_since`` returns when the application began its current work (``time.monotonic()``); ``refused`` returns
        the refusal that a run currently tolerates.
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
        """The consumer is running."""
        self._started_at = time.monotonic()
        self._client.spawn(self._loop.run, name="kafka loop watch")

    def health(self) -> ConsumerHealth:
        """Return the current health."""
        membership, loop, now = self._membership, self._loop, time.monotonic()
        hungry_s, busy_since = since(self._hungry_since, now), self._busy_since()
        return judge(
            Facts(
                unusable=unusable(self._started_at, self._started(), self._client.fatal),
                # Without a waiting read, fetching stops, which is not a problem.
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
                handler_s=math.inf,  # a job may take long: its lock is renewed meanwhile
                tick_s=TICK_S + WARN_AFTER_S[1],
            ),
        )

    def _look(self) -> None:
        if not self._hungry():
            self._hungry_since = None
        elif self._hungry_since is None:
            self._hungry_since = time.monotonic()

    def _starved(self, late_s: float, now: float) -> str:
        return "no fetch was answered, no lock renewed and no heartbeat sent meanwhile"

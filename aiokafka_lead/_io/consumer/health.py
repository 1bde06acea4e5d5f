"""Collects the data for a consumer's health and lag, and watches for topics that the cluster does not have.

Collecting sends no requests, and takes little time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from ..._core.backoff import Backoff
from ..._core.consumer.health import Facts, Limits, Standstill, judge
from ..._core.consumer.in_hand import CurrentRun, PollInterval
from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.reading import Reading
from ..._core.metadata.topics import Absences, absent
from ..._core.metadata.types import ClusterSnapshot, Moved
from ..._options.logs import ClientLog, client_log
from ...config import ConsumerConfig
from ...errors import KafkaError
from ...errors.shown import some_of
from ...types import TopicPartition
from ..client import Client
from ..loop import Signal
from .reader import Reader

if TYPE_CHECKING:
    from ...health import ConsumerHealth, ConsumerLag
    from ..group.standing import Standing

WARN_AFTER_S = (1.0, 3.0)
"""Bounds in seconds for the time after which a blocked event loop is logged, which is the heartbeat interval."""

LOOK_EVERY_S = 4.0
"""Interval in seconds at which positions are checked. It is shorter if ``request_timeout_ms`` is short."""

TICK_S = 0.25
"""Interval in seconds at which the clock is checked."""


class HealthWatch:
    """Determines the health and the lag of a consumer, for `Consumer.health` and `Consumer.lag`."""

    def __init__(
        self,
        client: Client,
        config: ConsumerConfig,
        reading: Reading,
        reader: Reader[Any, Any],
        progress: PollInterval,
        absence_watch: AbsenceWatch,
        standing: Standing | None,
        run: CurrentRun,
        started: Callable[[], bool],
    ) -> None:
        self._client = client
        self._reading = reading
        self._positions = reading.positions
        self._reader = reader
        self._counters = reading.counters
        self._progress = progress
        self._absence_watch = absence_watch
        self._group = standing
        self._run = run
        self._started = started
        self._started_at: float | None = None
        self._rebalance_s = (config.rebalance_timeout_ms or config.max_poll_interval_ms) / 1000
        request_timeout_s = config.request_timeout_ms / 1000
        self._standstill = Standstill(request_timeout_s, reading.end_of, self._unreachable)
        self._look_every_s = min(LOOK_EVERY_S, request_timeout_s / 8)
        self._looked_at = -math.inf
        self._limits = Limits(
            fetch_s=(config.request_timeout_ms + config.fetch_max_wait_ms) / 1000,
            heartbeat_s=math.inf,
            handler_s=config.max_poll_interval_ms / 1000,
            tick_s=TICK_S + WARN_AFTER_S[1],
        )
        self._loop = LoopWatch(
            min(max(WARN_AFTER_S[0], config.heartbeat_interval_ms / 1000), WARN_AFTER_S[1]),
            self._remember,
            self._starved,
            client_log("consumer", config.client_id),
        )
        self._fetched_at: float | None = None
        self._heartbeat_at: float | None = None
        """Times at which the last fetch and the last heartbeat were answered, as of the last `_remember`."""

    def start(self) -> None:
        """Start watching the event loop."""
        self._started_at = time.monotonic()
        self._client.spawn(self._loop.run, name="kafka loop watch")

    def health(self) -> ConsumerHealth:
        """Return the consumer's health at this moment."""
        group, loop, now = self._group, self._loop, time.monotonic()
        grouped = group is not None and group.wanted
        kept_out = None if group is None else group.kept_out
        self._look(now)
        limits = self._limits
        if group is not None:
            # While a classic group rebalances, its members are waiting and send no heartbeats.
            waits = not group.stable and kept_out is None
            limits = limits._replace(heartbeat_s=group.session_s + (self._rebalance_s if waits else 0.0))
        return judge(
            Facts(
                unusable=unusable(self._started_at, self._started(), self._client.fatal),
                hungry=self._is_hungry(now),
                since_start_s=0.0 if self._started_at is None else now - self._started_at,
                since_fetch_s=since(self._counters.answered_at, now),
                since_heartbeat_s=None if group is None else since(group.last_heartbeat_at, now),
                grouped=grouped,
                joined=group is not None and group.joined,
                kept_out=kept_out,
                coordinator=None if group is None else group.coordinator,
                handler_s=self._handler_s(now),
                since_tick_s=now - loop.ticked_at if self._started_at is not None else 0.0,
                blocked_s=loop.blocked_s,
                since_blocked_s=since(loop.blocked_until, now),
                reachable=self._client.brokers.reachable,
                absent=self._absence_watch.absent,
                stuck=self._standstill.found(self._client.metadata.snapshot, now),
                doubted_s=None if group is None else since(group.coordinator_doubted_since, now),
                doubted_for="" if group is None else group.coordinator_said,
                refused=None if self._run.work is None else self._run.work.problem(now),
            ),
            limits,
        )

    def lag(self) -> ConsumerLag:
        """Return the number of records between each position and the end of its partition."""
        from ...health import ConsumerLag

        work = self._run.work
        done: dict[TopicPartition, int] = {}
        if work is not None:
            done = {state.tp: position.offset for state, position in work.done()}
        partitions = {state.tp: self._lag(state, done.get(state.tp)) for state in self._positions}
        known = [lag for lag in partitions.values() if lag is not None]
        return ConsumerLag(partitions, sum(known) if len(known) == len(partitions) else None)

    def _lag(self, state: PartitionState, done: int | None) -> int | None:
        end = self._reading.end_of(state)
        if done is None:
            position = state.position
            done = None if position is None else position.offset
        return None if done is None or end is None else max(0, end - done)

    def _is_hungry(self, now: float) -> bool:
        """Return True if reads are waiting for fetches. The task that requests the health may also be the reader."""
        waits = self._reader.has_waited_since(now - self._limits.fetch_s)
        return waits and any(not state.paused for state in list(self._positions))

    def _handler_s(self, now: float) -> float | None:
        progress = self._progress
        if self._group is None and self._run.work is None:
            progress.look(self._reading.prefetch.records_taken, now)
        expires_at = progress.expires_at()
        return None if expires_at is None else now - (expires_at - progress.interval_s)

    def _look(self, now: float) -> None:
        self._looked_at = now
        self._standstill.look(
            list(self._positions),
            self._client.metadata.snapshot,
            now,
            (self._reading.prefetch.records_taken, self._reader.waited_s()),
        )

    def _unreachable(self, node_id: int) -> str | None:
        error = self._client.brokers.last_error(node_id)
        return None if error is None else error.message

    def _remember(self) -> None:
        now = time.monotonic()
        if now >= self._looked_at + self._look_every_s:
            self._look(now)
        self._fetched_at = self._counters.answered_at
        self._heartbeat_at = None if self._group is None else self._group.last_heartbeat_at

    def _starved(self, late_s: float, now: float) -> str:
        fetched_s, heartbeat_s = since(self._fetched_at, now), since(self._heartbeat_at, now)
        what = f"no fetch was answered for {late_s if fetched_s is None else fetched_s:.1f} s"
        group = self._group
        if group is not None and group.wanted:
            acknowledged = f"no heartbeat was acknowledged for {late_s if heartbeat_s is None else heartbeat_s:.1f} s"
            what += f" and {acknowledged} (session timeout: {group.session_s:g} s)"
        return what


def unusable(started_at: float | None, started: bool, fatal: KafkaError | None) -> str | None:
    """Return the reason why a consumer cannot be used, or None if it can.

    ``started_at`` is None before the start. ``started`` is False after a stop. ``fatal`` is the fatal error.
    """
    if started_at is None:
        return "the consumer has not been started"
    if not started:
        return "the consumer has been stopped"
    return None if fatal is None else f"the consumer has failed: {fatal}"


def since(at: float | None, now: float) -> float | None:
    """Return the seconds since ``at``, or None if it is None."""
    return None if at is None else now - at


class LoopWatch:
    """Detects a blocked event loop. Its task sleeps for `TICK_S` repeatedly, and wakes late after a blockage.

    ``remember`` is called before each sleep. ``starved`` is called with the length of the blockage and the time, and
    returns a description of the requests that were delayed. It must use what ``remember`` has stored, because other
    tasks may have run after the blockage.
    """

    def __init__(
        self, warn_after_s: float, remember: Callable[[], None], starved: Callable[[float, float], str], log: ClientLog
    ) -> None:
        self.warn_after_s = warn_after_s
        self._remember = remember
        self._starved = starved
        self._log = log
        self.ticked_at = time.monotonic()
        """Time at which the task last woke."""
        self.blocked_s = 0.0
        """Length of the last blockage in seconds."""
        self.blocked_until: float | None = None

    async def run(self) -> None:
        """Watch the event loop until cancelled."""
        self.ticked_at = time.monotonic()
        while True:
            self._remember()
            await anyio.sleep(TICK_S)
            now = time.monotonic()
            late_s = now - self.ticked_at - TICK_S
            self.ticked_at = now
            if late_s >= self.warn_after_s:
                self.blocked_s, self.blocked_until = late_s, now
                self._log.warning(
                    "the event loop was blocked for %.1f s; %s. Run code that takes this long without awaiting "
                    "in a thread",
                    late_s,
                    self._starved(late_s, now),
                )


class Subscribed(Protocol):
    """The topics to read, from a subscription or an assignment."""

    @property
    def topics(self) -> Iterable[str]: ...


class AbsenceWatch:
    """Finds topics and partitions that the consumer should read but that do not exist.

    Its task sleeps while all of them exist.
    """

    def __init__(self, client: Client, subscription: Subscribed, leaderless: Collection[PartitionState] = ()) -> None:
        self._client = client
        self._subscription = subscription
        self._leaderless = leaderless
        """Assigned partitions without a known leader."""
        self._absences = Absences(Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms))
        self._wake = Signal()
        self._log = client_log("consumer", client.config.client_id)

    @property
    def absent(self) -> tuple[str, ...]:
        """Names of the wanted topics and partitions that the cluster does not have."""
        return self._absences.confirmed

    async def run(self) -> None:
        """Look for missing topics and partitions until cancelled."""
        self._client.metadata.add_listener(self._on_metadata)
        try:
            while True:
                now = time.monotonic()
                until = self._look(now)
                await self._wake.wait(None if until is None else max(0.0, until - now))
        finally:
            self._client.metadata.remove_listener(self._on_metadata)

    def look_soon(self) -> None:
        """Check again without waiting for the backoff, because topics have changed or a caller is waiting."""
        self._absences.hurry(time.monotonic())
        self._wake.set()

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        if moved.topics or self._leaderless or self._absences:
            self._wake.set()

    def _look(self, now: float) -> float | None:
        metadata = self._client.metadata
        wanted = [state.tp for state in self._leaderless]
        look = self._absences.look(
            absent(self._subscription.topics, wanted, metadata.snapshot), metadata.full_answers, now
        )
        if look.refresh:
            metadata.request_update()
        if look.warn_of:
            self._log.warning(
                "cannot read %s: the cluster does not have it; the client keeps looking for it",
                some_of(sorted(map(str, look.warn_of))),
            )
        return look.until

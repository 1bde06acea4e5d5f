"""What a `Consumer` consists of, put together."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from ..._core.consumer.deserializers import Deserializers
from ..._core.consumer.fetch_answer import AnswerOptions, AnswerReader
from ..._core.consumer.fetch_plan import FetchLimits, FetchPlanner
from ..._core.consumer.fetch_request import FetchOptions
from ..._core.consumer.fetched import DEFAULT_JOINED_RECORDS
from ..._core.consumer.in_hand import InHand
from ..._core.consumer.metrics import ConsumerCounters, ConsumerMetrics, PartitionMetrics
from ..._core.consumer.partition_state import Backoffs, PartitionState
from ..._core.consumer.positions import Positions
from ..._core.consumer.prefetch import Prefetch
from ..._core.consumer.reset_policy import parse_reset_policy
from ..._core.consumer.subscription import Subscription, SubscriptionKind
from ..._core.group.poll_interval import PollInterval
from ..._options.logs import client_log
from ..._wire.messages.fetch import FetchRequest
from ..._wire.messages.list_offsets import ListOffsetsRequest
from ..._wire.messages.metadata import MetadataRequest
from ...config import ConsumerConfig
from ...errors import ClientClosedError, CommitFailedError, IllegalStateError, RequestTimedOutError
from ...types import OffsetAndMetadata, TopicPartition
from ..cancellation import cancelled_by_scope, to_the_end
from ..client import Client
from ..loop import Waiter
from .absence_watch import AbsenceWatch
from .fetcher import Fetcher
from .health import HealthWatch
from .leases import Leases
from .offset_queries import OffsetQueries
from .position_keeper import PositionKeeper
from .reader import Reader, Witness
from .readiness import Readiness
from .subscriber import Subscriber

if TYPE_CHECKING:
    from ..group.auto_commit import AutoCommit
    from ..group.offsets import GroupOffsets
    from ..group.parallel_work import ParallelWork
    from ..group.task import GroupTask

__all__ = ["HOT_REQUESTS", "ConsumerEngine"]


HOT_REQUESTS = (ListOffsetsRequest, FetchRequest)
"""What the first records wait for."""

K = TypeVar("K")
V = TypeVar("V")

SESSIONS_CLOSE_WITHIN_S = 1.0
"""How much of a stop telling the brokers may take."""

DEPART_CANCELLED_WITHIN_S = 2.0
"""How long a consumer whose task is cancelled takes to commit and to leave its group."""


class ConsumerEngine(Generic[K, V]):
    """Owns the consumer's parts and its background task; the facade calls the parts."""

    def __init__(self, client: Client, config: ConsumerConfig) -> None:
        self.client = client
        self.config = config
        reset_policy = parse_reset_policy(config.auto_offset_reset)
        read_committed = config.isolation_level == "read_committed"
        backoffs = Backoffs.of(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._log = client_log("consumer", config.client_id)
        self.counters = ConsumerCounters()
        self.positions = Positions()
        self.positions.on_settle = self._notify
        self.prefetch = Prefetch(Deserializers(config.key_deserializer, config.value_deserializer), self._notify)
        self.subscription = Subscription(
            exclude_internal_topics=config.exclude_internal_topics,
            patience_s=config.default_api_timeout_ms / 1000,
        )
        answers = AnswerReader(
            self.positions,
            self.prefetch,
            AnswerOptions(
                read_committed,
                config.check_crcs,
                config.max_decompressed_batch_bytes,
                reset_policy,
                config.metadata_max_age_ms / 1000,
                config.max_poll_records or DEFAULT_JOINED_RECORDS,
            ),
            backoffs,
            self.counters,
            self._log,
        )
        self.in_hand = InHand()
        self.progress = PollInterval(config.max_poll_interval_ms / 1000, time.monotonic())
        """When the application last came for records, or has finished some."""
        self.runner: ParallelWork | None = None
        """The run that is under way."""
        self.group_offsets: GroupOffsets | None = None
        """Committed offsets; None without a group."""
        self.auto_commit: AutoCommit | None = None
        self.group: GroupTask | None = None
        """The membership; None without a group."""
        self.leases: Leases | None = None
        """Batches in hand; None without a group."""
        witness: Witness | None = None
        if config.group_id is not None:
            witness = self._with_group(config.group_id)
        self.queries = OffsetQueries(client, read_committed=read_committed)
        keeper = PositionKeeper(
            client,
            self.positions,
            self.prefetch,
            answers,
            backoffs,
            reset_policy,
            self.group_offsets,
            read_committed=read_committed,
            timeout_ms=config.default_api_timeout_ms,
        )
        limits = FetchLimits(config.fetch_max_bytes, config.max_partition_fetch_bytes)
        options = FetchOptions(
            int(config.fetch_max_wait_ms),
            config.fetch_min_bytes,
            config.max_partition_fetch_bytes,
            read_committed,
            config.client_rack,
        )
        planner = FetchPlanner(self.positions, self.prefetch, limits)
        self.fetcher = Fetcher(client, self.positions, self.prefetch, planner, answers, keeper, options, self.counters)
        self.absence_watch = AbsenceWatch(client, self.subscription, planner.leaderless)
        self.readiness = Readiness(
            client, self.subscription, self.positions, self.prefetch, self.absence_watch, self.group
        )
        self.subscriber = Subscriber(
            client, self.subscription, self.positions, self.prefetch, reset_policy, self.auto_commit, self.group
        )
        self.reader: Reader[K, V] = Reader(
            self.prefetch,
            check=self.check_reading,
            watch=self.subscriber.watch,
            demand=self.fetcher.demand,
            poll=self.progress,
            witness=witness,
        )
        self.started = False
        self._read_committed = read_committed
        self.health = HealthWatch(
            client,
            config,
            self.positions,
            self.prefetch,
            self.reader,
            self.counters,
            self.progress,
            self.absence_watch,
            self.group,
            started=lambda: self.started,
            runner=lambda: self.runner,
            end_of=self.end_of,
        )
        self._stopped: Waiter[None] | None = None
        """Made by the first `stop`, done when that has ended."""

    def _with_group(self, group_id: str) -> Witness:
        """The parts that a group needs; returns the one that has to know of what goes out."""
        # Only here: whoever has no group does not pay for their import.
        from ..group.asking import GroupCoordinator
        from ..group.assembly import group_task
        from ..group.auto_commit import AutoCommit
        from ..group.coordinators import Coordinators
        from ..group.offsets import GroupOffsets

        config = self.config
        timeout_ms = config.default_api_timeout_ms
        coordinators = Coordinators(self.client)
        self.group_offsets = GroupOffsets(self.client, coordinators, group_id)
        if config.enable_auto_commit:
            interval_s = config.auto_commit_interval_ms / 1000
            self.auto_commit = AutoCommit(
                self.client, self.positions, self.group_offsets, self.in_hand, interval_s, timeout_ms
            )
        self.leases = Leases(self.positions, self.prefetch, self.in_hand, self.group_offsets, timeout_ms)
        self.group = group_task(
            self.client,
            config,
            GroupCoordinator(coordinators, group_id),
            self.positions,
            self.prefetch,
            self.in_hand,
            self.progress,
            self.auto_commit,
            lambda: self.runner,
        )
        self.group.on_error = self._notify
        self.group.on_change = lambda: self.readiness.notify()
        self.group_offsets.committer = self.group
        return self.auto_commit or self.in_hand

    # --- its life ----------------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool) -> None:
        """Bootstrap and begin to fetch; ``wait``: until it is known where reading begins.

        Raises what `Client.start` and `Readiness.wait` raise. Then, or when it is cancelled, nothing is left behind.
        """
        deadline = time.monotonic() + self.config.request_timeout_ms / 1000
        self.client.on_fatal(lambda error: self._notify())
        await self.client.start()
        self.started = True
        self.subscriber.start()
        self.client.spawn(self.fetcher.run, name="kafka fetcher")
        self.client.spawn(self.absence_watch.run, name="kafka absent partitions")
        self.health.start()
        if wait:
            try:
                await self._wait_at_start(deadline)
            except BaseException:
                await self.stop(2 * DEPART_CANCELLED_WITHIN_S * 1000)
                raise

    async def _wait_at_start(self, deadline: float) -> None:
        self.progress.waits()  # the application cannot come for records before
        try:
            missing = await self._missing(deadline)
        finally:
            self.progress.progressed(time.monotonic())
        if missing is not None:
            self._log.warning("the consumer has started, but goes on to wait in the background for %s", missing)

    async def wait_ready(self, timeout_ms: float) -> None:
        """Wait until it is known where reading begins; raises what `Readiness.wait` does, `RequestTimedOutError`."""
        self.client.check()
        if self.group is not None:
            self.group.check_wait()
        missing = await self._missing(time.monotonic() + timeout_ms / 1000)
        if missing is not None:
            raise RequestTimedOutError(f"not ready in {timeout_ms:g} ms: still waiting for {missing}")

    async def _missing(self, deadline: float) -> str | None:
        missing = await self.readiness.wait(deadline)
        if self._stopped is not None:
            raise ClientClosedError  # a member that leaves waits for nothing
        return missing

    async def stop(self, timeout_ms: float | None) -> None:
        """End everything, within ``timeout_ms`` (10000)."""
        if self.client.left_behind:
            return
        if self.group is not None:
            self.group.check_stop()
        timeout_s = 10.0 if timeout_ms is None else timeout_ms / 1000
        deadline = time.monotonic() + timeout_s
        if self._stopped is not None:
            await self._wait_stopped(timeout_s)
            return
        self._stopped = Waiter()
        self.reader.stop()
        try:
            if self.started and self.client.fatal is None:
                self.started = False
                try:
                    if self.runner is not None:
                        await self.runner.finish(deadline - timeout_s / 2, deadline - timeout_s / 4)
                finally:
                    await self._depart(deadline)
        finally:
            try:
                await self.client.stop(max(0.0, deadline - time.monotonic()) * 1000)
            finally:
                self._notify()
                self._stopped.set_result(None)

    async def _wait_stopped(self, timeout_s: float) -> None:
        """Another call stops the consumer: to close connections now would keep it from committing and leaving."""
        assert self._stopped is not None
        try:
            await self._stopped.wait(timeout_s)
        except TimeoutError:
            return

    async def _depart(self, deadline: float) -> None:
        """Commit, leave the group, close fetch sessions; in less time if the caller has been cancelled by a scope."""
        within_s = max(0.0, deadline - time.monotonic()) / 2
        if cancelled_by_scope():
            within_s = min(within_s, DEPART_CANCELLED_WITHIN_S)

        async def depart() -> None:
            if self.group is not None and self.group.wanted:
                await self.group.close(within_s)
            elif self.auto_commit is not None:
                await self.auto_commit.commit_last(within_s)
            await self.fetcher.close_sessions(min(within_s / 2, SESSIONS_CLOSE_WITHIN_S))

        await to_the_end(depart, "kafka consumer's end")

    def _notify(self) -> None:
        self.reader.wake.set()
        self.readiness.notify()

    def unsubscribed(self) -> None:
        """Nothing is to be read any more: whoever waits for records has to know."""
        self._notify()
        if self.runner is not None:
            self.runner.unsubscribed()

    def check_reading(self) -> None:
        """Raise what makes reading impossible."""
        self.client.check()
        if self.subscription.kind is SubscriptionKind.NONE:
            raise IllegalStateError("nothing to read: subscribe to topics, or assign partitions, first")
        if self.group is not None:
            self.group.check()

    async def all_topics(self) -> frozenset[str]:
        """The cluster's topics, asked for now."""
        response = await self.client.request_any(MetadataRequest(topics=None))
        return frozenset(topic.name for topic in response.topics if topic.name is not None and not topic.error_code)

    async def commit(
        self,
        to: GroupOffsets,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        timeout_ms: float,
    ) -> None:
        """Store these offsets, or where the partitions are; raises what `GroupOffsets.commit` does.

        Without offsets also `CommitFailedError`, when the others are stored, if partitions in hand were taken away.
        """
        if offsets is not None:
            await to.commit(offsets, timeout_ms)
            self.in_hand.committed(offsets, self.positions)
            return
        runner = self.runner
        done = ((state, state.position) for state in self.positions) if runner is None else runner.done()
        found = {state.tp: position.to_commit() for state, position in done if position is not None}
        await to.commit(found, timeout_ms)
        self.in_hand.committed(found, self.positions)
        if lost := self.in_hand.lost:
            names = ", ".join(map(str, sorted(lost)))
            raise CommitFailedError(f"{names} were taken away while records of them were in hand: they come again")

    def metrics(self) -> ConsumerMetrics:
        """Counts since the start, and the partitions as they are now."""
        counters = self.counters
        return ConsumerMetrics(
            records_consumed=self.prefetch.records_taken,
            bytes_fetched=counters.bytes_fetched,
            buffered_bytes=self.prefetch.total_bytes,
            fetches=counters.fetches,
            fetches_beside_session=counters.fetches_beside,
            fetch_latency_avg_ms=1000 * counters.fetch_latency_s / counters.answers if counters.answers else 0.0,
            failed_fetches=counters.failed_fetches,
            fetch_errors=dict(counters.errors),
            free_retries=counters.free_retries,
            leader_moves=counters.leader_moves,
            leader_move_ms_total=counters.leader_move_ms_total,
            leader_move_ms_max=counters.leader_move_ms_max,
            leader_move_ms_last=counters.leader_move_ms_last,
            session_resets=counters.session_resets,
            follower_redirects=counters.follower_redirects,
            stale_answers=counters.stale_answers,
            offset_resets=counters.resets,
            truncations=counters.truncations,
            partitions={state.tp: self._partition_metrics(state) for state in self.positions},
            metadata=self.client.metadata.metrics(),
        )

    def end_of(self, state: PartitionState) -> int | None:
        """The end that this consumer may read to, as of the last fetch."""
        return state.last_stable_offset if self._read_committed else state.high_watermark

    def _partition_metrics(self, state: PartitionState) -> PartitionMetrics:
        position = state.position
        end = self.end_of(state)
        return PartitionMetrics(
            position=None if position is None else position.offset,
            high_watermark=state.high_watermark,
            last_stable_offset=state.last_stable_offset,
            log_start_offset=state.log_start_offset,
            lag=None if position is None or end is None else max(0, end - position.offset),
            buffered_bytes=state.buffered_bytes,
            paused=state.paused,
        )

"""Assembly of the parts of a `Consumer`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from ..._core.consumer.deserializers import Deserializers
from ..._core.consumer.fetch_answer import AnswerOptions, AnswerReader
from ..._core.consumer.fetch_plan import FetchLimits, FetchPlanner
from ..._core.consumer.fetch_session import FetchOptions
from ..._core.consumer.fetched import DEFAULT_JOINED_RECORDS
from ..._core.consumer.followers import Followers
from ..._core.consumer.in_hand import CurrentRun, PollInterval
from ..._core.consumer.reading import Reading
from ..._core.consumer.reset_policy import parse_reset_policy
from ..._core.consumer.subscription import Subscription, SubscriptionKind
from ..._core.leadership.patience import RetryPolicy
from ..._core.tracing import ReadTracing, TracedClient, installed
from ..._options.logs import client_log
from ..._wire.messages.fetch import FetchRequest
from ..._wire.messages.list_offsets import ListOffsetsRequest
from ..._wire.messages.metadata import MetadataRequest
from ...config import ConsumerConfig
from ...errors import ClientClosedError, IllegalStateError, RequestTimedOutError
from ..client import Client
from ..deadline import Deadline
from ..kind import Kind
from ..loop import News, Signal
from .fetcher import FetchChannels, Fetcher, OwnChannels
from .health import AbsenceWatch, HealthWatch
from .offset_queries import OffsetQueries
from .position_keeper import PositionKeeper
from .reader import Reader
from .readiness import Readiness
from .subscriber import KeptTopics, Subscriber

if TYPE_CHECKING:
    from ..._core.telemetry.measures import Source
    from ..group.membership import Membership

HOT_REQUESTS = (ListOffsetsRequest, FetchRequest)
"""Requests that are needed before the first records."""

K = TypeVar("K")
V = TypeVar("V")

SESSIONS_CLOSE_WITHIN_S = 1.0
"""Time limit in seconds for closing fetch sessions during a stop."""


class ConsumerEngine(Kind, Generic[K, V]):
    """Assembles, starts and stops the parts of a consumer. The public class calls these parts directly."""

    def __init__(self, client: Client, config: ConsumerConfig) -> None:
        self.client = client
        client.kind = self
        self.config = config
        self._log = client_log("consumer", config.client_id)
        self._reader_wake = Signal()
        self._news = News()
        fetch_wake, released = Signal(), Signal()
        self.reading = reading = Reading(
            Deserializers(
                config.key_deserializer, config.value_deserializer, one_by_one=config.on_bad_record != "raise"
            ),
            read_committed=config.isolation_level == "read_committed",
            on_touch=fetch_wake.set,
            on_news=self._notify,
            on_release=released.set,
            max_decompressed_bytes=config.max_decompressed_bytes,
        )
        self.subscription = Subscription(
            exclude_internal_topics=config.exclude_internal_topics,
            patience_s=config.default_api_timeout_ms / 1000,
        )
        self.progress = PollInterval(config.max_poll_interval_ms / 1000, time.monotonic())
        """Measures the time since the application last requested or finished records."""
        self.run = CurrentRun()
        topics = KeptTopics(client, self.subscription)
        self.membership = self._membership(topics, released)
        standing = None if self.membership is None else self.membership.standing
        self.queries = OffsetQueries(client, reading)
        reset_policy = parse_reset_policy(config.auto_offset_reset)
        planner = FetchPlanner(
            reading.positions,
            reading.prefetch,
            FetchLimits(config.fetch_max_bytes, config.max_partition_fetch_bytes),
            merged=client.parent is not None,
        )
        self._fetcher = self._fetching(planner, fetch_wake)
        self._absence_watch = AbsenceWatch(client, self.subscription, planner.leaderless)
        self.readiness = Readiness(client, self.subscription, reading, self._absence_watch, standing, self._news)
        self.subscriber = Subscriber(client, self.subscription, topics, reading, reset_policy, self.membership)
        self.reader: Reader[K, V] = Reader(
            reading.prefetch,
            wake=self._reader_wake,
            check=self.check_reading,
            watch=self.subscriber.watch,
            demand=self._fetcher.demand,
            poll=self.progress,
            listener=None if self.membership is None else self.membership.auto_commit or self.membership.leases,
        )
        self.started = False
        self.tracing: ReadTracing | None = None
        self.health = HealthWatch(
            client,
            config,
            reading,
            self.reader,
            self.progress,
            self._absence_watch,
            standing,
            self.run,
            started=lambda: self.started,
        )

    def _membership(self, topics: KeptTopics, released: Signal) -> Membership | None:
        config = self.config
        if config.group_id is None:
            return None
        # Import these here, because consumers without a group do not need them.
        from ..group.membership import MembershipEvents, membership

        events = MembershipEvents(topics.keep, self._notify, self._news.tell, topics.is_late, released)
        return membership(self.client, config, config.group_id, self.reading, self.progress, self.run, events)

    def _fetching(self, planner: FetchPlanner, wake: Signal) -> Fetcher:
        """Return a new fetcher, and create the parts that look up positions."""
        client, config, reading = self.client, self.config, self.reading
        reset_policy = parse_reset_policy(config.auto_offset_reset)
        retry = RetryPolicy(config.retry_backoff_ms, config.retry_backoff_max_ms)
        options = FetchOptions(
            int(config.fetch_max_wait_ms),
            config.fetch_min_bytes,
            config.max_partition_fetch_bytes,
            reading.read_committed,
            config.client_rack,
        )
        channels: FetchChannels = OwnChannels(client, options)
        if client.parent is not None:
            from .merged_channels import MergedChannels  # imported here because other consumers do not need it

            channels = MergedChannels(client, options)
        max_age_s = config.metadata_max_age_ms / 1000
        followers = Followers(max_age_s, retry.patience_s, channels.held_for_s, client.brokers.ready_since)
        answers = AnswerReader(
            reading.positions,
            reading.prefetch,
            followers,
            AnswerOptions(
                reading.read_committed,
                config.check_crcs,
                config.max_decompressed_batch_bytes,
                reset_policy,
                max_age_s,
                config.max_poll_records or DEFAULT_JOINED_RECORDS,
            ),
            retry,
            reading.counters,
            self._log,
        )
        offsets = None if self.membership is None else self.membership.offsets
        keeper = PositionKeeper(client, reading, answers, retry, reset_policy, offsets, config.default_api_timeout_ms)
        return Fetcher(client, reading, planner, answers, followers, keeper, channels, wake)

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def begin(self, deadline: Deadline, *, wait: bool) -> None:
        """Start fetching. If ``wait`` is True, wait for the start positions. Raises the errors of `Readiness.wait`."""
        self.started = True
        self.client.on_fatal(lambda error: self._notify())
        self.client.measure(self._telemetry)
        if installed.tracer is not None:
            metadata = self.client.metadata
            traced = TracedClient.of(
                self.config,
                lambda: metadata.snapshot.cluster_id,
                self.config.group_id,
                self.reading.prefetch.records_by_topic,
            )
            self.tracing = installed.tracer.consumer(traced)
            if self.membership is not None:
                self.membership.commits.tracing = self.tracing
        self.subscriber.start()
        self.client.spawn(self._fetcher.run, name="kafka fetcher")
        self.client.spawn(self._absence_watch.run, name="kafka absent partitions")
        self.health.start()
        if wait:
            await self._wait_at_start(deadline)

    def _telemetry(self) -> Source:
        # Import this here, because few brokers subscribe to metrics.
        from ..._core.consumer.telemetry import ConsumerPlace, ConsumerTelemetry

        config, membership = self.config, self.membership
        standing = None if membership is None else membership.standing
        place = ConsumerPlace(
            config.client_rack,
            config.group_id,
            config.group_instance_id,
            lambda: None if standing is None else standing.member_id,
        )
        return ConsumerTelemetry(place, self.reading, self.reader.waited_s, self.client.own_connections)

    async def _wait_at_start(self, deadline: Deadline) -> None:
        self.progress.waits()  # the application cannot read before the end of the start
        try:
            missing = await self._missing(deadline)
        finally:
            self.progress.progressed(time.monotonic())
        if missing is not None:
            self._log.warning("the consumer has started, but is still waiting for %s", missing)

    async def wait_ready(self, timeout_ms: float) -> None:
        """Wait for the start positions. Raises `RequestTimedOutError` and the errors of `Readiness.wait`."""
        self.client.check()
        if self.membership is not None:
            self.membership.task.check_wait()
        missing = await self._missing(Deadline(timeout_ms))
        if missing is not None:
            raise RequestTimedOutError(
                f"the consumer was not ready within {timeout_ms:g} ms: still waiting for {missing}"
            )

    async def _missing(self, deadline: Deadline) -> str | None:
        missing = await self.readiness.wait(deadline)
        if self.client.stopping:
            raise ClientClosedError  # a leaving member gets no assignment
        return missing

    def block_done(self) -> None:
        self.reading.in_hand.release()

    def check_stop(self) -> None:
        if self.membership is not None:
            self.membership.task.check_stop()

    def refuse(self) -> None:
        self.started = False
        self.reader.stop()
        if self.run.work is not None:
            self.run.work.unsubscribed()

    async def finish(self, deadline: Deadline) -> None:
        if self.run.work is not None:
            from ..._core.run.handler import time_of_handlers

            await self.run.work.finish(*time_of_handlers(deadline.at, deadline.timeout_ms / 1000))

    async def depart(self, deadline: Deadline) -> None:
        """Commit, leave the group, and close the fetch sessions."""
        if not self.client.brokers.connections_made:
            return  # no broker has been reached, so the consumer is in no group
        membership = self.membership
        if membership is not None:
            await membership.commits.settle(deadline.left_s() / 4)
        within_s = deadline.left_s() / 2
        if membership is not None and membership.standing.wanted:
            await membership.task.close(within_s)
        elif membership is not None and membership.auto_commit is not None:
            await membership.auto_commit.commit_last(within_s)
        await self._fetcher.close_sessions(min(within_s / 2, SESSIONS_CLOSE_WITHIN_S))

    def release(self) -> None:
        if self.tracing is not None:
            self.tracing.stopped()
        self._notify()

    def _notify(self) -> None:
        self._reader_wake.set()
        self._news.tell()

    def subscribe(self, topics: Iterable[str], pattern: re.Pattern[str] | None = None, listener: object = None) -> None:
        """Subscribe to these topics, or to the topics that match ``pattern``. See `Consumer.subscribe`."""
        if pattern is None:
            self.subscription.subscribe(topics, listener)
        else:
            self.subscription.match(pattern, listener)
        self.subscription_changed()

    def subscription_changed(self) -> None:
        """Act on a change of the subscription by the application."""
        if self.run.on_subscription is not None:
            self.run.on_subscription()
        self.subscriber.changed(started=self.started)
        self._absence_watch.look_soon()  # another consumer may already have found that some topics do not exist

    def unsubscribed(self) -> None:
        """End reads that are waiting, because the consumer no longer has a subscription or assignment."""
        self._notify()
        if self.run.work is not None:
            self.run.work.unsubscribed()

    def check_reading(self) -> None:
        """Raise the error that prevents reading. Return if there is none."""
        self.client.check()
        if self.subscription.kind is SubscriptionKind.NONE:
            raise IllegalStateError("nothing to read: subscribe to topics, or assign partitions, first")
        if self.membership is not None:
            self.membership.task.check_read()
            self.membership.standing.check()

    def read_committed_only(self) -> None:
        """Switch to ``isolation_level="read_committed"``. Buffered records are dropped and fetched again."""
        if self.reading.read_committed:
            return
        self.reading.read_committed = True
        self._fetcher.read_committed_only()
        for state in self.reading.positions:
            self.reading.prefetch.drop(state)
            state.rewind()

    async def all_topics(self, timeout_ms: float | None) -> frozenset[str]:
        """Request and return the names of all topics of the cluster."""
        response = await self.client.request_any(MetadataRequest(topics=None), timeout_ms=timeout_ms)
        return frozenset(topic.name for topic in response.topics if topic.name is not None and not topic.error_code)

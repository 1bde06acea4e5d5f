"""Waits for a consumer's start positions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.reading import Reading
from ..._core.consumer.subscription import Subscription, SubscriptionKind
from ..._core.metadata.topics import believed
from ..._core.metadata.types import NO_LEADER, ClusterSnapshot, Moved
from ...errors import KafkaError, RequestTimedOutError, UnknownTopicOrPartitionError
from ...errors.base import own_copy
from ...errors.shown import some_of
from ..client import Client
from ..deadline import Deadline
from ..loop import News
from .health import AbsenceWatch

if TYPE_CHECKING:
    from ..group.standing import Standing
    from ..metadata.actor import MetadataActor


class Readiness:
    """Waits for positions and for a group's first assignment. It is woken by events instead of polling."""

    def __init__(
        self,
        client: Client,
        subscription: Subscription,
        reading: Reading,
        absence_watch: AbsenceWatch,
        standing: Standing | None,
        news: News,
    ) -> None:
        self._client = client
        self._subscription = subscription
        self._positions = reading.positions
        self._prefetch = reading.prefetch
        self._absence_watch = absence_watch
        self._group = standing
        self._news = news
        """Notified of every event that may end a wait."""

    async def wait_for_positions(self, states: list[PartitionState], timeout_ms: float) -> None:
        """Wait until each of these partitions has a position or is no longer assigned.

        Raises the error of a partition, `UnknownTopicOrPartitionError` for a partition that does not exist, and
        `RequestTimedOutError`.
        """
        deadline = Deadline(timeout_ms)
        if not self._without_position(states):
            return
        with self._patience() as patience:
            while True:
                self._client.check()
                waiting = self._without_position(states)
                for state in waiting:
                    if state.error is not None:
                        raise own_copy(state.error)
                if not waiting:
                    return
                self._prefetch.raise_report()
                snapshot = self._client.metadata.snapshot
                absent = [state for state in waiting if _is_absent(state, snapshot)]
                for state in absent:
                    # A missing topic may still be created, so wait for its partitions until the deadline.
                    if snapshot.partition_count(state.tp.topic) and patience.has_ended_for(state, snapshot):
                        raise _unknown(state, snapshot)
                try:
                    await self._next(deadline)
                except TimeoutError:
                    if absent:
                        raise _unknown(absent[0], snapshot) from None
                    names = _names(waiting, snapshot)
                    raise RequestTimedOutError(f"no position for {names} within {timeout_ms:g} ms") from None

    async def wait(self, deadline: Deadline, *, positions: bool = True) -> str | None:
        """Wait for the start positions. Return None or, at the deadline, a description of the missing step.

        If ``positions`` is False, wait only until the partitions to read are known. Partitions that do not exist are
        ignored, and so are partitions whose error reads will raise. Raises the error of a failed consumer, or the error
        that keeps it out of its group.
        """
        with self._patience() as patience:
            while True:
                self._client.check()
                if self._group is not None:
                    self._group.check()
                unknown = self._unknown_yet()
                waiting = self._waiting(patience) if positions else []
                if unknown is None and not waiting:
                    return None
                try:
                    await self._next(deadline)
                except TimeoutError:
                    return unknown or f"positions of {_names(waiting, self._client.metadata.snapshot)}"

    @contextmanager
    def _patience(self) -> Iterator[_Patience]:
        """In the block, let new metadata wake this wait, and yield the test for partitions that do not exist."""
        metadata = self._client.metadata
        metadata.add_listener(self._on_metadata)
        self._absence_watch.look_soon()
        try:
            yield _Patience(metadata)
        finally:
            metadata.remove_listener(self._on_metadata)

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        self._news.tell()

    async def _next(self, deadline: Deadline) -> None:
        """Wait until something changes that this wait depends on. Raises TimeoutError at the deadline."""
        await self._news.wait(deadline.left_s())

    def _without_position(self, states: Iterable[PartitionState]) -> list[PartitionState]:
        return [state for state in states if state.position is None and self._positions.owns(state)]

    def _waiting(self, patience: _Patience) -> list[PartitionState]:
        snapshot = self._client.metadata.snapshot
        return [
            state
            for state in self._without_position(self._positions)
            if state.error is None
            and (state.failure is None or state.failure.retriable)
            and not patience.has_ended_for(state, snapshot)
        ]

    def _unknown_yet(self) -> str | None:
        """Return the reason why the partitions to read are still unknown, or None."""
        subscription, metadata = self._subscription, self._client.metadata
        if subscription.kind is SubscriptionKind.PATTERN and not metadata.knows_every_topic:
            return "the names of the cluster's topics"
        if self._group is not None and subscription.by_topics:
            return self._group.awaits
        if subscription.kind is SubscriptionKind.TOPICS:
            unknown = sorted(subscription.topics - metadata.snapshot.topics.keys())
            return f"metadata of topic {unknown[0]!r}" if unknown else None
        if subscription.kind is SubscriptionKind.ASSIGNED and not self._is_assigned():
            return "the consumer to leave its group"
        return None

    def _is_assigned(self) -> bool:
        """Return True if the assigned partitions are being read, which requires that the member has left its group."""
        left = self._group is None or self._group.out
        return left and all(tp in self._positions for tp in self._subscription.assigned)


class _Patience:
    """Decides, during one call, whether a partition that is missing in the metadata counts as absent."""

    def __init__(self, metadata: MetadataActor) -> None:
        self._metadata = metadata
        self._answers_before = metadata.full_answers
        self._began_at = time.monotonic()

    def has_ended_for(self, state: PartitionState, snapshot: ClusterSnapshot) -> bool:
        """Return True if the responses since the start of the call agree that the partition does not exist."""
        answers = self._metadata.full_answers - self._answers_before
        waited_s = time.monotonic() - self._began_at
        return _is_absent(state, snapshot) and believed(answers, waited_s)


def _is_absent(state: PartitionState, snapshot: ClusterSnapshot) -> bool:
    """Return True if the cluster has the topic, but not this partition."""
    return state.tp.topic in snapshot.topics and snapshot.partition(*state.tp) is None


def _unknown(state: PartitionState, snapshot: ClusterSnapshot) -> KafkaError:
    count = snapshot.partition_count(state.tp.topic)
    why = f"topic {state.tp.topic!r} has partitions 0 to {count - 1}" if count else "the cluster has no such topic"
    return UnknownTopicOrPartitionError(f"no position for {state.tp}: {why}")


def _names(states: list[PartitionState], snapshot: ClusterSnapshot) -> str:
    return some_of([str(state.tp) + _why(state, snapshot) for state in states])


def _why(state: PartitionState, snapshot: ClusterSnapshot) -> str:
    if state.failure is not None:
        return f" ({state.failure})"
    if snapshot.leader(*state.tp)[0] == NO_LEADER:
        return " (no known leader)"
    return ""

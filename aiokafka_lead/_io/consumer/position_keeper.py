"""Look-ups of missing positions, and validation of uncertain ones.

Each call looks up a partition once, in the background. A failed look-up is repeated after the partition's backoff. The
result is used only if the partition's position has not been set since.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..._core.consumer.fetch_answer import AnswerReader
from ..._core.consumer.offset_lookup import LookupAnswer, by_leader, epoch_end_request, read_epoch_ends
from ..._core.consumer.partition_state import FetchState, PartitionState
from ..._core.consumer.reading import Reading
from ..._core.consumer.reset_policy import EARLIEST, LATEST, ResetPolicy
from ..._core.leadership.patience import RetryPolicy
from ..._core.metadata.refresh import LEADERLESS, STALE, doubted, lost, refused
from ..._options.logs import client_log
from ..._wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from ...errors import KafkaError, NoOffsetForPartitionError, UnknownServerError
from ..client import Client
from .offset_queries import list_offsets

if TYPE_CHECKING:
    from ..group.offsets import GroupOffsets


class PositionKeeper:
    """Looks up positions: the committed offset first, then ``auto_offset_reset``.

    For brokers before Fetch 12, it also validates positions with OffsetForLeaderEpoch.
    """

    def __init__(
        self,
        client: Client,
        reading: Reading,
        answers: AnswerReader,
        retry: RetryPolicy,
        reset_policy: ResetPolicy | None,
        group_offsets: GroupOffsets | None,
        timeout_ms: float,
    ) -> None:
        self._client = client
        self._log = client_log("consumer", client.config.client_id)
        self._positions = reading.positions
        self._prefetch = reading.prefetch
        self._answers = answers
        self._retry = retry
        self._reset_policy = reset_policy
        self._group_offsets = group_offsets
        self._reading = reading
        self._timeout_ms = timeout_ms

    def look_up(self, states: Iterable[PartitionState]) -> None:
        """Start the look-ups that these partitions need before they can be fetched."""
        by_state: dict[FetchState, list[PartitionState]] = {}
        for state in states:
            by_state.setdefault(state.state, []).append(state)
        initializing = by_state.get(FetchState.INITIALIZING, [])
        if self._group_offsets is None:
            for state in initializing:
                self._reset(state)
        elif initializing:
            self._spawn(_Lookup(initializing), self._committed, self._group_offsets)
        self._by_leader(by_state.get(FetchState.RESETTING, []), self._list)
        self._by_leader(by_state.get(FetchState.VALIDATING, []), self._validate)

    def _by_leader(self, states: list[PartitionState], ask: Callable[[_Lookup, int], Awaitable[None]]) -> None:
        if not states:
            return
        by_tp = {state.tp: state for state in states}
        leaders, leaderless = by_leader(by_tp, self._client.metadata.snapshot)
        if leaderless:
            # They are looked up once new metadata contains their leaders.
            self._client.metadata.request_update(LEADERLESS)
        for node_id, partitions in leaders.items():
            self._spawn(_Lookup([by_tp[tp] for tp in partitions]), ask, node_id)

    def _spawn(self, lookup: _Lookup, ask: Callable[..., Awaitable[None]], about: object) -> None:
        for state in lookup.asked:
            state.looked_up = True
        self._client.spawn(self._ask, lookup, ask, about, name="look up positions")

    async def _ask(self, lookup: _Lookup, ask: Callable[..., Awaitable[None]], about: object) -> None:
        try:
            await ask(lookup, about)
        except KafkaError as error:
            node_id = about if isinstance(about, int) else None
            for state in self._current(lookup):
                self._failed(state, error, node_id)
            if error.refreshes_metadata:
                self._client.metadata.request_update(STALE if node_id is None else lost(node_id))

    def _current(self, lookup: _Lookup) -> list[PartitionState]:
        """Return the partitions whose position has not been set since the look-up began."""
        return [
            state
            for state, incarnation in lookup.asked.items()
            if state.incarnation == incarnation and self._positions.owns(state)
        ]

    def _failed(self, state: PartitionState, error: KafkaError, leader_id: int | None) -> None:
        """Back off after a failure of the leader ``leader_id``, or of the group's coordinator if it is None."""
        if not error.retriable and not isinstance(error, UnknownServerError):
            self._prefetch.report((type(error), state.tp.topic), error)
        state.failure = error
        now = time.monotonic()
        leader_epoch = self._client.metadata.snapshot.leader(*state.tp)[1]
        state.back_off(now, leader_epoch, self._retry)
        if leader_id is not None and state.patience.in_doubt(now, self._retry.patience_s):
            self._client.metadata.request_update(doubted(leader_id))

    def _reset(self, state: PartitionState) -> None:
        policy = self._positions.policy_of(state, self._reset_policy)
        if policy is not None:
            state.reset(EARLIEST if state.is_late and policy is LATEST else policy)
            return
        text = f'{state.tp} has no position and auto_offset_reset is "none": seek to continue'
        topic, partition = state.tp
        self._prefetch.fail(state, NoOffsetForPartitionError(text, topic=topic, partition=partition))

    # --- the three kinds of look-ups ---------------------------------------------------------------------------------

    async def _committed(self, lookup: _Lookup, group_offsets: GroupOffsets) -> None:
        """Set positions to the group's committed offsets.

        A partition without one returns to the position at which reading began, or is reset by its policy.
        """
        partitions = [state.tp for state in lookup.asked]
        found, failed = await group_offsets.committed_now(partitions, self._timeout_ms)
        for state in self._current(lookup):
            if state.tp in failed:
                self._failed(state, failed[state.tp], None)
                continue
            committed = found[state.tp]
            if committed is None and state.base is not None:
                state.move(*state.base)
            elif committed is None:
                self._reset(state)
            else:
                state.base = None
                state.move(committed.offset, -1 if committed.leader_epoch is None else committed.leader_epoch)
        if any(error.refreshes_metadata for error in failed.values()):
            self._client.metadata.request_update(STALE)

    async def _list(self, lookup: _Lookup, node_id: int) -> None:
        """Set positions by ListOffsets, according to each partition's reset policy."""
        wall_clock_ms = int(time.time() * 1000)
        timestamps = {
            state.tp: state.reset_policy.timestamp_at(wall_clock_ms)
            for state in lookup.asked
            if state.reset_policy is not None
        }
        answer = await list_offsets(self._client, node_id, timestamps, read_committed=self._reading.read_committed)
        for state in self._current(lookup):
            found = answer.found.get(state.tp)
            if found is None:
                self._unanswered(state, answer, node_id)
            elif found.offset < 0:
                # No record is recent enough (KIP-1106).
                state.reset(LATEST)
            else:
                self._log.debug("%s starts at offset %d", state.tp, found.offset)
                state.move(found.offset)
        self._refresh(answer, node_id)

    async def _validate(self, lookup: _Lookup, node_id: int) -> None:
        """Compare positions with the leader's log by OffsetForLeaderEpoch (KIP-320).

        If the leader does not support that request, the positions count as valid.
        """
        snapshot = self._client.metadata.snapshot
        connection = await self._client.brokers.get(node_id, self._client.lookup_lane)
        if not connection.versions.supports(OffsetForLeaderEpochRequest):
            for state in self._current(lookup):
                state.validated(snapshot.leader(*state.tp)[1])
            return
        epochs = {state.tp: state.fetch_epoch for state in lookup.asked}
        answer = read_epoch_ends(await connection.request(epoch_end_request(epochs, snapshot)))
        for state in self._current(lookup):
            found = answer.found.get(state.tp)
            if found is None:
                self._unanswered(state, answer, node_id)
            else:
                self._answers.epoch_ended(state, found.end_offset, found.leader_epoch, snapshot.leader(*state.tp)[1])
        self._refresh(answer, node_id)

    def _unanswered(self, state: PartitionState, answer: LookupAnswer[Any], node_id: int) -> None:
        error = answer.failed.get(state.tp) or UnknownServerError(f"the broker's response lacks {state.tp}")
        self._failed(state, error, node_id)

    def _refresh(self, answer: LookupAnswer[Any], node_id: int) -> None:
        if answer.refresh:
            self._client.metadata.request_update(refused(node_id))


class _Lookup:
    """The partitions of one look-up. A response does not count for a partition whose position was set after sending."""

    __slots__ = ("asked",)

    def __init__(self, states: Iterable[PartitionState]) -> None:
        self.asked = {state: state.incarnation for state in states}

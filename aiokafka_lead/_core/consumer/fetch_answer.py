"""Processing Fetch responses: records go to the prefetch buffer, errors to their partitions.

An error delays only its own partition. A response can move a partition's position only while none of the partition's
data is buffered. Otherwise the buffered records are handed out first, and then the same offset is fetched again.
"""

from __future__ import annotations

import math
from struct import Struct

from ... import errors
from ..._options.logs import ClientLog
from ..._values import NamedTuple
from ..._wire.messages.fetch import FetchResponse, PartitionData
from ...types import TopicPartition
from ..leadership.hints import FIRST_FETCH_WITH_HINTS, HintReader
from ..leadership.patience import RetryPolicy
from ..metadata.types import HINT_ERRORS, NO_TOPIC_ID, ClusterSnapshot, LeaderHint
from .fetch_plan import PlannedFetch
from .fetch_session import FIRST_VERSION_WITH_DIVERGING_EPOCH
from .fetched import FetchedData
from .followers import Followers, may_serve
from .partition_state import BEYOND_ANY_LOG, FetchState, PartitionState
from .position import PartitionFetch
from .positions import Positions
from .prefetch import Prefetch
from .reading import ConsumerCounters
from .reset_policy import ResetPolicy

# A log entry of any message format begins with its offset (int64) and the length of the rest (int32). Format 2
# continues with leader epoch (int32), format (int8), checksum (int32), attributes (int16) and last offset delta
# (int32).
_ENTRY = Struct(">qiib")
_LAST_OFFSET_DELTA = Struct(">i")
_OVERHEAD = 12
_LAST_OFFSET_DELTA_AT = 23
_V2_HEADER = 61


class FetchedSpan(NamedTuple):
    """The offsets that the complete batches of a response cover."""

    next_offset: int
    """Offset after the last batch, from which to fetch next. It is -1 if there is no complete batch."""
    leader_epoch: int
    """Leader epoch under which the last batch was written, or -1."""


_NOTHING = FetchedSpan(-1, -1)


def scan_batches(buffer: memoryview) -> FetchedSpan:
    """Find the end of the last complete batch by adding up batch lengths.

    Stops at invalid bytes. The code that decodes the batches reports them as corrupt.
    """
    at = last = 0
    end = len(buffer) - _ENTRY.size
    found = False
    while at <= end:
        length: int = _ENTRY.unpack_from(buffer, at)[1]
        following = at + _OVERHEAD + length
        if length < 5 or following > len(buffer):
            break
        last = at
        found = True
        at = following
    if not found:
        return _NOTHING
    offset, length, leader_epoch, magic = _ENTRY.unpack_from(buffer, last)
    if magic < 2:
        # In formats 0 and 1, an entry has the offset of its last message.
        return FetchedSpan(offset + 1, -1)
    if _OVERHEAD + length < _V2_HEADER:
        return _NOTHING
    next_offset = offset + _LAST_OFFSET_DELTA.unpack_from(buffer, last + _LAST_OFFSET_DELTA_AT)[0] + 1
    return FetchedSpan(next_offset, leader_epoch) if next_offset <= BEYOND_ANY_LOG else _NOTHING


STALE = HINT_ERRORS | {
    errors.ReplicaNotAvailableError.code,
    errors.KafkaStorageError.code,
    errors.OffsetNotAvailableError.code,
    errors.UnknownTopicOrPartitionError.code,
    errors.UnknownTopicIdError.code,
    errors.InconsistentTopicIdError.code,
}
"""Error codes after which metadata is refreshed (Java: FetchCollector)."""

NO_NEWS = {errors.UnknownLeaderEpochError.code, errors.UnknownServerError.code}
"""Error codes that do not suggest another leader. Metadata is refreshed only after several in a row (rule 23)."""


LAGGING = {errors.UnknownLeaderEpochError.code, errors.OffsetNotAvailableError.code}
"""Error codes of a leader that has not caught up since its election."""

LEADERS_WORD = {errors.OffsetOutOfRangeError.code, errors.CorruptRecordError.code}
"""Error codes that fail a partition or move its position. They are trusted only if the leader sends them."""


class AnswerOptions(NamedTuple):
    """The consumer's options that determine how `AnswerReader` treats responses."""

    read_committed: bool
    check_crcs: bool
    max_decompressed_batch_bytes: int
    reset_policy: ResetPolicy | None
    metadata_max_age_s: float
    """Seconds after which a partition that is read from a follower returns to its leader."""
    joined_records: int
    """Maximum number of records in consecutive batches that are joined."""


class FetchOutcome:
    """The result of reading a response: errors, hints and other actions for the caller to take."""

    __slots__ = ("doubt", "hints", "missing", "refresh")

    def __init__(self, hints: list[LeaderHint]) -> None:
        self.hints = hints
        self.refresh = False
        """True if the metadata is outdated."""
        self.doubt = False
        """True if the broker keeps sending errors, so another broker may be the leader of a partition."""
        self.missing = False
        """True if the response to a full request omits partitions, which makes the session unusable."""


class AnswerReader:
    """Applies Fetch responses: updates the partitions' states, and adds records to the prefetch buffer."""

    def __init__(
        self,
        positions: Positions,
        prefetch: Prefetch,
        followers: Followers,
        options: AnswerOptions,
        retry: RetryPolicy,
        counters: ConsumerCounters,
        log: ClientLog,
    ) -> None:
        self._positions = positions
        self._prefetch = prefetch
        self._followers = followers
        self._options = options
        self._retry = retry
        self._counters = counters
        self._log = log
        self._void_to = -math.inf
        """Time before which requests count as obsolete. Their responses are ignored."""

    def read_committed_only(self, now: float) -> None:
        """Hide aborted transactions from now on, and ignore the responses to earlier requests.

        Those responses may contain records of open transactions, and do not list the aborted transactions.
        """
        self._options = self._options._replace(read_committed=True)
        self._void_to = now

    def read(
        self, planned: PlannedFetch, response: FetchResponse, snapshot: ClusterSnapshot, now: float
    ) -> FetchOutcome:
        """Process a response without a top-level error. Return the actions that the caller has to take."""
        hints = HintReader(planned.version >= FIRST_FETCH_WITH_HINTS, response.node_endpoints)
        outcome = FetchOutcome(hints.hints)
        if planned.sent_at <= self._void_to:
            self._counters.stale_answers += sum(len(topic.partitions) for topic in response.responses)
            return outcome
        seen = 0
        for topic in response.responses:
            name = topic.topic or planned.names.get(topic.topic_id)
            if name is None:
                self._counters.unexpected_partitions += len(topic.partitions)
                continue
            for data in topic.partitions:
                tp = TopicPartition(name, data.partition_index)
                asked = planned.asked.get(tp)
                if asked is None:
                    self._counters.unexpected_partitions += 1
                    continue
                seen += 1
                state = self._positions.get(tp)
                if state is not None and state.patience.skipped(planned.sent_at, asked.leader_epoch):
                    self._counters.free_retries += 1
                if state is None or state.state is not FetchState.FETCHING or self._is_stale(state, asked, snapshot):
                    self._counters.stale_answers += 1
                elif data.error_code:
                    self._error(state, asked, data, planned, outcome, hints, snapshot, now)
                else:
                    self._records(state, asked, data, planned, outcome, snapshot, now)
        outcome.missing = planned.request.epoch in (0, -1) and seen < len(planned.asked)
        return outcome

    @staticmethod
    def _is_stale(state: PartitionState, asked: PartitionFetch, snapshot: ClusterSnapshot) -> bool:
        """Return True if the partition's position has changed or its topic has been recreated since the request."""
        if state.fetch_offset != asked.fetch_offset:
            return True
        topic_id = snapshot.topic_id(state.tp.topic)
        return NO_TOPIC_ID not in (topic_id, asked.topic_id) and topic_id != asked.topic_id

    @staticmethod
    def _is_leaders(state: PartitionState, planned: PlannedFetch, snapshot: ClusterSnapshot) -> bool:
        """Return True if the response comes from the leader.

        Only the leader determines where a log begins, ends and diverges (KIP-392). A follower may lag, may have deleted
        more segments, or may have a damaged disk. Its response may even arrive after the client has stopped reading the
        partition from it.
        """
        return snapshot.leader(*state.tp)[0] == planned.node_id

    # --- responses without an error ----------------------------------------------------------------------------------

    def _records(
        self,
        state: PartitionState,
        asked: PartitionFetch,
        data: PartitionData,
        planned: PlannedFetch,
        outcome: FetchOutcome,
        snapshot: ClusterSnapshot,
        now: float,
    ) -> None:
        """Handle a partition without an error: the bounds of its log, the replica to read from, and its records.

        The records go undecoded to the prefetch buffer. They are ignored if the log diverges or if all of them are too
        old.
        """
        if data.high_watermark >= 0:
            state.high_watermark = data.high_watermark
        if data.last_stable_offset >= 0:
            state.last_stable_offset = data.last_stable_offset
        if data.log_start_offset >= 0:
            state.log_start_offset = data.log_start_offset
        if data.diverging_epoch.end_offset >= 0 and planned.version >= FIRST_VERSION_WITH_DIVERGING_EPOCH:
            if self._is_leaders(state, planned, snapshot):
                self._diverging(state, data.diverging_epoch.end_offset, data.diverging_epoch.epoch)
            else:
                state.read_from_leader()
                state.back_off(now, asked.leader_epoch, self._retry)
            return
        records = data.records
        span = scan_batches(records) if records else _NOTHING
        if 0 <= span.next_offset <= asked.fetch_offset:
            self._too_old(state, asked, planned, outcome, snapshot, now)
            return
        state.patience.succeeded()
        state.failure = None
        state.move_clock.served(planned.node_id, planned.sent_at, self._counters)
        state.validated_epoch = asked.leader_epoch
        if data.preferred_read_replica < 0:
            self._followers.served(planned.node_id, state.tp)
        elif not self._follows(state, data.preferred_read_replica, planned, outcome, snapshot, now) and not records:
            # Leaders name a follower without waiting for records. If the follower was abandoned and the leader names it
            # even without a rack, the fetches would become a tight loop.
            state.back_off(now, asked.leader_epoch, self._retry)
        if not records:
            return
        assert isinstance(records, memoryview)  # the codec decodes records to a memoryview
        if span.next_offset < 0:
            self._unreadable(state, "the response contains no complete batch")
            return
        aborted = (data.aborted_transactions or ()) if self._options.read_committed else None
        self._counters.count_bytes(state.tp.topic, len(records))
        options = self._options
        fetched = FetchedData(
            state,
            records,
            aborted,
            check_crcs=options.check_crcs,
            max_decompressed_batch_bytes=options.max_decompressed_batch_bytes,
            joined_records=options.joined_records,
        )
        self._prefetch.add(state, fetched)
        state.received(span.next_offset, span.leader_epoch)

    def _follows(
        self,
        state: PartitionState,
        replica: int,
        planned: PlannedFetch,
        outcome: FetchOutcome,
        snapshot: ClusterSnapshot,
        now: float,
    ) -> bool:
        """Switch to the follower that the leader has named.

        Returns True if the partition is now read from it.
        """
        if replica == planned.node_id:
            # Only leaders name followers, and never themselves, so another broker has answered at the address of this
            # one.
            outcome.refresh = True
            if state.read_from_leader():
                self._followers.refused(replica, state.tp, now)
            return False
        known = may_serve(replica, state.tp, snapshot)
        outcome.refresh = outcome.refresh or not known
        if not self._followers.follows(planned.node_id, replica, state.tp, now, known=known):
            return False
        self._counters.follower_redirects += 1
        state.read_from(replica, now + self._options.metadata_max_age_s)
        return True

    def _too_old(
        self,
        state: PartitionState,
        asked: PartitionFetch,
        planned: PlannedFetch,
        outcome: FetchOutcome,
        snapshot: ClusterSnapshot,
        now: float,
    ) -> None:
        """Handle a response whose records are all before the requested offset.

        The offsets in the log may be corrupt, because no checksum covers them. If the leader keeps sending such
        records, reading cannot continue.
        """
        self._leave_follower(state, planned, now)
        state.back_off(now, asked.leader_epoch, self._retry)
        outcome.refresh = True
        if self._is_leaders(state, planned, snapshot) and state.patience.in_doubt(now, self._retry.patience_s):
            outcome.doubt = True
            self._unreadable(state, "the leader sends only records before that offset")

    def _leave_follower(self, state: PartitionState, planned: PlannedFetch, now: float) -> None:
        """Read the partition from its leader. If the broker that was asked is a follower, count its refusal."""
        if state.preferred_replica == planned.node_id:
            self._followers.refused(planned.node_id, state.tp, now)
        state.read_from_leader()

    def _unreadable(self, state: PartitionState, why: str) -> None:
        if self._believe(state):
            error = errors.CorruptBatchError(
                f"{state.tp} cannot be read at offset {state.fetch_offset}: {why}; seek past it to continue",
                topic=state.tp.topic,
                partition=state.tp.partition,
                offset=state.fetch_offset,
            )
            self._prefetch.fail(state, error)

    def too_large(self, state: PartitionState, asked: PartitionFetch, snapshot: ClusterSnapshot, why: str) -> None:
        """Stop reading a partition whose next batch is too large. Reads raise `FrameTooLargeError`.

        ``why`` is the part of the message that says what is too large.
        """
        if state.state is FetchState.FETCHING and not self._is_stale(state, asked, snapshot) and self._believe(state):
            what = f"{state.tp} cannot be read at offset {state.fetch_offset}"
            error = errors.FrameTooLargeError(
                f"{what}: {why}; increase receive_max_bytes, or seek past the batch to continue"
            )
            self._prefetch.fail(state, error)

    def _believe(self, state: PartitionState) -> bool:
        """Return True if the response may move the position now.

        If data is buffered, returns False and schedules another fetch of the offset.
        """
        if state.fetched:
            state.read_ahead = False
            state.touch()
            return False
        return True

    # --- truncation --------------------------------------------------------------------------------------------------

    def _diverging(self, state: PartitionState, end_offset: int, epoch: int) -> None:
        """Handle a leader in whose log the last fetched epoch ends at another offset (KIP-320, KIP-595).

        ``end_offset`` and ``epoch`` come from the response's ``DivergingEpoch``.
        """
        if end_offset >= state.fetch_offset:
            # No record that was read has been lost. The leader only has another epoch at this offset.
            state.received(state.fetch_offset, epoch)
        elif self._believe(state):
            self._truncated(state, end_offset, epoch)

    def epoch_ended(self, state: PartitionState, end_offset: int, epoch: int, leader_epoch: int) -> None:
        """Handle the response to OffsetForLeaderEpoch, which confirms the position or shows that the log has diverged.

        ``end_offset`` and ``epoch`` are -1 if the leader does not know the epoch.
        """
        if end_offset < 0 or epoch < 0 or end_offset >= state.fetch_offset:
            # If the leader does not know the epoch, that does not prove data loss, although Java resets the position.
            # Apache Kafka answers so only if it keeps no epochs for the log. After a loss, it returns the end of the
            # epoch.
            state.validated(leader_epoch)
        elif self._believe(state):
            self._truncated(state, end_offset, epoch)
        else:
            state.validate_later()

    def _truncated(self, state: PartitionState, end_offset: int, epoch: int) -> None:
        """Handle a log that no longer contains the records just before the position.

        ``end_offset`` is the offset at which the leader's log diverges, and ``epoch`` is the epoch that ends there.
        """
        self._counters.truncations += 1
        tp, offset = state.tp, state.fetch_offset
        if self._positions.policy_of(state, self._options.reset_policy) is None:
            self._prefetch.fail(
                state,
                errors.LogTruncationError(
                    f"the log of {tp} was truncated before offset {offset}, and diverges at offset {end_offset}"
                    '; auto_offset_reset is "none", so seek to continue',
                    topic=tp.topic,
                    partition=tp.partition,
                    offset=offset,
                    diverging_offset=end_offset,
                    diverging_epoch=epoch if epoch >= 0 else None,
                ),
            )
            return
        self._prefetch.drop(state)
        self._log.warning(
            "the log of %s was truncated before offset %d: continuing at offset %d", tp, offset, end_offset
        )
        state.move(end_offset, epoch)

    # --- errors ------------------------------------------------------------------------------------------------------

    def _error(
        self,
        state: PartitionState,
        asked: PartitionFetch,
        data: PartitionData,
        planned: PlannedFetch,
        outcome: FetchOutcome,
        hints: HintReader,
        snapshot: ClusterSnapshot,
        now: float,
    ) -> None:
        """Handle a partition's error: reset or stop the partition, or delay its next fetch. Collect its leader hint.

        Errors in `LEADERS_WORD` only delay the fetch if another broker than the leader has returned them.
        """
        code = data.error_code
        self._counters.count_error(code)
        self._leave_follower(state, planned, now)
        leads = self._is_leaders(state, planned, snapshot)
        if code in LEADERS_WORD and not leads:
            state.back_off(now, asked.leader_epoch, self._retry)
            return
        if code == errors.OffsetOutOfRangeError.code:
            self._out_of_range(state, data.log_start_offset)
            return
        hints.read(state.tp.topic, asked.topic_id, state.tp.partition, code, data.current_leader)
        if code == errors.CorruptRecordError.code:
            self._unreadable(state, "the broker found its log corrupt")
            return
        if code in STALE:
            outcome.refresh = True
            state.move_clock.refused(planned.node_id, now)
        elif code not in NO_NEWS:
            kind = errors.error_for_code(code)
            if not kind.retriable:
                error = kind(f"{state.tp} cannot be read: {kind.__doc__}")
                self._prefetch.report((kind, state.tp.topic), error)
            outcome.refresh = outcome.refresh or kind.refreshes_metadata
        if not state.patience.knows_failure(now, asked.leader_epoch):
            state.failure = errors.error_for_code(code)()
            state.back_off(now, asked.leader_epoch, self._retry, lagging_leader=code in LAGGING)
        if leads and state.patience.in_doubt(now, self._retry.patience_s):
            outcome.doubt = True

    def _out_of_range(self, state: PartitionState, log_start: int) -> None:
        """Handle an offset that is out of range: reset the position or, without a reset policy, stop reading.

        ``log_start`` is the start of the log if the response contains it, otherwise -1.
        """
        if not self._believe(state):
            return
        tp, offset = state.tp, state.fetch_offset
        why = f"offset {offset} of {tp} is out of range"
        if offset == BEYOND_ANY_LOG:
            position = state.position
            offset = -1 if position is None else position.offset
            why = f"offset {offset} of {tp} belongs to a topic that was deleted and recreated"
        policy = self._positions.policy_of(state, self._options.reset_policy)
        if policy is not None:
            self._log.info(
                "%s: resetting to %s", why, policy.name, extra={"topic": tp.topic, "partition": tp.partition}
            )
            self._counters.offset_resets += 1
            self._prefetch.drop(state)
            state.reset(policy)
            return
        known = f" (the log starts at {log_start})" if log_start >= 0 else ""
        self._prefetch.fail(
            state,
            errors.FetchOffsetOutOfRangeError(
                f'{why}{known}; auto_offset_reset is "none", so seek to continue',
                topic=tp.topic,
                partition=tp.partition,
                offset=offset,
            ),
        )

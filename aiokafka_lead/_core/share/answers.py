"""Processing ShareFetch and ShareAcknowledge responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from ... import errors
from ..._values import NamedTuple
from ..._wire.messages.share_acknowledge import ShareAcknowledgeResponse
from ..._wire.messages.share_fetch import AcquiredRecords, PartitionData, ShareFetchResponse
from ...errors.shown import shown
from ...types import TopicPartition
from ..leadership.hints import HintReader
from ..metadata.types import LeaderHint
from .acquired import Acquired, AcquiredRange
from .exchange import Exchange, may_pass
from .planner import Asked, PlacedPartition, Planned, SharePlanner
from .session import SharedPartition

SHORTEST_LOCK_S = 1.0
"""Shortest lock duration in seconds that brokers allow. It replaces shorter durations in responses."""

MOST_OFFSETS = 1 << 20
"""Maximum number of acquired offsets in a response.

Brokers acquire fewer, and each offset takes a byte of memory here.
"""

MOVED = frozenset((errors.NotLeaderOrFollowerError.code, errors.FencedLeaderEpochError.code))
"""Errors of a partition with a new leader. The new leader does not know the locks of the old one."""

STALE = MOVED | {errors.KafkaStorageError.code}
"""Errors of a partition that has a new leader, or will have one soon."""


class Arrived(NamedTuple):
    """Acquired records and the bytes that contain them."""

    exchange: Exchange
    acquired: Acquired
    records: memoryview


class ShareOutcome:
    """The records, errors and hints in a response, and whether its sender is in doubt."""

    __slots__ = ("arrived", "doubt", "errors", "hints", "lock_s", "refresh", "refused")

    def __init__(self, hints: list[LeaderHint]) -> None:
        self.arrived: list[Arrived] = []
        self.hints = hints
        self.errors: list[errors.KafkaError] = []
        """Errors for the application, because they are not temporary."""
        self.refresh = False
        """True if the metadata is outdated."""
        self.doubt = False
        """True if the broker keeps refusing, and therefore may no longer lead a partition."""
        self.lock_s: float | None = None
        """Lock duration in seconds, if the response contains it."""
        self.refused: errors.KafkaError | None = None
        """The error for which acknowledgements were refused, or None."""


class _CurrentLeader(Protocol):
    leader_id: int
    leader_epoch: int


def read_failure(planned: Planned, error: errors.KafkaError, now: float) -> None:
    """Handle a request without a response. The connection is closed, which ended the session."""
    exchange = planned.exchange
    for sent in planned.acks.values():
        exchange.give_up(sent, error)
    for asked in planned.fetched.values():
        asked.partition.move.refused(exchange.node_id, now)
    exchange.disconnected(error)


def read_fetched(planner: SharePlanner, planned: Planned, response: ShareFetchResponse, now: float) -> ShareOutcome:
    """Apply a ShareFetch response to the exchange and its partitions. Return its records, errors and hints."""
    reading = _Reading(planner, planned, HintReader(True, response.node_endpoints), now)
    reading.lock(response.acquisition_lock_timeout_ms)
    if reading.refused_as_a_whole(response.error_code, response.error_message):
        return reading.outcome
    for topic in response.responses:
        for data in topic.partitions:
            key = SharedPartition(topic.topic_id, data.partition_index)
            reading.acknowledged(key, data.acknowledge_error_code, data.acknowledge_error_message, data.current_leader)
            asked = planned.fetched.get(key)
            if asked is not None:
                reading.fetched(asked, data)
    for placed, _ in planned.fetched.values():
        if placed not in reading.named:
            # Brokers omit partitions without news. They may also omit a partition while they look up the group's start
            # offset, but not twice.
            placed.begun |= placed.left_out
            placed.left_out = True
    count = sum(len(arrived.acquired) for arrived in reading.outcome.arrived)
    planned.exchange.has_more = count >= planned.max_records > 0
    reading.end()
    return reading.outcome


def read_acknowledged(
    planner: SharePlanner, planned: Planned, response: ShareAcknowledgeResponse, now: float
) -> ShareOutcome:
    """Apply a ShareAcknowledge response to the exchange. Return its errors and hints."""
    reading = _Reading(planner, planned, HintReader(True, response.node_endpoints), now)
    reading.lock(response.acquisition_lock_timeout_ms)
    if reading.refused_as_a_whole(response.error_code, response.error_message):
        return reading.outcome
    for topic in response.responses:
        for data in topic.partitions:
            key = SharedPartition(topic.topic_id, data.partition_index)
            reading.acknowledged(key, data.error_code, data.error_message, data.current_leader)
    reading.end()
    return reading.outcome


class _Reading:
    """Applies one response to its exchange, and collects the rest in a `ShareOutcome`."""

    def __init__(self, planner: SharePlanner, planned: Planned, hints: HintReader, now: float) -> None:
        self._planner = planner
        self._planned = planned
        self._exchange = planned.exchange
        self._exchange.busy = False
        self._hints = hints
        self._now = now
        self._acks = dict(planned.acks)
        """Acknowledgements whose outcome has not been read yet."""
        self._lock_s = SHORTEST_LOCK_S
        self._put_off: type[errors.KafkaError] | None = None
        """The error for which acknowledgements must be sent again, or None."""
        self.named: set[PlacedPartition] = set()
        """Partitions for which the response contains records or an error."""
        self.outcome = ShareOutcome(hints.hints)

    def lock(self, timeout_ms: int) -> None:
        """Note how long the locks last that the request took or renewed. 0 means that this is unknown."""
        if timeout_ms > 0:
            self._lock_s = self.outcome.lock_s = max(SHORTEST_LOCK_S, timeout_ms / 1000)

    def refused_as_a_whole(self, code: int, message: str | None) -> bool:
        """Handle an error of the whole request, if the response has one. Return True if it has."""
        exchange = self._exchange
        if not exchange.session.answered(code) or code:
            kind = errors.error_for_code(code)
            error = kind(shown(message or ""))
            # Brokers return this error if a session contains a deleted topic. The next session will not contain it.
            unknown = kind is errors.UnknownServerError
            if unknown:
                exchange.session.begin_anew()
            self.outcome.refused = error if self._acks else None
            for sent in self._acks.values():
                if may_pass(kind) and code != errors.ShareSessionNotFoundError.code:
                    exchange.again(sent, self._now)
                else:
                    exchange.give_up(sent, error)
            if code == errors.ShareSessionNotFoundError.code:
                exchange.lose(errors.InvalidRecordStateError(f"the broker has released the record: {error.message}"))
            if not may_pass(kind):
                self.outcome.errors.append(error)
                for asked in self._planned.fetched.values():
                    asked.partition.begun = True  # waiting longer would not help
            self.outcome.refresh = kind.refreshes_metadata or unknown
            self._useless(kind)
            return True
        return False

    def _useless(self, kind: type[errors.KafkaError]) -> None:
        """Delay the next request to the broker, because it did not execute this one."""
        self._exchange.back_off(self._now, kind)
        self.outcome.doubt |= self._exchange.in_doubt(self._now)

    def acknowledged(self, key: SharedPartition, code: int, message: str | None, leader: _CurrentLeader) -> None:
        """Process the outcome of a partition's acknowledgements, if the request contained any."""
        sent = self._acks.pop(key, None)
        if sent is None:
            return
        tp = sent[0].acquired.tp
        if code:
            self._hint(tp, key.topic_id, code, leader)
            self.outcome.refused = errors.error_for_code(code)(shown(message or ""))
            if self._exchange.refused(sent, code, message, self._now):
                self._put_off = errors.error_for_code(code)
        else:
            expires_at, gone_at = self._times()
            self._exchange.taken(tp, sent, expires_at, gone_at)

    def _times(self) -> tuple[float, float]:
        return self._planned.sent_at + self._lock_s, self._now + self._lock_s

    def fetched(self, asked: Asked, data: PartitionData) -> None:
        """Process the acquired records of a partition, or its error."""
        placed, leader_epoch = asked
        self.named.add(placed)
        placed.patience.skipped(self._planned.sent_at, leader_epoch)
        code = data.error_code
        if not code:
            placed.begun = True
            placed.patience.succeeded()
            placed.move.served(self._exchange.node_id, self._planned.sent_at, self._planner.counters)
            self._records(placed, data)
            return
        self._hint(placed.tp, placed.topic_id, code, data.current_leader)
        kind = errors.error_for_code(code)
        if code in STALE:
            placed.move.refused(self._exchange.node_id, self._now)
        if code in MOVED:
            self._exchange.lose(kind("the partition has another leader, and the record is delivered again"), placed.tp)
        elif not may_pass(kind):
            self.outcome.errors.append(kind(f"{placed.tp} cannot be read: {shown(data.error_message or '')}"))
            placed.begun = True  # waiting longer would not help
        placed.failure, retry = kind, self._planner.retry
        if not placed.patience.knows_failure(self._now, leader_epoch):
            placed.patience.failed(self._now, leader_epoch, retry, code in STALE, False)
        self.outcome.doubt |= placed.patience.in_doubt(self._now, retry.patience_s)

    def _hint(self, tp: TopicPartition, topic_id: UUID, code: int, leader: _CurrentLeader) -> None:
        self._hints.read(tp.topic, topic_id, tp.partition, code, leader)
        self.outcome.refresh |= code in STALE or errors.error_for_code(code).refreshes_metadata

    def _records(self, placed: PlacedPartition, data: PartitionData) -> None:
        ranges = _valid(data.acquired_records)
        if not ranges:
            return
        expires_at, gone_at = self._times()
        acquired = Acquired(placed.tp, placed.topic_id, ranges, expires_at=expires_at, gone_at=gone_at)
        self._exchange.add(acquired)
        records = data.records if isinstance(data.records, memoryview) else memoryview(b"")
        self.outcome.arrived.append(Arrived(self._exchange, acquired, records))

    def end(self) -> None:
        """Give up the acknowledgements that are missing in the response, because their outcome is unknown."""
        for sent in self._acks.values():
            self._exchange.give_up(sent)
        if self._put_off is not None:
            self._useless(self._put_off)
        else:
            self._exchange.answered()


def _valid(found: Sequence[AcquiredRecords]) -> list[AcquiredRange]:
    """Return the acquired ranges in offset order, except invalid, too large and overlapping ones."""
    ranges: list[AcquiredRange] = []
    count = 0
    for entry in sorted(found, key=lambda each: each.first_offset):
        first, last = entry.first_offset, entry.last_offset
        count += last - first + 1
        if first < 0 or last < first or count > MOST_OFFSETS or (ranges and first <= ranges[-1].last):
            continue
        ranges.append(AcquiredRange(first, last, max(1, entry.delivery_count)))
    return ranges

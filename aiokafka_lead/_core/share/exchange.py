"""The state shared with one broker: the records acquired from it, and their acknowledgements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from ..._values import NamedTuple
from ...errors import InvalidRecordStateError, KafkaError, UnknownServerError, error_for_code
from ...errors.shown import shown
from ...types import TopicPartition
from ..leadership.patience import RetryPolicy
from ..trust import Trust
from .acquired import RENEW, AckBatch, Acquired, Span
from .counters import ShareCounters
from .session import SharedPartition, ShareSession

ACK_LINGER_S = 0.01
"""Seconds for which acknowledgements wait for others, or for a fetch that can carry them.

They do not wait if a caller is awaiting their outcome. Each request with acknowledgements makes the broker write the
group's state.
"""

NO_LIMIT = 1 << 30

EXPIRED = "the acquisition lock ran out before the record was acknowledged: it is delivered again"
UNEXPLAINED = "the broker did not say what became of the acknowledgement"

Settled = Callable[[TopicPartition, KafkaError | None], None]


class Sent(NamedTuple):
    """A span of acknowledgements that was sent in one request."""

    acquired: Acquired
    span: Span


class Exchange:
    """Tracks the records acquired from one broker, and the acknowledgements to send to it.

    At most one request is in flight, because the share session numbers the requests.
    """

    def __init__(self, node_id: int, retry: RetryPolicy, settled: Settled, counters: ShareCounters) -> None:
        self.node_id = node_id
        self.session = ShareSession()
        self.version = 0
        """Version of the latest requests to this broker."""
        self.busy = False
        """True while a request is in flight."""
        self.moving = False
        """True while the session moves to another connection, during which no other request may be sent."""
        self.asked_at = 0.0
        """Time of the latest request."""
        self.retry_at = 0.0
        """Earliest time of the next request."""
        self.unsent_since = math.inf
        """Time since which there are acknowledgements to send, or infinity if there are none."""
        self.has_more = False
        """True if the last fetch reached its record limit, so that there may be more records."""
        self.urgent = False
        """True if a caller awaits the outcome of the unsent acknowledgements."""
        self.waited_for = False
        """True if a caller awaits the outcome of the acknowledgements sent last."""
        self._retry = retry
        self.trust = Trust()
        self.failure: type[KafkaError] | None = None
        """Error of the last request if it failed, otherwise None."""
        self._settled = settled
        """Called when the acknowledgements of a partition have an outcome."""
        self._counters = counters
        self._acquired: list[Acquired] = []
        """The acquired records of each response. Responses whose records are all settled or lost are removed."""
        self._dirty: list[Acquired] = []
        """The entries of ``_acquired`` that have acknowledgements to send."""
        self._limits: dict[TopicPartition, int] = {}
        """Maximum number of acknowledgements in a request for a partition, after the broker has refused several."""

    # --- acquired records ---------------------------------------------------------------------------------------------

    @property
    def holds(self) -> bool:
        """True if this consumer holds locks of records from this broker."""
        return bool(self._acquired)

    def __iter__(self) -> Iterator[Acquired]:
        return iter(self._acquired)

    def add(self, acquired: Acquired) -> None:
        """Add the acquired records of a response.

        If a record was already held, its earlier delivery counts as lost. Its lock has ended, for example after a
        change of leader. Otherwise, the broker would take an acknowledgement of the earlier delivery for one of the new
        delivery.
        """
        same = [earlier for earlier in self._acquired if earlier.tp == acquired.tp]
        if self._lose_each(same, lambda earlier, error: earlier.lose_to(acquired, error)):
            self._tidy()
        self._acquired.append(acquired)

    def _lose_each(self, held: Iterable[Acquired], lose: Callable[[Acquired, KafkaError], bool]) -> bool:
        """Call ``lose`` for each of ``held``. Return True if any lock was lost.

        ``lose`` returns True if a lost record had a decision.
        """
        any_lost = False
        for acquired in held:
            error, before = InvalidRecordStateError(EXPIRED), acquired.lost
            if lose(acquired, error):
                self._settled(acquired.tp, error)
            self._counters.lost(acquired, before)
            any_lost |= acquired.lost > before
        return any_lost

    def __contains__(self, acquired: object) -> bool:
        return any(acquired is one for one in self._acquired)

    def decided(self, acquired: Acquired, now: float) -> None:
        """List these records among those with acknowledgements to send, because the application has decided."""
        if not acquired.dirty:
            acquired.dirty = True
            self._dirty.append(acquired)
            self.unsent_since = min(self.unsent_since, now)

    def lose(self, error: KafkaError, tp: TopicPartition | None = None) -> None:
        """Mark the records of one partition, or of all partitions, as lost, because the broker has released them."""
        for acquired in self._acquired:
            if tp is None or acquired.tp == tp:
                pending, before = acquired.unsettled, acquired.lost
                if acquired.lose(error):
                    self._counters.lost(acquired, before)
                    if pending:
                        self._settled(acquired.tp, error)
        self._tidy()

    def _tidy(self) -> None:
        self._acquired = [acquired for acquired in self._acquired if not acquired.over]
        self._dirty = [acquired for acquired in self._dirty if self._still_dirty(acquired)]
        if not self._dirty:
            self.unsent_since = math.inf
            self.urgent = False

    @staticmethod
    def _still_dirty(acquired: Acquired) -> bool:
        acquired.dirty = acquired.has_unsent
        return acquired.dirty

    # --- sending -----------------------------------------------------------------------------------------------------

    @property
    def has_unsent(self) -> bool:
        """True if there are acknowledgements to send."""
        return bool(self._dirty)

    @property
    def has_renewals(self) -> bool:
        """True if locks must be renewed, which a ShareFetch cannot do."""
        return any(acquired.has(RENEW) for acquired in self._dirty)

    def drop_expired(self, now: float) -> None:
        """Mark records with expired locks as lost. Must not be called while a request is in flight."""
        expired = [acquired for acquired in self._acquired if now >= acquired.gone_at]
        if self._lose_each(expired, lambda acquired, error: acquired.lose_expired(now, error)):
            self._tidy()

    def take(
        self, *, renewals: bool
    ) -> tuple[dict[SharedPartition, list[AckBatch]], dict[SharedPartition, list[Sent]]]:
        """Return the acknowledgements for the next request, and mark them as sent."""
        batches: dict[SharedPartition, list[AckBatch]] = {}
        sent: dict[SharedPartition, list[Sent]] = {}
        room: dict[TopicPartition, int] = {}
        for acquired in sorted(self._dirty, key=_first_offset):
            limit = room.get(acquired.tp, self._limits.get(acquired.tp, NO_LIMIT))
            key = SharedPartition(acquired.topic_id, acquired.tp.partition)
            for span, batch in acquired.unsent(limit, renewals=renewals):
                acquired.sent(span)
                limit -= span.end - span.start
                batches.setdefault(key, []).append(batch)
                sent.setdefault(key, []).append(Sent(acquired, span))
            room[acquired.tp] = limit
        if sent:
            self.waited_for = self.urgent
        for found in batches.values():
            found.sort()  # a record acquired twice may lie within an earlier range
        self._tidy()
        return batches, sent

    # --- outcomes ----------------------------------------------------------------------------------------------------

    def taken(self, tp: TopicPartition, sent: Iterable[Sent], expires_at: float, gone_at: float) -> None:
        """Settle the acknowledgements of one partition, because the broker has accepted them."""
        for acquired, span in sent:
            self._counters.taken(acquired, span)
            acquired.answered(span, expires_at, gone_at)
        self._settled(tp, None)
        self._tidy()
        limit = self._limits.pop(tp, NO_LIMIT)
        if limit < NO_LIMIT and any(acquired.tp == tp for acquired in self._dirty):
            self._limits[tp] = 2 * limit

    def refused(self, sent: list[Sent], code: int, message: str | None, now: float) -> bool:
        """Handle the broker's refusal of a partition's acknowledgements, which concerns all of them.

        Returns True if they must be sent again later.
        """
        kind = error_for_code(code)
        error = kind(shown(message or ""))
        count = sum(span.end - span.start for _, span in sent)
        if code == InvalidRecordStateError.code and count > 1:
            # At least one record no longer belongs to this member. Halve the requests to find out which.
            self._limits[sent[0].acquired.tp] = count // 2
            self.again(sent, now)
        elif may_pass(kind) and not kind.refreshes_metadata:
            self.again(sent, now)
            return True
        else:
            self.give_up(sent, error)
            if kind.refreshes_metadata:
                self.lose(error, sent[0].acquired.tp)
        return False

    def again(self, sent: Iterable[Sent], now: float) -> None:
        """Mark these acknowledgements as unsent, because the broker has not accepted them but may later."""
        for acquired, span in sent:
            acquired.send_again(span)
            if acquired.has_unsent:
                self.decided(acquired, now)

    def give_up(self, sent: Iterable[Sent], error: KafkaError | None = None) -> None:
        """Give up acknowledgements that were refused, or whose outcome is unknown."""
        error = error or KafkaError(UNEXPLAINED)
        for acquired, span in sent:
            before = acquired.lost
            acquired.refused(span, error)
            self._counters.lost(acquired, before)
            self._settled(acquired.tp, error)
        self._tidy()

    # --- state --------------------------------------------------------------------------------------------------------

    def answered(self) -> None:
        """Record a useful response, which ends any doubt about the broker."""
        self.trust.confirmed()

    def back_off(self, now: float, failure: type[KafkaError]) -> None:
        """Delay the next request, because the response was useless or missing."""
        self.failure = failure
        self.trust.refused(now, now, self._retry.patience_s)
        self.retry_at = max(self.retry_at, now + self._retry.normal.delay_s(self.trust.refusals))

    def in_doubt(self, now: float) -> bool:
        """Return True if this broker's responses are useless, so that other brokers should be asked for the leaders."""
        return self.trust.in_doubt(now, self._retry.patience_s)

    def disconnected(self, error: KafkaError) -> None:
        """Handle the end of the connection, which also ends the session and all its locks."""
        self.session.begin_anew()
        self.busy = False
        self.lose(error)

    def __repr__(self) -> str:
        return f"<Exchange node={self.node_id} {self.session!r} acquired={len(self._acquired)}>"


def may_pass(kind: type[KafkaError]) -> bool:
    """Return True if a retry may help. This includes unknown errors, because a broken broker gives no reason."""
    return kind.retriable or kind is UnknownServerError


def _first_offset(acquired: Acquired) -> tuple[TopicPartition, int]:
    return acquired.tp, acquired.ranges[0].first

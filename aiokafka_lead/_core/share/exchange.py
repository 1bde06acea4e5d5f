"""What goes to and fro between a member and one broker: the records that it gave, and their acknowledgements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ...errors import InvalidRecordStateError, KafkaError, UnknownServerError, error_for_code
from ...errors.shown import shown
from ...types import TopicPartition
from ..leadership.patience import RetryPolicy
from ..trust import Trust
from .acquired import RENEW, AckBatch, Acquired, Span
from .counters import ShareCounters
from .session import SharedPartition, ShareSession

__all__ = ["ACK_LINGER_S", "Exchange", "Sent", "may_pass"]

ACK_LINGER_S = 0.01
"""How long acknowledgements wait for others, or for a fetch to go with, where nobody waits for their outcome: each
request of them is a write of the group's state."""

NO_LIMIT = 1 << 30

EXPIRED = "the acquisition lock ran out before the record was acknowledged: it is delivered again"
UNEXPLAINED = "the broker did not say what became of the acknowledgement"

Settled = Callable[[TopicPartition, KafkaError | None], None]


class Sent(NamedTuple):
    """Some acknowledgements of one request."""

    acquired: Acquired
    span: Span


class Exchange:
    """One broker's. At most one request is under way, since the session numbers them."""

    def __init__(self, node_id: int, retry: RetryPolicy, settled: Settled, counters: ShareCounters) -> None:
        self.node_id = node_id
        self.session = ShareSession()
        self.version = 0
        """Of the requests that the broker was sent last."""
        self.busy = False
        """Whether a request is under way."""
        self.moving = False
        """Whether its session is going over to another connection, so that nothing else is to be asked."""
        self.asked_at = 0.0
        """When the broker was sent a request last."""
        self.retry_at = 0.0
        """No request before this time."""
        self.unsent_since = math.inf
        """Since when there have been acknowledgements to send."""
        self.has_more = False
        """The last fetch brought all that it asked for, so that there may be more; none was sent after it."""
        self.urgent = False
        """Somebody waits for the outcome of those."""
        self.waited_for = False
        """Somebody has waited for the outcome of those that were sent last."""
        self._retry = retry
        self.trust = Trust()
        self.failure: type[KafkaError] | None = None
        """Why the last request that was of no use was so."""
        self._settled = settled
        """Called when acknowledgements of a partition have an outcome."""
        self._counters = counters
        self._acquired: list[Acquired] = []
        """Those with something that is neither settled nor lost."""
        self._dirty: list[Acquired] = []
        """Those with something to send."""
        self._limits: dict[TopicPartition, int] = {}
        """How many acknowledgements of a partition may go together, after the broker refused many for one of them."""

    # --- what is acquired --------------------------------------------------------------------------------------------

    @property
    def holds(self) -> bool:
        """Whether records of this broker are acquired and not settled."""
        return bool(self._acquired)

    def __iter__(self) -> Iterator[Acquired]:
        return iter(self._acquired)

    def add(self, acquired: Acquired) -> None:
        """An answer has brought these."""
        self._acquired.append(acquired)

    def __contains__(self, acquired: object) -> bool:
        return any(acquired is one for one in self._acquired)

    def decided(self, acquired: Acquired, now: float) -> None:
        """There is something to send of these."""
        if not acquired.dirty:
            acquired.dirty = True
            self._dirty.append(acquired)
            self.unsent_since = min(self.unsent_since, now)

    def lose(self, error: KafkaError, tp: TopicPartition | None = None) -> None:
        """The broker has released what it had acquired, of one partition or of all."""
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
        """Whether there are acknowledgements to send."""
        return bool(self._dirty)

    @property
    def has_renewals(self) -> bool:
        """Whether locks are to be renewed, which a fetch cannot carry."""
        return any(acquired.has(RENEW) for acquired in self._dirty)

    def drop_expired(self, now: float) -> None:
        """What was not acknowledged while its lock held is lost. Not while a request is under way."""
        expired = [acquired for acquired in self._acquired if now >= acquired.gone_at]
        for acquired in expired:
            error, before = InvalidRecordStateError(EXPIRED), acquired.lost
            if acquired.lose_expired(now, error):
                self._settled(acquired.tp, error)
            self._counters.lost(acquired, before)
        if expired:
            self._tidy()

    def take(
        self, *, renewals: bool
    ) -> tuple[dict[SharedPartition, list[AckBatch]], dict[SharedPartition, list[Sent]]]:
        """The acknowledgements of the next request, which thereby count as sent."""
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
            found.sort()  # one that was acquired twice lies within what came with it the first time
        self._tidy()
        return batches, sent

    # --- outcomes ----------------------------------------------------------------------------------------------------

    def taken(self, tp: TopicPartition, sent: Iterable[Sent], expires_at: float, gone_at: float) -> None:
        """The broker has taken these acknowledgements of one partition."""
        for acquired, span in sent:
            self._counters.taken(acquired, span)
            acquired.answered(span, expires_at, gone_at)
        self._settled(tp, None)
        self._tidy()
        limit = self._limits.pop(tp, NO_LIMIT)
        if limit < NO_LIMIT and any(acquired.tp == tp for acquired in self._dirty):
            self._limits[tp] = 2 * limit

    def refused(self, sent: list[Sent], code: int, message: str | None, now: float) -> bool:
        """The broker has refused these acknowledgements of one partition, which it does as a whole.

        Return True if it is to be asked again, later.
        """
        kind = error_for_code(code)
        error = kind(shown(message or ""))
        count = sum(span.end - span.start for _, span in sent)
        if code == InvalidRecordStateError.code and count > 1:
            # One of them is not this member's any more: the others are found by halves.
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
        """The broker has not taken these, but may."""
        for acquired, span in sent:
            acquired.send_again(span)
            if acquired.has_unsent:
                self.decided(acquired, now)

    def give_up(self, sent: Iterable[Sent], error: KafkaError | None = None) -> None:
        """What became of these is not known, or they were refused."""
        error = error or KafkaError(UNEXPLAINED)
        for acquired, span in sent:
            before = acquired.lost
            acquired.refused(span, error)
            self._counters.lost(acquired, before)
            self._settled(acquired.tp, error)
        self._tidy()

    # --- its state ---------------------------------------------------------------------------------------------------

    def answered(self) -> None:
        """The broker has answered as it should."""
        self.trust.confirmed()

    def back_off(self, now: float, failure: type[KafkaError]) -> None:
        """An answer of no use, or none: the next request waits."""
        self.failure = failure
        self.trust.refused(now, now, self._retry.patience_s)
        self.retry_at = max(self.retry_at, now + self._retry.normal.delay_s(self.trust.refusals))

    def in_doubt(self, now: float) -> bool:
        """Return True if others are to be asked who leads the partitions: this broker's answers are of no use."""
        return self.trust.in_doubt(now, self._retry.patience_s)

    def disconnected(self, error: KafkaError) -> None:
        """The connection has ended, and with it the session and all locks."""
        self.session.begin_anew()
        self.busy = False
        self.lose(error)

    def __repr__(self) -> str:
        return f"<Exchange node={self.node_id} {self.session!r} acquired={len(self._acquired)}>"


def may_pass(kind: type[KafkaError]) -> bool:
    """Return True for an error after which the same is asked again: a broker that lags or is sick gives no reason."""
    return kind.retriable or kind is UnknownServerError


def _first_offset(acquired: Acquired) -> tuple[TopicPartition, int]:
    return acquired.tp, acquired.ranges[0].first

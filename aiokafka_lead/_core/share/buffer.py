"""Decoding of acquired records, the buffer of those that were not handed out yet, and the limit on their number."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from ..._records import DEFAULT_MAX_DECOMPRESSED_BYTES, BatchView, ConsumerRecord, MessageSet, read_parts
from ...errors import BatchTooLargeError, CorruptRecordError
from ...types import AcknowledgeType
from .acquired import GAP, Acquired, Span
from .counters import ShareCounters
from .delivered import AtHand
from .exchange import Exchange
from .record import ShareRecord, place

LOADED_AT_ONCE_BYTES = 512 * 1024
"""See `_core.consumer.fetched`."""


class AcquiredData:
    """Decodes the acquired records of one partition in one response. The batches may contain other records too.

    Acquired offsets without a record are acknowledged as gaps, as the protocol requires. Records that cannot be read
    are released, because their bytes may have been damaged in transit. If the log itself is damaged, the group's
    delivery limit ends the attempts.
    """

    __slots__ = ("_parts", "_passed", "acquired", "exchange", "failure")

    def __init__(
        self,
        exchange: Exchange,
        acquired: Acquired,
        records: memoryview,
        *,
        check_crcs: bool,
        max_decompressed_batch_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> None:
        self.exchange = exchange
        self.acquired = acquired
        self._parts: Iterator[BatchView | MessageSet] = read_parts(
            records, check_crcs=check_crcs, max_decompressed_bytes=max_decompressed_batch_bytes
        )
        self._passed = 0
        """Number of acquired offsets that have been processed."""
        self.failure: CorruptRecordError | BatchTooLargeError | None = None
        """The error for which the remaining records were released, or None."""

    @property
    def left(self) -> int:
        """Number of acquired offsets that have not been processed."""
        return len(self.acquired) - self._passed

    def next_view(self) -> BatchView | MessageSet | None:
        """Return the next batch, or None at the end. Load it, and then pass it to `records`."""
        try:
            part = next(self._parts, None)
        except (CorruptRecordError, BatchTooLargeError) as error:
            self._fail(error)
            return None
        if part is None:
            self.release()
        return part

    def load(self, view: BatchView | MessageSet, max_bytes: int) -> bool:
        """Decompress a batch. If its content would exceed ``max_bytes``, leave it unchanged and return False."""
        try:
            return view.load_within(max_bytes)
        except (CorruptRecordError, BatchTooLargeError) as error:
            self._fail(error)
            return True

    def records(self, view: BatchView | MessageSet) -> list[ShareRecord[Any, Any]]:
        """Return the acquired records of a batch, which still have to be acknowledged."""
        acquired = self.acquired
        if self._passed == len(acquired):
            return []
        try:
            batch = view.batch() if isinstance(view, MessageSet) else view
            found = [] if batch.is_control else self._read(batch)
        except (CorruptRecordError, BatchTooLargeError) as error:
            self._fail(error)
            return []
        made, gaps, self._passed = place(found, acquired, self._passed)
        for start, end in gaps:
            acquired.decide_span(Span(start, end), GAP)
        self._gap(acquired.count_to(batch.last_offset))
        return made

    def _read(self, batch: BatchView) -> list[ShareRecord[Any, Any]]:
        """Return the records of a batch that may have been acquired. Their marks are not set yet."""
        acquired = self.acquired
        epoch = None if batch.leader_epoch < 0 else batch.leader_epoch
        like: ConsumerRecord[Any, Any] = ConsumerRecord(*acquired.tp, 0, 0, batch.timestamp_type, None, None, (), epoch)
        sample = ShareRecord(like, 1, self.exchange, acquired, 0)
        return batch.records_like(sample, acquired.offset_of(self._passed), acquired.ranges[-1].last)

    def _gap(self, end: int) -> None:
        """Acknowledge the acquired offsets before ``end`` as gaps, because they have no records."""
        if end > self._passed:
            self.acquired.decide_span(Span(self._passed, end), GAP)
            self._passed = end

    def _fail(self, error: CorruptRecordError | BatchTooLargeError) -> None:
        self.failure = error
        self._parts = iter(())
        self.release()

    def release(self) -> None:
        """Release the acquired records that have not been processed, and return no more records."""
        self.acquired.decide_span(Span(self._passed, len(self.acquired)), int(AcknowledgeType.RELEASE))
        self._passed = len(self.acquired)
        self._parts = iter(())


FIRST = 64
"""Initial limit, which applies until the application has waited for records."""

LATE = 0.25
"""Fraction of the lock duration after which a buffered record is late, which lowers the limit."""

LOCK_S = 30.0
"""Assumed lock duration in seconds until a broker has reported it."""


class Allowance:
    """Adapts the limit on buffered records to the speed of the application.

    While this member holds an acquired record, no other member can process it. The limit is therefore low at first. It
    doubles whenever the application waits for records, and halves whenever a record reaches the application late.
    """

    def __init__(self, most: int, *, of_each_broker: bool = False) -> None:
        self._most = most
        self._of_each_broker = of_each_broker
        """True if the limit grows with the number of brokers. Otherwise, fetches of few records would be frequent."""
        self.brokers = 1
        """Number of brokers that lead partitions to read."""
        self.limit = min(FIRST, most)
        """The limit for all brokers together."""
        self.lock_s = LOCK_S
        """Lock duration in seconds."""

    @property
    def share(self) -> int:
        """Limit on buffered records from one broker: an equal share of the limit, at most ``most``."""
        return min(self._most, max(1, self.limit // self.brokers))

    def starved(self) -> None:
        """Double the limit, because the application is waiting and the buffer is empty."""
        most = self._most * self.brokers if self._of_each_broker else self._most
        self.limit = min(most, 2 * self.limit)

    def waited(self, lock_left_s: float) -> None:
        """Halve the limit if the record about to be handed out is late. ``lock_left_s`` is what is left of its lock."""
        if lock_left_s < (1 - LATE) * self.lock_s:
            self.limit = max(1, self.limit // 2)

    def late_at(self, expires_at: float) -> float:
        """Return the time from which a record counts as late, given that its lock ends at ``expires_at``."""
        return expires_at - (1 - LATE) * self.lock_s


Record = ShareRecord[Any, Any]

TOO_LATE = 0.2
"""Fraction of the lock duration that must be left.

Otherwise, a record is released, because it would hardly be processed in time.
"""

RELEASE = int(AcknowledgeType.RELEASE)


class NotLoaded(Exception):
    """Raised if the next batch is too large to decompress on the event loop.

    Call ``load`` in a thread, and try again.
    """

    def __init__(self, view: BatchView | MessageSet) -> None:
        super().__init__()
        self.view = view


class ShareBuffer:
    """Buffers responses in their order of arrival, and hands out their records.

    The records of the first response are decoded as they are handed out.
    """

    def __init__(self, allowance: Allowance, failed: Callable[[AcquiredData], None], counters: ShareCounters) -> None:
        self._allowance = allowance
        self._failed = failed
        """Called with any response that could not be read completely."""
        self._counters = counters
        self._answers: deque[AcquiredData] = deque()
        self.at_hand = AtHand()
        """Decoded records. Only this class changes them, and an iteration that takes them one by one."""
        self._returned: deque[list[Record]] = deque()
        """Records that were put back after they were taken, grouped by response."""
        self._view: BatchView | MessageSet | None = None
        """The next batch of the first response, while a thread decompresses it."""
        self._topics: Collection[str] | None = None
        """Topics whose records are buffered, or None for all topics."""

    def add(self, data: AcquiredData, now: float) -> None:
        """Add the records of a response, or release them if their topic is no longer subscribed."""
        if self._holds(data.acquired):
            self._answers.append(data)
        else:
            _give_back(data, now)

    def _holds(self, acquired: Acquired) -> bool:
        return self._topics is None or acquired.tp.topic in self._topics

    def count(self, exchange: Exchange) -> int:
        """Return the approximate number of buffered records from one broker."""
        waiting = sum(data.left for data in self._answers if data.exchange is exchange)
        returned = sum(len(records) for records in self._returned if records[0]._exchange is exchange)
        at_hand = len(self.at_hand) if self.at_hand and self.at_hand.first._exchange is exchange else 0
        return waiting + returned + at_hand

    def buffered(self) -> int:
        """Return the approximate number of buffered records."""
        return sum(data.left for data in self._answers) + sum(map(len, self._returned)) + len(self.at_hand)

    def handed_out(self) -> dict[str, int]:
        """Return the number of records handed out, by topic."""
        waiting = Counter[str]()
        for records in self._returned:
            waiting[records[0].topic] += len(records)
        if self.at_hand:
            waiting[self.at_hand.first.topic] += len(self.at_hand)
        return {topic: counts.decoded - waiting[topic] for topic, counts in list(self._counters.topics.items())}

    # --- handing out -------------------------------------------------------------------------------------------------

    def take(self, limit: int, now: float) -> list[Record]:
        """Return the next records, all from the same response, or an empty list. Raises `NotLoaded`."""
        while True:
            if self._returned:
                returned = self._returned.popleft()
                taken = returned[:limit]
                self.put_back(returned[limit:])
            elif self.at_hand or self._decode(now):
                taken = self.at_hand.take(limit)
            else:
                return []
            taken = self._in_time(taken, now)
            if taken:
                return taken

    def _not_handed_out(self, records: Sequence[Record]) -> None:
        """Subtract these decoded records from the number of records handed out."""
        if records:
            self._counters.of(records[0].topic).decoded -= len(records)

    def _in_time(self, records: list[Record], now: float) -> list[Record]:
        """Return the records whose locks last long enough, and release the others."""
        acquired = records[0]._acquired
        left_s = acquired.expires_at - now
        self._allowance.waited(left_s)
        if acquired.error is not None:
            self._not_handed_out([record for record in records if not record._is_open()])
            records = [record for record in records if record._is_open()]
        if left_s > TOO_LATE * self._allowance.lock_s and self._holds(acquired):
            return records
        for record in records:
            acquired.decide(record._index, RELEASE)
        if records:
            records[0]._exchange.decided(acquired, now)
            self._not_handed_out(records)
        return []

    def _decode(self, now: float) -> bool:
        """Decode the next records into ``at_hand``. Return True if there are any."""
        while self._answers:
            data = self._answers[0]
            if data.acquired.over:
                data.release()
            view = self._view or data.next_view()
            if view is None:
                self._answers.popleft()
                if data.acquired.has_unsent:
                    data.exchange.decided(data.acquired, now)
                if data.failure is not None:
                    self._failed(data)
                continue
            if not data.load(view, LOADED_AT_ONCE_BYTES):
                self._view = view
                raise NotLoaded(view)
            self._view = None
            records = data.records(view)
            self.at_hand.put(records)
            if records:
                self._counters.of(data.acquired.tp.topic).decoded += len(records)
                return True
        return False

    def put_back(self, records: list[Record]) -> None:
        """Put back the records that were taken last, all from one response. They are handed out next."""
        if records:
            self._returned.appendleft(records)
            self.at_hand.quick_until = 0.0

    def go_on(self, record: Record, until: float) -> None:
        """Allow the iteration that received this record to take more records without checks until this time.

        The permission ends earlier if the record's lock becomes too old before that time, because the iteration does
        not check locks. There is no permission if records have been put back.
        """
        if not self._returned:
            self.at_hand.quick_until = min(until, self._allowance.late_at(record._acquired.expires_at))

    def hold_only(self, topics: Collection[str], now: float) -> None:
        """Buffer only records of these topics. Release all others, now and when they arrive."""
        self._topics = topics
        left = [records for records in self._returned if not self._holds(records[0]._acquired)]
        self._returned = deque(records for records in self._returned if self._holds(records[0]._acquired))
        if self.at_hand and not self._holds(self.at_hand.first._acquired):
            left.append(self.at_hand.take(len(self.at_hand)))
        for records in left:
            for record in records:
                record._acquired.decide(record._index, RELEASE)
                record._exchange.decided(record._acquired, now)
            self._not_handed_out(records)
        if self._answers and not self._holds(self._answers[0].acquired):
            self._view = None
        for data in self._answers:
            if not self._holds(data.acquired):
                _give_back(data, now)
        self._answers = deque(data for data in self._answers if self._holds(data.acquired))


def _give_back(data: AcquiredData, now: float) -> None:
    data.release()
    data.exchange.decided(data.acquired, now)

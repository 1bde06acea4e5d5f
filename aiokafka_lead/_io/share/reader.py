"""Delivery of records from the buffer to the application."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Self, cast

import anyio.lowlevel

from ..._core.consumer.deserializers import Deserializers, bound, cannot_be_deserialized
from ..._core.share.buffer import Allowance, NotLoaded, ShareBuffer
from ..._core.share.delivered import Delivered
from ..._core.share.record import ShareRecord
from ..._core.tracing import BatchLoop, RecordLoop
from ...errors import ClientClosedError, IllegalStateError, KafkaError, RecordDeserializationError
from ...types import Headers, TopicPartition
from ..consumer.deserializing import Loading, prepared
from ..deadline import Deadline
from ..loop import Signal
from .exchanging import ShareExchanging
from .records import ShareRecords

Record = ShareRecord[Any, Any]

FAIR_S = 0.005
"""Seconds after which an iteration over buffered records lets other tasks run."""

AT_ONCE = Deadline(0)

RELEASED = "; it is released, unless you reject it"


class ShareReader:
    """Hands out buffered records, and waits if there are none.

    A record counts as handed out when the caller receives it, with no await in between, so a cancellation loses no
    record.
    """

    def __init__(
        self,
        buffer: ShareBuffer,
        delivered: Delivered,
        allowance: Allowance,
        exchanging: ShareExchanging,
        wake: Signal,
        planning: Signal,
        check: Callable[[], None],
    ) -> None:
        self._buffer = buffer
        self._delivered = delivered
        self._allowance = allowance
        self._exchanging = exchanging
        self._planning = planning
        """Set when more records may be requested."""
        self._check = check
        """Raises the error that prevents reading."""
        self._loading = Loading()
        self._gave_way_at = 0.0
        self._errors: list[KafkaError] = []
        """Errors that the next reads will raise."""
        self.wake = wake
        """Set when records may have arrived, or when a wait should end for another reason."""
        self.waiting = False
        self.waited_at = -math.inf
        """Time at which the last wait for records ended."""
        self._waited_s = 0.0
        self._waits_since: float | None = None
        self.stopped = False
        """True after the consumer was stopped."""

    def report(self, error: KafkaError) -> None:
        """Raise this error from the next read."""
        if not any(type(known) is type(error) for known in self._errors):
            self._errors.append(error)
        self._buffer.at_hand.quick_until = 0.0
        self.wake.set()

    def stop(self) -> None:
        """End iterations, and raise `ClientClosedError` from calls that are waiting."""
        self.stopped = True
        self._buffer.at_hand.quick_until = 0.0
        self.wake.set()

    async def take(self, limit: int, deadline: Deadline | None) -> list[Record]:
        """Return the next records of one response as bytes, or an empty list at the deadline or after a stop."""
        if self.waiting:
            raise IllegalStateError("another task is waiting for this consumer's records: read from one task at a time")
        while not self.stopped:
            self._check()
            if self._errors:
                raise self._errors.pop(0)
            now = self._exchanging.taken_at = time.monotonic()
            try:
                records = self._buffer.take(limit, now)
            except NotLoaded as large:
                await self._wait(self._loading.load(large.view))
                continue
            self._planning.set()
            if records:
                await self._give_way(now, records)
                return records
            left_s = None if deadline is None else deadline.left_s()
            if left_s == 0.0:
                await self._give_way(now, records)  # for applications that read in a loop without waiting
                break
            self._allowance.starved()
            await self._wait(self.wake.wait(left_s))
        return []

    async def _wait(self, what: Any) -> None:
        self.waiting = self._exchanging.demand = True
        self._planning.set()
        self._waits_since = time.monotonic()
        try:
            await what
        finally:
            self.waited_at = time.monotonic()
            self._waited_s += self.waited_at - self._waits_since
            self._waits_since = None
            self.waiting = self._exchanging.demand = False

    def waited_s(self) -> float:
        """Return the total time in seconds for which reads have waited for records."""
        return self._waited_s + (0.0 if self._waits_since is None else time.monotonic() - self._waits_since)

    async def _give_way(self, now: float, records: list[Record]) -> None:
        """Let other tasks run, at most every `FAIR_S`. If this is cancelled, the records will be handed out again."""
        if now < self._gave_way_at + FAIR_S:
            return
        try:
            await anyio.lowlevel.checkpoint()
        except BaseException:
            self._buffer.put_back(records)
            raise
        self._gave_way_at = time.monotonic()

    # --- calls of the application ------------------------------------------------------------------------------------

    def come_back(self) -> None:
        """Treat all records handed out as done, because the application has requested more."""
        self._delivered.come_back(time.monotonic())
        self._planning.set()

    async def next_records(self, limit: int, by: Deserializers) -> list[Record]:
        """Return up to ``limit`` records of one response, or an empty list if the consumer has been stopped."""
        if by.plain:
            records = await self.take(limit, None)
            if records:
                self._delivered.handed_out(records)
            return records
        found = await self._collect(limit, None, by, many=False)
        return found[0] if found else []

    def iterate(self, by: Deserializers) -> ShareRecords:
        """Return an iterator over single records."""
        return ShareRecords(self._buffer.at_hand, self._delivered, self.come_back, partial(self._next_record, by))

    async def _next_record(self, by: Deserializers) -> Record | None:
        """Return the next record, or None after a stop, and allow an iteration to take later ones."""
        self.come_back()
        records = await self.next_records(1, by)
        if not records:
            return None
        if by.plain:
            self.go_on(records[0])
        return records[0]

    def go_on(self, record: Record) -> None:
        """Allow the iteration to take the records after this one without calling the reader, for a short time."""
        self._buffer.go_on(record, self._gave_way_at + FAIR_S)

    async def getmany(self, limit: int, deadline: Deadline, by: Deserializers) -> dict[TopicPartition, list[Record]]:
        """Return up to ``limit`` buffered records. If there are none, wait for the first until the deadline."""
        self.come_back()
        found: dict[TopicPartition, list[Record]] = {}
        for records in await self._collect(limit, deadline, by, many=True):
            found.setdefault(records[0].topic_partition, []).extend(records)
        if self.stopped and not found:
            raise ClientClosedError
        return found

    async def _collect(
        self, limit: int, deadline: Deadline | None, by: Deserializers, *, many: bool
    ) -> list[list[Record]]:
        """Hand out records, as one list for each response."""
        raw: list[list[Record]] = []
        found: list[list[Record]] = []
        try:
            while limit > 0 and (taken := await self.take(limit, AT_ONCE if found else deadline)):
                records, failure = (taken, None) if by.plain else await self._deserialized(taken, by)
                if failure is not None and not records and not found:
                    self._buffer.put_back(taken[1:])
                    self._delivered.unreadable(taken[0])
                    raise failure
                self._buffer.put_back(taken[len(records) :])
                if records:
                    raw.append(taken[: len(records)])
                    found.append(records)
                    limit -= len(records)
                if failure is not None or not many:
                    break
        except KafkaError as error:
            if not found:
                raise
            self._errors.insert(0, error)
        except BaseException:
            for records in reversed(raw):
                self._buffer.put_back(records)
            raise
        for records in found:
            self._delivered.handed_out(records)
        return found

    async def _deserialized(
        self, raw: list[Record], by: Deserializers
    ) -> tuple[list[Record], RecordDeserializationError | None]:
        """Return the records before the first one that cannot be deserialized, and its error or None."""
        made: list[Record] = []
        self.waiting = True
        try:
            for record in raw:
                made.append(await deserialized(record, by))
        except RecordDeserializationError as error:
            return made, error
        except BaseException:
            self._buffer.put_back(raw)
            raise
        finally:
            self.waiting = False
        return made, None


async def deserialized(record: Record, by: Deserializers) -> Record:
    """Return the record with its key and value deserialized by the application's deserializers.

    Raises `RecordDeserializationError`.
    """
    if by.plain:
        return record
    contents = []
    for part, one in (("key", by.key), ("value", by.value)):
        content = getattr(record, part)
        make = bound(one, record.topic, record.headers, is_key=part == "key")
        if make is not None and one is not None and content is not None:
            try:
                await prepared(one, (content,), (record.headers,), record.topic, is_key=part == "key")
                content = await make(content) if one.waits else make(content)
            except Exception as cause:
                raise cannot_be_deserialized(cast(Any, record), part, cause, RELEASED) from cause
        contents.append(content)
    return record.with_content(*contents)


class ShareBatches:
    """Iterates over lists of records, each from one partition."""

    def __init__(self, reader: ShareReader, by: Deserializers, limit: int, look: BatchLoop | None = None) -> None:
        """Iterate over lists of up to ``limit`` records.

        ``look`` is called with each list that is handed out, and with None when the loop requests the next one.
        """
        self._reader = reader
        self._by = by
        self._limit = limit
        self._look = look

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Record]:
        began = time.time_ns()
        if self._look is not None:
            self._look(None, began)
        self._reader.come_back()
        records = await self._reader.next_records(self._limit, self._by)
        if not records:
            raise StopAsyncIteration
        if self._look is not None:
            self._look(_TracedBatch(records), began)
        return records


class _TracedBatch:
    """Presents a list of records as a batch to tracers."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records
        self.topic = records[0].topic
        self.partition = records[0].partition

    def __len__(self) -> int:
        return len(self._records)

    @property
    def headers(self) -> list[Headers]:
        return [record.headers for record in self._records]


class TracedShareRecords:
    """An asynchronous iterator over records. While the loop's body runs, the record's span is current."""

    def __init__(self, records: ShareRecords, look: RecordLoop) -> None:
        self._records = records
        self._look = look

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        self._look(None)
        record = await self._records.__anext__()
        self._look(record)
        return record

"""Delivery of records from the prefetch buffer to the application."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Coroutine, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import anyio.lowlevel

from ..._core.consumer.chunk import Chunk
from ..._core.consumer.fetched import NotLoaded
from ..._core.consumer.in_hand import PollInterval
from ..._core.consumer.position import Position
from ..._core.consumer.prefetch import BatchAhead, Prefetch
from ..._core.consumer.record_batch import Bury, RecordBatch
from ..._core.tracing import BatchLoop, RecordLoop
from ..._records import ConsumerRecord
from ...errors import ClientClosedError, IllegalStateError, KafkaError, RecordDeserializationError
from ...types import TopicPartition
from ..deadline import Deadline
from ..loop import Signal
from .deserializing import Loading, fill_batch, make_ready
from .records import Records

if TYPE_CHECKING:
    from ..group.leases import Lease, Leases

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

MANY = 1024
"""Maximum number of records that an iteration hands out before it reads the clock. A loop body may be slow."""

FAIR_S = 0.005
"""Seconds after which an iteration over buffered records lets other tasks run."""

TAKE_S = 0.01
"""Time limit in seconds for decoding in one `getmany`."""

Wanted = Container[TopicPartition] | None
Due = Callable[[Chunk], int]


class ReadListener(Protocol):
    """Receives notifications when records are handed out, and when the application requests more."""

    def returned(self, now: float) -> None:
        """Called when the application requests more records, so the earlier ones are done."""

    def watch(self, now: float) -> float | None:
        """Called when the application starts to wait. Returns the time at which to call `returned` again, or None."""

    def handed_out(self, tp: TopicPartition, before: Position) -> None:
        """Called when records from the position ``before`` on have been handed out together."""

    def handing_out(self, chunk: Chunk) -> None:
        """Called when an iteration hands out the records of this chunk one by one."""


class Reader(Generic[K, V]):
    """Hands out buffered records, and waits if there are none.

    The position moves when the caller receives the record, with no await in between, so a cancellation loses no record.

    - ``check`` raises the error that prevents reading.
    - ``watch`` reports topics that cannot be read, and returns the time of its next call.
    - ``demand`` is called with the partitions for which a reader is waiting. None means all partitions.
    - ``listener`` is notified of records that are handed out, and ``poll`` of the application's progress.
    """

    def __init__(
        self,
        prefetch: Prefetch,
        *,
        wake: Signal,
        check: Callable[[], None],
        watch: Callable[[float], float | None],
        demand: Callable[[Wanted], None],
        poll: PollInterval,
        listener: ReadListener | None = None,
    ) -> None:
        self._prefetch = prefetch
        self._check = check
        self._watch = watch
        self._demand = demand
        self._poll = poll
        self._listener = listener
        self._waits: list[Wanted] = []
        """Partitions for which each waiting task is waiting."""
        self._waited_s = 0.0
        self._waits_since = 0.0
        self._waited_at = -math.inf
        """Time at which the last wait ended."""
        self._deserializing: anyio.CancelScope | None = None
        """Cancel scope of a wait for the application's deserializers, or None."""
        self._loading = Loading()
        self._gave_way_at = 0.0
        """Time at which the reading task last let other tasks run."""
        self.wake = wake
        """Set when records may have arrived, or when a wait should end for another reason."""
        self.stopped = False
        """True after the consumer was stopped."""
        self.shared = False
        """True if several tasks may wait for records at the same time."""
        self.bury: Bury | None = None
        """Awaited before a record that cannot be deserialized is omitted.

        If it is None, the record's error is raised instead.
        """

    @property
    def waiting(self) -> bool:
        """True while a task is waiting for records."""
        return bool(self._waits)

    def has_waited_since(self, at: float) -> bool:
        """Return True if a read has been waiting for records at any time since ``at`` (``time.monotonic()``)."""
        return self.waiting or self._waited_at >= at

    def waited_s(self) -> float:
        """Return the total time in seconds for which reads have waited for records."""
        return self._waited_s + (time.monotonic() - self._waits_since if self._waits else 0.0)

    def replace_listener(self, listener: ReadListener | None) -> ReadListener | None:
        """Replace the listener. Return the previous one."""
        before, self._listener = self._listener, listener
        return before

    # --- reading single records --------------------------------------------------------------------------------------

    def records(self, look: RecordLoop | None = None) -> Records:
        """Return an iterator over single records."""
        slices: Slices[K, V] = Slices(self)
        return Records(slices.next, look)

    async def slice(self, size: int) -> Iterator[ConsumerRecord[K, V]] | None:
        """Return an iterator over the next records, or None after a stop.

        A record counts as handed out when it is reached.
        """
        while not self.stopped:
            self.begin()
            try:
                chunk = self._prefetch.chunk()
            except NotLoaded as large:
                await self._loading.load(large.view)
                continue
            if chunk is not None:
                if self._prefetch.deserializers.waits:
                    if not await self._is_ready(chunk, size, FAIR_S):
                        continue
                    size = min(size, chunk.ready_left())
                self._handing_out(chunk)
                return islice(chunk.remaining, size)
            try:
                await self.wait(None, None)
            except ClientClosedError:
                break
        return None

    async def give_way(self) -> None:
        """Let other tasks run, unless they have run within the last `FAIR_S` seconds."""
        if time.monotonic() > self._gave_way_at + FAIR_S:
            await anyio.lowlevel.checkpoint()
            self._gave_way_at = time.monotonic()

    async def next_record(self) -> ConsumerRecord[K, V] | None:
        """Return the next record, or None if the consumer is stopped during the wait."""
        try:
            return await self.getone(None, None)
        except ClientClosedError:
            if self.stopped:
                return None
            raise

    async def getone(self, wanted: Wanted, deadline: Deadline | None) -> ConsumerRecord[K, V] | None:
        """Return the next record of these partitions, or None if there is none by the deadline."""
        while True:
            await self._begin_fairly()
            try:
                chunk = self._prefetch.chunk(wanted)
            except NotLoaded as large:
                await self._loading.load(large.view)
                continue
            if chunk is not None:
                if self._prefetch.deserializers.waits and not await self._is_ready(chunk, 1, 0):
                    continue
                self._handing_out(chunk)
                record: ConsumerRecord[K, V] = next(chunk.remaining)
                return record
            if not await self.wait(wanted, deadline):
                return None

    # --- reading many records ----------------------------------------------------------------------------------------

    async def getmany(
        self, wanted: Wanted, timeout_ms: float, max_records: int | None, due: Due | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Return buffered records of these partitions. If there are none, wait for the first ones.

        For a chunk of records, ``due`` returns how many of the next ones may be taken. The rest stay in the buffer. If
        any stay, ``due`` must have removed the partition from ``wanted``. Otherwise, the call would never end.
        """
        deadline = Deadline(timeout_ms)
        while True:
            await self._begin_fairly()
            try:
                chunk = self._prefetch.chunk(wanted) if self._prefetch.deserializers.waits else None
                if chunk is not None and not await self._is_ready(chunk, max_records, TAKE_S):
                    continue
                taken = self._take(wanted, max_records, due)
            except NotLoaded as large:
                await self._loading.load(large.view)
                continue
            if taken or not await self.wait(wanted, deadline):
                return taken

    def _take(
        self, wanted: Wanted, limit: int | None, due: Due | None
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """Take up to ``limit`` buffered records of the partitions ``wanted``, for `getmany`.

        Stops after about `TAKE_S` seconds. Raises an error only if no records have been taken, because they would be
        lost.
        """
        taken: dict[TopicPartition, list[ConsumerRecord[K, V]]] = {}
        until = time.monotonic() + TAKE_S
        while limit is None or limit > 0:
            try:
                chunk = self._prefetch.chunk(wanted)
            except (KafkaError, NotLoaded):
                if taken:
                    break  # the next call raises the error, because raising it now would lose these records
                raise
            if chunk is None:
                break
            if self._prefetch.deserializers.waits:
                ready = chunk.ready_left()
                if not ready:
                    break
                limit = ready if limit is None else min(limit, ready)
            most = limit
            if due is not None:
                most = due(chunk) if limit is None else min(limit, due(chunk))
                if not most:
                    continue
            held = taken.get(chunk.tp)
            if held is None and self._listener is not None:
                self._listener.handed_out(chunk.tp, chunk.position())
            records = chunk.take(most)
            if held is None:
                taken[chunk.tp] = records
            else:
                held.extend(records)
            if limit is not None:
                limit -= len(records)
            if time.monotonic() > until:
                break
        return taken

    async def next_batch(self) -> RecordBatch[K, V] | None:
        """Return the next batch, or None if the consumer is stopped during the wait."""
        try:
            while True:
                await self._begin_fairly()
                waits = self._prefetch.deserializers.waits
                ahead: BatchAhead | None = None
                batch: RecordBatch[K, V] | None = None
                try:
                    if waits:
                        ahead = self._prefetch.look_at_batch()
                    else:
                        batch = self._prefetch.batch()
                except NotLoaded as large:
                    await self._loading.load(large.view)
                    continue
                if ahead is not None:
                    try:
                        readable = await self._unless_stopped(
                            fill_batch(ahead.batch, self._prefetch.deserializers, self.bury)
                        )
                    except RecordDeserializationError as error:
                        self._prefetch.pass_turn(TopicPartition(error.topic, error.partition))
                        raise
                    # Other tasks have run. They may have stopped the consumer or reported an error.
                    self.begin()
                    batch = self._prefetch.take_batch(ahead)
                    if batch is None or not readable:
                        continue
                if batch is not None:
                    batch.bury = self.bury
                    if self._listener is not None:
                        self._listener.handed_out(batch.topic_partition, Position(batch.base_offset))
                    return batch
                await self.wait(None, None)
        except ClientClosedError:
            if self.stopped:
                return None
            raise

    async def _is_ready(self, chunk: Chunk, limit: int | None, within_s: float) -> bool:
        """Deserialize up to ``limit`` of the chunk's next records, within ``within_s`` seconds.

        Returns True if the next record was already deserialized. Otherwise, other tasks have run and may have changed
        the chunk, so the caller must look again.
        """
        if chunk.ready_left() > 0:
            return True
        deserializers = self._prefetch.deserializers
        try:
            await self._unless_stopped(make_ready(chunk, deserializers, limit, within_s))
        except RecordDeserializationError as error:
            try:
                if self.bury is None or not error.lasts:
                    raise
                await self._unless_stopped(self.bury([error]))
            except RecordDeserializationError:
                self._prefetch.pass_turn(chunk.tp)
                raise
            chunk.drop(error.record)
        return False

    def begin(self) -> None:
        """Start a read: raise pending errors, and notify the listener that the application has requested records."""
        now = time.monotonic()
        self._poll.progressed(now)
        self._check()
        self._prefetch.raise_report()
        if self._listener is not None:
            self._listener.returned(now)

    async def _begin_fairly(self) -> None:
        self.begin()
        if time.monotonic() > self._gave_way_at + FAIR_S:
            await self.give_way()
            # Other tasks have run. They may have stopped the consumer or reported an error.
            self.begin()

    def _handing_out(self, chunk: Chunk) -> None:
        if self._listener is not None:
            self._listener.handing_out(chunk)

    # --- waiting -----------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End all iterations, current and later ones, because the consumer is being stopped."""
        self.stopped = True
        self.wake.set()
        if self._deserializing is not None:
            self._deserializing.cancel()

    async def _unless_stopped(self, deserializing: Coroutine[Any, Any, T]) -> T:
        """Await ``deserializing``, which runs the application's deserializers, and return its result.

        Raises `ClientClosedError` if the consumer is stopped during the wait.
        """
        with anyio.CancelScope() as scope:
            self._deserializing = scope
            try:
                return await deserializing
            finally:
                self._deserializing = None
        raise ClientClosedError

    async def wait(self, wanted: Wanted, deadline: Deadline | None) -> bool:
        """Wait until records may have arrived. Return False if the deadline passes first."""
        if self._waits and not self.shared:
            raise IllegalStateError("another task is waiting for this consumer's records: read from one task at a time")
        now = time.monotonic()
        # Do this before the deadline is checked, because even a read without a timeout must report missing topics.
        watch_at = self._watch(now)
        end_at = None if deadline is None else deadline.at
        if end_at is not None and now >= end_at:
            return False
        commit_at = None if self._listener is None else self._listener.watch(now)
        until = min((at for at in (end_at, watch_at, commit_at) if at is not None), default=None)
        if not self._waits:
            self._waits_since = now
        self._waits.append(wanted)
        self._poll.waits()
        self._demand(self._wanted())
        try:
            await self.wake.wait(None if until is None else max(0.0, until - now))
        finally:
            self._waits.remove(wanted)
            self._gave_way_at = self._waited_at = time.monotonic()
            self._poll.progressed(self._gave_way_at)
            if self._waits:
                self._poll.waits()
            else:
                self._waited_s += self._gave_way_at - self._waits_since
            self._demand(self._wanted())
        if self.stopped:
            raise ClientClosedError
        return True

    def _wanted(self) -> Wanted:
        """Return the partitions for which tasks are waiting.

        None means all, and empty means that no task is waiting.
        """
        given = [wanted for wanted in self._waits if wanted is not None]
        if len(given) < len(self._waits):
            return None
        return given[0] if len(given) == 1 else AnyOf(given) if given else ()


class AnyOf:
    """A container of all partitions that are in any of several containers."""

    def __init__(self, containers: Sequence[Container[TopicPartition]]) -> None:
        self._containers = containers

    def __contains__(self, tp: Any) -> bool:
        return any(tp in container for container in self._containers)


class Slices(Generic[K, V]):
    """Divides the records of an iteration into slices, so that other tasks run between slices.

    There is no task switch within a slice. The size of the slices doubles if the last one took less than a quarter of
    `FAIR_S`, and halves otherwise.
    """

    def __init__(self, reader: Reader[K, V]) -> None:
        self._reader = reader
        self._size = 1
        self._began_at: float | None = None

    async def next(self) -> Iterator[ConsumerRecord[K, V]] | None:
        """Return the next slice, which must be iterated to its end, or None if the consumer has been stopped."""
        if self._began_at is not None:
            quick = time.monotonic() < self._began_at + FAIR_S / 4
            self._size = min(MANY, self._size * 2) if quick else max(1, self._size // 2)
            await self._reader.give_way()
        some = await self._reader.slice(self._size)
        self._began_at = time.monotonic()
        return some


class Batches(Generic[K, V]):
    """Asynchronous iterator over the batches of a reader.

    It is not a generator, because trio warns about generators that are not exhausted.
    """

    def __init__(self, reader: Reader[K, V], leases: Leases | None, look: BatchLoop | None = None) -> None:
        """Iterate over the batches of ``reader``, each with one of the ``leases``.

        ``look`` is called with each batch that is handed out, and with None when the loop requests the next one.
        """
        self._reader = reader
        self._look = look
        self._leases = leases
        self._lease: Lease | None = None
        """The lease of the last batch."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RecordBatch[K, V]:
        began = 0
        if self._look is not None:
            began = time.time_ns()
            self._look(None, began)
        batch = await self._reader.next_batch()
        self._lease = None
        if batch is None:
            raise StopAsyncIteration
        if self._look is not None:
            self._look(batch, began)
        if self._leases is not None:
            self._lease = self._leases.lend(batch)
        return batch

    def __del__(self) -> None:
        # If the loop was left early, `__anext__` was not called after the last batch.
        if self._lease is not None:
            self._lease.end()

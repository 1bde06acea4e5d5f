"""Results of records passed to the producer.

There is no future for each record. All records of a batch share a `BatchOutcome`, and a `Delivery` consists of that
outcome and an index. A future is created only if a delivery is awaited before its batch is done.

This code runs for each record. If a compiler is available, it is compiled through ``delivery.pxd``. In compiled form,
the garbage collector does not track `Delivery` and `RecordRun` (see setup.py), because every unacknowledged record may
have one. They must therefore never be part of a lasting reference cycle. The producer keeps an outcome alive until it
is settled. A settled outcome refers only to plain values and to errors. Only copies of these errors are raised.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from typing import Any, cast

from ..._cpython import awaiting, naming
from ...errors import IllegalStateError, KafkaError
from ...errors.base import own_copy
from ...types import RecordMetadata
from .outcome import NOTHING_TO_WAIT_FOR, BatchOutcome, Park


class Delivery:
    """One record that was sent. Await it for its `RecordMetadata`.

        delivery = await producer.send("topic", b"value")
        metadata = await delivery
        print(metadata.partition, metadata.offset)

    The record is acknowledged or fails within ``delivery_timeout_ms``. If it has failed, awaiting the delivery raises
    the error, for example `DeliveryTimeoutError`. A delivery may be awaited any number of times, or not at all.
    Cancelling the await does not cancel the record.

    A delivery has the read-only methods of an `asyncio.Future`, so `asyncio.wait` and other functions accept it. It
    belongs to the producer's event loop.
    """

    __slots__ = ("_index", "_outcome", "_timestamp_ms")

    def __init__(self, outcome: BatchOutcome, index: int, timestamp_ms: int) -> None:
        self._outcome = outcome
        self._index = index
        self._timestamp_ms = timestamp_ms

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self._outcome.topic

    @property
    def partition(self) -> int:
        """The partition chosen for the record, or -1 until its topic is known."""
        return self._locate().partition

    @property
    def timestamp_ms(self) -> int:
        """The record's timestamp as sent, in milliseconds since 1970."""
        return self._timestamp_ms

    @property
    def offset(self) -> int:
        """The record's offset, once the delivery has been awaited. Raises the same errors as `result`."""
        return self.result().offset

    def done(self) -> bool:
        """Return True if the record was acknowledged or has failed."""
        return self._locate().done

    def cancel(self, msg: object = None) -> bool:
        """Do nothing and return False, because a record that was sent cannot be cancelled."""
        return False

    def cancelled(self) -> bool:
        """Return False, because a record that was sent cannot be cancelled."""
        return False

    @property
    def place(self) -> tuple[BatchOutcome, int]:
        """The outcome of the record's batch, and the record's index in it. Internal."""
        return self._locate(), self._index

    def result(self) -> RecordMetadata:
        """Return the metadata of an acknowledged record, or raise the error of a failed one.

        Raises `IllegalStateError` if the record is neither acknowledged nor failed.
        """
        outcome = self._locate()
        if not outcome.done:
            raise IllegalStateError("the record is neither acknowledged nor failed yet: await the delivery")
        return self._result(outcome)

    def exception(self) -> KafkaError | None:
        """Return the error of a failed record, or None if the record was acknowledged.

        Raises `IllegalStateError` if the record is neither acknowledged nor failed.
        """
        outcome = self._locate()
        if not outcome.done:
            raise IllegalStateError("the record is neither acknowledged nor failed yet: await the delivery")
        if outcome.error is None:
            return None
        return own_copy(cast("KafkaError", outcome.record(self._index, self._timestamp_ms)))

    def add_done_callback(self, fn: Callable[[Delivery], object], /, *, context: Context | None = None) -> None:
        """Call ``fn(delivery)`` from the event loop once the record is acknowledged or has failed.

        ``fn`` runs in ``context``, by default in a copy of the current context. Exceptions that it raises are logged.
        """
        outcome = self._locate()
        callback = _Callback(self, fn, copy_context() if context is None else context)
        if outcome.done:
            outcome.park.soon(callback)
        elif outcome.callbacks is None:
            outcome.callbacks = [callback]
        else:
            outcome.callbacks.append(callback)

    def remove_done_callback(self, fn: Callable[[Delivery], object], /) -> int:
        """Remove all callbacks of ``fn`` that are not scheduled yet. Return their number."""
        callbacks = self._locate().callbacks
        if callbacks is None:
            return 0
        others = [one for one in callbacks if one.delivery is not self or one.fn != fn]
        removed = len(callbacks) - len(others)
        callbacks[:] = others
        return removed

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        outcome = self._outcome
        while not outcome.done:
            if outcome.parts is None:
                yield from outcome.park(outcome).__await__()
            outcome = self._locate()
        return self._result(outcome)

    def _locate(self) -> BatchOutcome:
        if self._outcome.parts is not None:
            self._outcome, self._index = self._outcome.locate(self._index)
        return self._outcome

    def _result(self, outcome: BatchOutcome) -> RecordMetadata:
        if outcome.error is None:
            return outcome.metadata(self._index, self._timestamp_ms)
        # All records of a batch share the error, and raising it would add a traceback, so raise a copy.
        raise own_copy(cast("KafkaError", outcome.record(self._index, self._timestamp_ms)))

    def __repr__(self) -> str:
        outcome = self._locate()
        state = "pending" if not outcome.done else "acknowledged" if outcome.error is None else "failed"
        return f"<Delivery {outcome.topic}-{outcome.partition} {state}>"


class _Callback:
    """A function to call when a delivery is done, with its context."""

    __slots__ = ("context", "delivery", "fn")

    def __init__(self, delivery: Delivery, fn: Callable[[Delivery], object], context: Context) -> None:
        self.delivery = delivery
        self.fn = fn
        self.context = context

    def __call__(self) -> None:
        if self.delivery.done():
            self.context.run(self.fn, self.delivery)
        else:  # the batch was divided
            self.delivery.add_done_callback(self.fn, context=self.context)


class _BatchCallback:
    """A function to call when all records of a `DeliveryBatch` are done. It waits for its batches one by one."""

    __slots__ = ("at", "batch", "context", "fn")

    def __init__(self, batch: DeliveryBatch, fn: Callable[[DeliveryBatch], object], context: Context) -> None:
        self.batch = batch
        self.fn = fn
        self.context = context
        self.at = 0
        """All entries before this index are done."""

    def go_on(self) -> None:
        entries = self.batch._entries
        while self.at < len(entries):
            outcome = _pending(entries[self.at])
            if outcome is not None:
                if outcome.callbacks is None:
                    outcome.callbacks = []
                outcome.callbacks.append(self)
                return
            self.at += 1
        _park_of(entries[0]).soon(self.context.run, self.fn, self.batch)

    __call__ = go_on
    delivery = None
    """Always None, unlike in `_Callback`, because the callback waits for more than one delivery."""


def _park_of(entry: Any) -> Park:
    if type(entry) is Delivery:
        delivery = entry
        return delivery._outcome.park
    run: RecordRun = entry
    return run.outcome.park


def _first_of(entry: Any) -> Delivery:
    if type(entry) is Delivery:
        delivery = entry
        return delivery
    run: RecordRun = entry
    return new_delivery(run.outcome, run.first, run.timestamp_ms)


def _is_done(one: Any) -> bool:
    delivery: Delivery = one
    return delivery._outcome.done


def _take(one: Any) -> RecordMetadata:
    delivery: Delivery = one
    if not delivery._outcome.done:
        raise TypeError("a Delivery is not an iterator: await it")
    return delivery._result(delivery._outcome)


awaiting.shorten_await(Delivery, _is_done, _take)


def new_delivery(outcome: BatchOutcome, index: int, timestamp_ms: int) -> Delivery:
    """Create a `Delivery`, which is faster than calling the class."""
    delivery = Delivery.__new__(Delivery)
    delivery._outcome = outcome
    delivery._index = index
    delivery._timestamp_ms = timestamp_ms
    return delivery


class RecordRun:
    """Consecutive records of one batch that have the same timestamp."""

    __slots__ = ("count", "first", "outcome", "timestamp_ms")

    def __init__(self, outcome: BatchOutcome, first: int, count: int, timestamp_ms: int) -> None:
        self.outcome = outcome
        self.first = first
        self.count = count
        self.timestamp_ms = timestamp_ms


def _pending(entry: Any) -> BatchOutcome | None:
    """Return the outcome that a `Delivery` or `RecordRun` is waiting for, or None if it is done."""
    if type(entry) is Delivery:
        delivery = entry
        outcome = delivery._locate()
        return None if outcome.done else outcome
    run: RecordRun = entry
    outcome = run.outcome
    if outcome.parts is None:
        return None if outcome.done else outcome
    for index in range(run.first, run.first + run.count):
        part = outcome.locate(index)[0]
        if not part.done:
            return part
    return None


def _collect(entry: Any, results: list[RecordMetadata | KafkaError]) -> None:
    """Append the results of the records of a finished `Delivery` or `RecordRun`."""
    if type(entry) is Delivery:
        delivery = entry
        results.append(delivery._locate().record(delivery._index, delivery._timestamp_ms))
    else:
        run: RecordRun = entry
        if run.outcome.parts is None:
            results.extend(run.outcome.records(run.first, run.count, run.timestamp_ms))
        else:
            for index in range(run.first, run.first + run.count):
                part, at = run.outcome.locate(index)
                results.append(part.record(at, run.timestamp_ms))


def _failure(entry: Any) -> KafkaError | None:
    """Return the error of the first failed record in a finished `Delivery` or `RecordRun`, or None."""
    if type(entry) is Delivery:
        delivery = entry
        return delivery.exception()
    run: RecordRun = entry
    count = 1 if run.outcome.parts is None else run.count  # the records of a batch either all fail or all succeed
    for index in range(run.first, run.first + count):
        error = new_delivery(run.outcome, index, run.timestamp_ms).exception()
        if error is not None:
            return error
    return None


class DeliveryBatch:
    """The records of one ``send_many``. Await it for a list of results, one for each record, in order.

        batch = await producer.send_many("topic", values)
        failed = [result for result in await batch if isinstance(result, KafkaError)]

    Each result is a `RecordMetadata`, or the `KafkaError` with which the record failed. Awaiting does not raise these
    errors, and waits until all records are acknowledged or have failed.
    """

    __slots__ = ("_entries", "_size")

    def __init__(self) -> None:
        self._entries: list[Delivery | RecordRun] = []
        self._size = 0

    def add(self, outcome: BatchOutcome, first: int, count: int, timestamp_ms: int) -> None:
        """Add the next ``count`` records, which are consecutive in this outcome's batch and have the same timestamp."""
        self._entries.append(RecordRun(outcome, first, count, timestamp_ms))
        self._size += count

    def add_delivery(self, delivery: Delivery) -> None:
        """Add the next record, which was sent on its own."""
        self._entries.append(delivery)
        self._size += 1

    def add_failed(self, error: KafkaError, count: int = 1) -> None:
        """Add the next ``count`` records as failed with this error."""
        failed = BatchOutcome("", -1, NOTHING_TO_WAIT_FOR)
        failed.fail(error)
        self.add(failed, 0, count, -1)

    def __len__(self) -> int:
        return self._size

    def add_done_callback(self, fn: Callable[[DeliveryBatch], object], /, *, context: Context | None = None) -> None:
        """Call ``fn(batch)`` from the event loop once all records are done. It is never called for an empty batch.

        ``fn`` runs in ``context``, by default in a copy of the current context. Exceptions that it raises are logged.
        """
        if self._entries:
            _BatchCallback(self, fn, copy_context() if context is None else context).go_on()

    def remove_done_callback(self, fn: Callable[[DeliveryBatch], object], /) -> int:
        """Remove all callbacks of ``fn`` that are not scheduled yet. Return their number."""
        removed = 0
        for entry in self._entries:
            outcome = _pending(entry)
            if outcome is None or outcome.callbacks is None:
                continue
            callbacks = outcome.callbacks
            others = [
                one for one in callbacks if type(one) is not _BatchCallback or one.batch is not self or one.fn != fn
            ]
            removed += len(callbacks) - len(others)
            callbacks[:] = others
        return removed

    def first(self) -> Delivery:
        """Return the delivery of the first record. Raises IndexError if the batch is empty."""
        return _first_of(self._entries[0])

    def done(self) -> bool:
        """Return True if every record is acknowledged or has failed."""
        return all(_pending(entry) is None for entry in self._entries)

    def exception(self) -> KafkaError | None:
        """Return the error of the first failed record, or None. Raises `IllegalStateError` if a record is not done."""
        if not self.done():
            raise IllegalStateError("some records are neither acknowledged nor failed yet: await the batch")
        for entry in self._entries:
            error = _failure(entry)
            if error is not None:
                return error
        return None

    def results(self) -> list[RecordMetadata | KafkaError]:
        """Return the results of all records, in order. Raises `IllegalStateError` if a record is not done."""
        if not self.done():
            raise IllegalStateError("some records are neither acknowledged nor failed yet: await the batch")
        results: list[RecordMetadata | KafkaError] = []
        for entry in self._entries:
            _collect(entry, results)
        return results

    def __await__(self) -> Generator[Any, Any, list[RecordMetadata | KafkaError]]:
        results: list[RecordMetadata | KafkaError] = []
        for entry in self._entries:
            outcome = _pending(entry)
            while outcome is not None:
                yield from outcome.park(outcome).__await__()
                outcome = _pending(entry)
            _collect(entry, results)
        return results

    def __repr__(self) -> str:
        return f"<DeliveryBatch of {self._size} records, {'done' if self.done() else 'pending'}>"


naming.show_in("aiokafka_lead", Delivery)
naming.show_in("aiokafka_lead", DeliveryBatch)

"""Futures that `send` and `send_batch` return, which wrap native deliveries.

This module is performance-critical. It is compiled with ``futures.pxd`` if a compiler is available, and otherwise runs
as plain Python.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from typing import Any

from ..._core.producer.delivery import Delivery, DeliveryBatch
from ..._cpython import awaiting
from ...errors import InvalidProducerEpochError, KafkaError
from ...types import TopicPartition
from ..errors import ProducerFenced
from ..structs import RecordMetadata

__all__ = ["RecordFuture", "fenced", "new_batch_future", "new_record_future"]

Callback = Callable[[Any], object]

_new: Any = tuple.__new__


class RecordFuture:
    """Future of a record or a batch, whose result is a `RecordMetadata`, or None with ``acks=0``.

    It has the methods of an `asyncio.Future`, except methods that set a result. Cancelling it does not prevent the
    record from being sent. The future of a batch is done when all its records are acknowledged or have failed. Its
    outcome is the result of the first record, or the error of the first record that failed.
    """

    __slots__ = ("_asyncio_future_blocking", "_batch", "_callbacks", "_cancelled", "_delivery", "_loop", "_noack")

    def __init__(
        self,
        delivery: Delivery,
        noack: bool,
        loop: asyncio.AbstractEventLoop,
        batch: DeliveryBatch | None = None,
    ) -> None:
        self._delivery = delivery
        self._loop = loop
        """Event loop of the producer. There may be no running loop, because ``run_until_complete`` uses the future."""
        self._batch = batch
        """Delivery of all records of a batch; None for the future of a record."""
        self._noack = noack
        self._cancelled = False
        self._callbacks: list[_Waiting] | None = None
        self._asyncio_future_blocking = False
        """Attribute by which asyncio recognizes futures."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        """`asyncio.Future`, because programs check ``isinstance(sent, asyncio.Future)``."""
        return asyncio.Future

    def __await__(self) -> Generator[Any, Any, RecordMetadata | None]:
        if not self.done():
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def done(self) -> bool:
        """Return True if the record was acknowledged or has failed, or if this future was cancelled."""
        return self._cancelled or (self._delivery.done() and (self._batch is None or self._batch.done()))

    def cancelled(self) -> bool:
        """Return True if this future was cancelled before it was done."""
        return self._cancelled

    def cancel(self, msg: object = None) -> bool:
        """Cancel this future, but not the sending of the record. Return False if the future is already done."""
        if self.done():
            return False
        self._cancelled = True
        callbacks, self._callbacks = self._callbacks, None
        for waiting in callbacks or ():
            self._source().remove_done_callback(waiting)
            self._loop.call_soon(waiting.fn, self, context=waiting.context)
        return True

    def result(self) -> RecordMetadata | None:
        """Return the result or raise the error. Raises `asyncio.InvalidStateError` if the future is not done."""
        delivery = self._delivery
        outcome = delivery._locate()
        if self._cancelled or not outcome.done:
            self._check()
        if self._batch is not None:
            self._check()
            error = self._batch.exception()
            if error is not None:
                raise fenced(error)
        if outcome.error is not None:
            raise fenced(delivery.exception())
        native = delivery._result(outcome)
        if self._noack:
            return None
        topic, partition, offset, timestamp_ms = native
        where = _where(topic, partition)
        kind = 1 if outcome.log_append_time_ms >= 0 else 0
        metadata: RecordMetadata = _new(RecordMetadata, (topic, partition, where, offset, timestamp_ms, kind, None))
        return metadata

    def exception(self) -> BaseException | None:
        """Return the error, or None after a success. Raises `asyncio.InvalidStateError` if the future is not done."""
        self._check("Exception is not set.")
        error: KafkaError | None = self._source().exception()
        return None if error is None else fenced(error)

    def _check(self, otherwise: str = "Result is not set.") -> None:
        if self._cancelled:
            raise asyncio.CancelledError
        if not self.done():
            raise asyncio.InvalidStateError(otherwise)

    def _make_cancelled_error(self) -> asyncio.CancelledError:
        """Return the error that `asyncio.gather` raises for a cancelled future."""
        return asyncio.CancelledError()

    def add_done_callback(self, fn: Callback, /, *, context: Context | None = None) -> None:
        """Let the event loop call ``fn`` with this future when it is done.

        The default of ``context`` is a copy of the current context. Exceptions of ``fn`` are passed to the exception
        handler of the event loop.
        """
        if context is None:
            context = copy_context()
        if self.done():
            self._loop.call_soon(fn, self, context=context)
            return
        waiting = _Waiting(fn, self, context)
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append(waiting)
        self._source().add_done_callback(waiting, context=context)

    def remove_done_callback(self, fn: Callback, /) -> int:
        """Remove all registrations of a callback, and return their number."""
        found = [waiting for waiting in self._callbacks or () if waiting.fn == fn]
        for waiting in found:
            self._source().remove_done_callback(waiting)
        if found:
            self._callbacks = [waiting for waiting in self._callbacks or () if waiting.fn != fn]
        return len(found)

    def _source(self) -> Any:
        """Return the native delivery that calls the callbacks when it is done."""
        return self._delivery if self._batch is None else self._batch

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the producer."""
        return self._loop

    def __repr__(self) -> str:
        state = "cancelled" if self._cancelled else "finished" if self.done() else "pending"
        return f"<Future {state} of a record: {self._delivery!r}>"


def fenced(error: Any) -> KafkaError:
    """Return the error of aiokafka's class: `ProducerFenced` if another producer may have taken over the epoch."""
    own: KafkaError = ProducerFenced(error.message) if isinstance(error, InvalidProducerEpochError) else error
    return own


class _Waiting:
    """Callback of a future with its context."""

    __slots__ = ("context", "fn", "future")

    def __init__(self, fn: Callback, future: RecordFuture, context: Context) -> None:
        self.fn = fn
        self.future = future
        self.context = context

    def __call__(self, _: Delivery | DeliveryBatch) -> None:
        self.future._callbacks = None  # breaks a reference cycle; all callbacks are being called now
        try:
            self.fn(self.future)
        except Exception as error:
            told = {"message": f"Exception in callback {self.fn!r}", "exception": error, "future": self.future}
            self.future._loop.call_exception_handler(told)


def _is_done(one: Any) -> bool:
    future: RecordFuture = one
    if future._batch is not None:
        return future.done()
    return future._cancelled or future._delivery._outcome.done


def _take(one: Any) -> RecordMetadata | None:
    return one.result()  # type: ignore[no-any-return]


awaiting.shorten_await(RecordFuture, _is_done, _take)


def new_record_future(delivery: Delivery, noack: bool, loop: asyncio.AbstractEventLoop) -> RecordFuture:
    """Create a `RecordFuture`, faster than by calling the class."""
    future = RecordFuture.__new__(RecordFuture)
    future._delivery = delivery
    future._loop = loop
    future._batch = None
    future._noack = noack
    future._cancelled = False
    future._callbacks = None
    future._asyncio_future_blocking = False
    return future


def new_batch_future(batch: DeliveryBatch, noack: bool, loop: asyncio.AbstractEventLoop) -> Any:
    """Create the future of a batch. Its result is None with ``acks=0``, or if the batch has no records."""
    if len(batch):
        return RecordFuture(batch.first(), noack, loop, batch)
    nothing: asyncio.Future[None] = loop.create_future()
    nothing.set_result(None)
    return nothing


_last = TopicPartition("", -1)
"""Partition of the last result, which is reused, because successive records usually have the same partition."""


def _where(topic: str, partition: int) -> TopicPartition:
    global _last
    where = _last
    if where[0] is not topic or where[1] != partition:
        where = _last = _new(TopicPartition, (topic, partition))  # three times faster than calling the class
    return where

"""What `send` and `send_batch` give: like futures of aiokafka, over native deliveries.

Hot: this module is compiled through ``futures.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from functools import partial
from typing import Any

from ..._core.producer.delivery import Delivery, DeliveryBatch
from ..._cpython import awaiting
from ...errors import KafkaError
from ...types import TopicPartition
from ..structs import RecordMetadata

__all__ = ["RecordFuture", "batch_result", "new_record_future"]

Callback = Callable[[Any], object]

_new: Any = tuple.__new__


class RecordFuture:
    """The fate of one record: `RecordMetadata`, None with ``acks=0``, or the error it failed with.

    It has the methods of an `asyncio.Future` that set nothing. Cancelling it does not call the record back.
    """

    __slots__ = ("_callbacks", "_cancelled", "_delivery", "_noack")

    _asyncio_future_blocking = None
    """What tells asyncio that it is awaited as any object, and not as its own futures are."""

    def __init__(self, delivery: Delivery, noack: bool) -> None:
        self._delivery = delivery
        self._noack = noack
        self._cancelled = False
        self._callbacks: list[tuple[Callback, Callback]] | None = None

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
        """``isinstance(sent, asyncio.Future)`` holds, which programs ask."""
        return asyncio.Future

    def __await__(self) -> Generator[Any, Any, RecordMetadata | None]:
        if not self.done():
            try:
                yield from self._delivery.__await__()
            except KafkaError:
                pass  # raised as it is when the result is asked for
        return self.result()

    def done(self) -> bool:
        """Whether the record was acknowledged or failed, or this was cancelled."""
        return self._cancelled or self._delivery.done()

    def cancelled(self) -> bool:
        """Whether this was cancelled before it was done."""
        return self._cancelled

    def cancel(self, msg: object = None) -> bool:
        """Give up what becomes of the record, which is sent all the same; False if that is known already."""
        if self.done():
            return False
        self._cancelled = True
        callbacks, self._callbacks = self._callbacks, None
        for fn, waiting in callbacks or ():
            self._delivery.remove_done_callback(waiting)
            asyncio.get_running_loop().call_soon(fn, self)
        return True

    def result(self) -> RecordMetadata | None:
        """What awaiting gives; raises `asyncio.InvalidStateError` before this is done."""
        delivery = self._delivery
        outcome = delivery._locate()
        if self._cancelled or not outcome.done:
            self._check()
        native = delivery._result(outcome)
        if self._noack:
            return None
        topic, partition, offset, timestamp_ms = native
        where = _where(topic, partition)
        kind = 1 if outcome.log_append_time_ms >= 0 else 0
        metadata: RecordMetadata = _new(RecordMetadata, (topic, partition, where, offset, timestamp_ms, kind, None))
        return metadata

    def exception(self) -> BaseException | None:
        """What the record failed with, or None; raises as `result` does before this is done."""
        self._check()
        return self._delivery.exception()

    def _check(self) -> None:
        if self._cancelled:
            raise asyncio.CancelledError
        if not self._delivery.done():
            raise asyncio.InvalidStateError("Result is not set.")

    def add_done_callback(self, fn: Callback, /, *, context: Context | None = None) -> None:
        """Have the event loop call ``fn`` with this when it is done."""
        if self._cancelled:
            asyncio.get_running_loop().call_soon(fn, self, context=context)
            return
        waiting = partial(_call, fn, self)
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append((fn, waiting))
        self._delivery.add_done_callback(waiting, context=context)

    def remove_done_callback(self, fn: Callback, /) -> int:
        """Take back every `add_done_callback` of this function; returns how many there were."""
        found = [pair for pair in self._callbacks or () if pair[0] == fn]
        self._callbacks = [pair for pair in self._callbacks or () if pair[0] != fn]
        for _, waiting in found:
            self._delivery.remove_done_callback(waiting)
        return len(found)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""
        return asyncio.get_running_loop()


def _call(fn: Callback, future: RecordFuture, _: Delivery) -> None:
    fn(future)


def _is_done(one: Any) -> bool:
    future: RecordFuture = one
    return future._cancelled or future._delivery._outcome.done


def _take(one: Any) -> RecordMetadata | None:
    return one.result()  # type: ignore[no-any-return]


awaiting.shorten_await(RecordFuture, _is_done, _take)


def new_record_future(delivery: Delivery, noack: bool) -> RecordFuture:
    """A `RecordFuture`, made faster than by a call of the class."""
    future = RecordFuture.__new__(RecordFuture)
    future._delivery = delivery
    future._noack = noack
    future._cancelled = False
    future._callbacks = None
    return future


_last = TopicPartition("", -1)
"""That of the latest result: most records share theirs with the one before."""


def _where(topic: str, partition: int) -> TopicPartition:
    global _last
    where = _last
    if where[0] is not topic or where[1] != partition:
        where = _last = _new(TopicPartition, (topic, partition))  # which takes a third of a call of the class
    return where


async def batch_result(deliveries: DeliveryBatch, noack: bool) -> RecordMetadata | None:
    """Where the first record of a batch is, when all are acknowledged; raises what the first that failed has.

    None with ``acks=0``, and of a batch without records.
    """
    outcomes = await deliveries
    for outcome in outcomes:
        if isinstance(outcome, KafkaError):
            raise outcome
    if noack or not outcomes:
        return None
    first: Any = outcomes[0]
    where = TopicPartition(first.topic, first.partition)
    return RecordMetadata(first.topic, first.partition, where, first.offset, first.timestamp_ms, 0, None)

"""The iterator behind ``async for`` over a consumer.

This code runs for each record. If a compiler is available, it is compiled through ``records.pxd``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from typing import Any, Self

from ..._core.tracing import RecordLoop
from ..._core.unsampled import Unsampled
from ..._cpython import awaiting
from ..._records import ConsumerRecord
from ...errors import IllegalStateError


class Records:
    """Iterates over single records.

    If the next record is available, the iterator itself is the awaitable, so no further object has to be created.
    """

    __slots__ = ("_at_hand", "_look", "_more", "_next", "_unsampled")

    def __init__(
        self,
        more: Callable[[], Coroutine[Any, Any, Iterator[ConsumerRecord[Any, Any]] | None]],
        look: RecordLoop | None = None,
    ) -> None:
        """Iterate over the records that ``more`` returns.

        ``more`` waits for records and returns them, or None at the end. The records must be iterated to their end.
        ``look`` is called with each record that is handed out, and with None before a wait for more. It is not called
        for records without headers that are not sampled.
        """
        self._more = more
        self._look = look
        self._unsampled: Unsampled | None = None if look is None else look.unsampled
        self._at_hand: Iterator[ConsumerRecord[Any, Any]] = iter(())
        self._next: ConsumerRecord[Any, Any] | None = None
        """The record to hand out next, or None."""

    def __aiter__(self) -> Self:
        return self

    def at_hand(self) -> bool:
        """Return True if the next record is available.

        Awaiting this object then returns the record without a task switch.
        """
        return _is_ready(self)

    def __anext__(self) -> Awaitable[ConsumerRecord[Any, Any]]:
        return self if _is_ready(self) else self._wait_for_next()

    def __await__(self) -> Generator[Any, Any, ConsumerRecord[Any, Any]]:
        if _is_ready(self):
            return _take(self)
        return (yield from self._wait_for_next().__await__())

    def send(self, value: Any) -> Any:
        """Return the record. asyncio requires this method to run ``anext(records)`` as a task."""
        raise StopIteration(_take(self))

    def throw(self, kind: Any, error: Any = None, trace: Any = None) -> Any:
        """Raise the error, as a coroutine does that has not started."""
        raise kind if error is None else error

    def close(self) -> None:
        """Do nothing, as a coroutine does that has not started."""

    async def _wait_for_next(self) -> ConsumerRecord[Any, Any]:
        if self._look is not None:
            self._look(None)
        while True:
            some = await self._more()
            if some is None:
                raise StopAsyncIteration
            self._at_hand = some
            for record in some:
                if self._look is not None:
                    self._look(record)
                return record


def _is_ready(one: Any) -> bool:
    records: Records = one
    if records._next is None:
        records._next = next(records._at_hand, None)
    return records._next is not None


def _take(one: Any) -> ConsumerRecord[Any, Any]:
    records: Records = one
    record = records._next if _is_ready(records) else None
    if record is None:
        raise IllegalStateError("another task took this step's record: iterate in one task at a time")
    records._next = None
    unsampled = records._unsampled
    if unsampled is not None and (record.headers or not unsampled.covers(record.topic)):
        look: Any = records._look
        look(record)
    return record


awaiting.shorten_await(Records, _is_ready, _take)

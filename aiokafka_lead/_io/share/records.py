"""The iterator behind ``async for`` over a share consumer.

This code runs for each record. If a compiler is available, it is compiled through ``records.pxd``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Self

from ..._core.share.delivered import AtHand, Delivered
from ..._core.share.record import ShareRecord
from ..._cpython import awaiting
from ...errors import IllegalStateError

Record = ShareRecord[Any, Any]


class ShareRecords:
    """Iterates over single records, for ``async for`` over a share consumer.

    If the next record is available, the iterator itself is the awaitable, so no further object has to be created.
    """

    __slots__ = ("_at_hand", "_come_back", "_delivered", "_more")

    def __init__(
        self,
        at_hand: AtHand,
        delivered: Delivered,
        come_back: Callable[[], None],
        more: Callable[[], Coroutine[Any, Any, Record | None]],
    ) -> None:
        """Iterate over the records in ``at_hand``, and over those that ``more`` returns.

        ``come_back`` accepts the records that have been handed out. ``more`` does the same, and then waits for the next
        record. It returns None at the end.
        """
        self._at_hand = at_hand
        self._delivered = delivered
        self._come_back = come_back
        self._more = more

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Record]:
        return self if _is_ready(self) else self._wait_for_next()

    def __await__(self) -> Generator[Any, Any, Record]:
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

    async def _wait_for_next(self) -> Record:
        record = await self._more()
        if record is None:
            raise StopAsyncIteration
        return record


def _is_ready(one: Any) -> bool:
    records: ShareRecords = one
    return records._at_hand.is_quick()


def _take(one: Any) -> Record:
    records: ShareRecords = one
    record = records._at_hand.take_one()
    if record is None:
        raise IllegalStateError("another task took this step's record: iterate in one task at a time")
    if records._delivered.go_on(record):
        records._come_back()
        records._delivered.go_on(record)
    return record


awaiting.shorten_await(ShareRecords, _is_ready, _take)

"""The iterator of an ``async for`` over a share consumer.

Hot: this module is compiled through ``records.pxd`` if a compiler is available.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Self

from ..._core.share.at_hand import AtHand
from ..._core.share.delivered import Delivered
from ..._core.share.record import ShareRecord
from ..._cpython import awaiting
from ...errors import IllegalStateError

Record = ShareRecord[Any, Any]


class ShareRecords:
    """Iterates over single records.

    As in `_io.consumer.records`, the iterator itself is the awaitable for an available record.
    """

    __slots__ = ("_at_hand", "_come_back", "_delivered", "_more")

    def __init__(
        self,
        at_hand: AtHand,
        delivered: Delivered,
        come_back: Callable[[], None],
        more: Callable[[], Coroutine[Any, Any, Record | None]],
    ) -> None:
        """``come_back`` accepts the records handed out. ``more`` does so, too, and waits for the next record; it
        returns None at the end."""
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
        """Return the record. asyncio requires a coroutine to make ``anext(records)`` a task."""
        raise StopIteration(_take(self))

    def throw(self, kind: Any, error: Any = None, trace: Any = None) -> Any:
        """Raise the error, like a coroutine that has not begun."""
        raise kind if error is None else error

    def close(self) -> None:
        """Do nothing, like a coroutine that has not begun."""

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

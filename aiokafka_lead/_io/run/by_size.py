"""Producer of a run's dead letters, records in retry topics, and results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio

from ...types import Header

if TYPE_CHECKING:
    from ..._core.producer.delivery import Delivery

LARGE_BYTES = 64 * 1024
"""Size from which records are compressed: only if they were compressed before may they be larger than a topic takes."""


class BySize:
    """Sends small records by one producer, and large ones by another, which compresses them."""

    def __init__(self, small: Any, begin_large: Callable[[], Awaitable[Any]]) -> None:
        """``begin_large`` is called once, for the first large record."""
        self._client = small._client
        self._small = small
        self._begin_large = begin_large
        self._large: Any = None
        self._beginning = anyio.Lock()
        self.partitions_for = small.partitions_for

    async def sender(self, size: int) -> Any:
        """Return the producer for records of which the largest has this size in bytes."""
        if size < LARGE_BYTES:
            return self._small
        async with self._beginning:
            if self._large is None:
                self._large = await self._begin_large()
        return self._large

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: list[Header] | None = None,
    ) -> Delivery:
        """Send a record; see `Producer.send`."""
        size = len(value or b"") + len(key or b"") + sum(len(content or b"") for _, content in headers or ())
        sender = await self.sender(size)
        delivery: Delivery = await sender.send(topic, value, key, partition, timestamp_ms, headers)
        return delivery

"""What loops over a share consumer run on where they are traced."""

from __future__ import annotations

import time
from typing import Any, Self

from ..._core.consumer.deserializers import Deserializers
from ..._core.share.record import ShareRecord
from ..._core.tracing import BatchLoop, RecordLoop
from ...types import Headers
from .reader import ShareBatches, ShareReader
from .records import ShareRecords

__all__ = ["TracedShareBatches", "TracedShareRecords"]

Record = ShareRecord[Any, Any]


class TracedShareRecords:
    """``async for`` over records: each one's span is current in the loop's body."""

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


class TracedShareBatches(ShareBatches):
    """``async for`` over lists of records: each one's span is current in the loop's body."""

    def __init__(self, reader: ShareReader, by: Deserializers, limit: int, look: BatchLoop) -> None:
        super().__init__(reader, by, limit)
        self._look = look

    async def __anext__(self) -> list[Record]:
        began = time.time_ns()
        self._look(None, began)
        records = await super().__anext__()
        self._look(_Batch(records), began)
        return records


class _Batch:
    """A list of records, as a tracer sees batches."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records
        self.topic = records[0].topic
        self.partition = records[0].partition

    def __len__(self) -> int:
        return len(self._records)

    @property
    def headers(self) -> list[Headers]:
        return [record.headers for record in self._records]

"""A transaction of a pipeline, as a block."""

from __future__ import annotations

from typing import Any, Generic

from ..._options.sent_types import K, V
from ...errors import IllegalStateError
from .calls import Transaction
from .pipeline import ChainedTransaction, Pipeline

__all__ = ["PipelinedTransaction"]


class PipelinedTransaction(Transaction[K, V], Generic[K, V]):
    """One transaction of a `TransactionPipeline`; see there. Its producer is the one whose turn it is."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._number = 0
        self._fate = None
        self._chained: ChainedTransaction | None = None

    async def _begin(self) -> None:
        chained = self._chained = await self._pipeline.begin()
        self._producer: Any = chained.producer
        self._transactions = chained.transactions
        self._number = chained.number

    async def _commit(self) -> None:
        assert self._chained is not None
        await self._pipeline.commit(self._chained)

    async def _leave(self, error: BaseException) -> None:
        assert self._chained is not None
        await self._pipeline.leave(self._chained, error)

    def _check(self) -> None:
        if self._chained is None:
            raise IllegalStateError("no transaction is open: sends belong between its begin and its end")
        self._pipeline.check(self._chained)

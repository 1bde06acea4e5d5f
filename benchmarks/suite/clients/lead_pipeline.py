"""This client, with a `TransactionPipeline`."""

from __future__ import annotations

from typing import Any

from aiokafka_lead import TransactionPipeline

from ..transactions import Send, back_to_back, new_id
from ..workload import LINGER_MS, Workload

IN_FLIGHT = 3


async def transactions(work: Workload) -> dict[str, Any]:
    """Commit transactions in succession. The end of a block counts as a commit."""
    options: dict[str, Any] = {"transactional_id": new_id(), "linger_ms": LINGER_MS}
    async with TransactionPipeline(work.bootstrap, in_flight=IN_FLIGHT, **options) as pipeline:
        txn: Any = None

        async def begin() -> Send:
            nonlocal txn
            txn = pipeline.transaction()
            await txn.__aenter__()
            send: Send = txn.send
            return send

        async def commit() -> None:
            await txn.__aexit__(None, None, None)

        return await back_to_back(work, begin, None, commit, pipeline.settle)

"""Transactions one after the other: how many a second, what a commit takes, and what a record costs."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from ..stats import percentile
from .payload import records
from .usage import Meter
from .workload import Workload

WARM_UP = 0.1
"""The part of the transactions that comes before those that count."""


def new_id() -> str:
    """A transactional id that no other turn has: none of them has to end what another left open."""
    return f"benchmark-{uuid.uuid4().hex}"


async def back_to_back(
    work: Workload,
    begin: Callable[[], Awaitable[object]],
    send: Callable[..., Awaitable[object]],
    commit: Callable[[], Awaitable[object]],
) -> dict[str, Any]:
    """Figures of a producer's transactions of that many records each; ``send`` takes what `Producer.send` takes.

    ``p50`` and ``p99`` are milliseconds of ``commit``, which waits for the records as well.
    """
    topic = work.topic

    async def transaction() -> float:
        await begin()
        for value, key, partition in records(work, work.transaction):
            await send(topic, value, key, partition)
        began = time.perf_counter()
        await commit()
        return (time.perf_counter() - began) * 1000

    count = max(1, work.records // work.transaction)
    for _ in range(max(1, round(count * WARM_UP))):
        await transaction()
    with Meter(count * work.transaction) as meter:
        took = sorted([await transaction() for _ in range(count)])
    return {
        **meter.figures(),
        "transactions_per_second": count / meter.wall_s,
        "p50": percentile(took, 0.5),
        "p99": percentile(took, 0.99),
    }

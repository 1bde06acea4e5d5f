"""Rate of successive transactions, time of a commit, and cost of a record."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel

from ..peers import transactions_command
from ..stats import percentile
from .payload import records
from .usage import Meter
from .workload import LINGER_MS, Workload

Send = Callable[..., Awaitable[object]]

WARM_UP = 0.1
"""Number of transactions in the warm-up, as a share of the counted transactions."""


def new_id() -> str:
    """Return a new transactional id, so a turn need not wait for the open transaction of another turn."""
    return f"benchmark-{uuid.uuid4().hex}"


async def back_to_back(
    work: Workload,
    begin: Callable[[], Awaitable[Send | None]],
    send: Send | None,
    commit: Callable[[], Awaitable[object]],
    settle: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint,
) -> dict[str, Any]:
    """Return the figures of a producer's transactions, with the number of records in the workload.

    ``send`` takes the arguments of `Producer.send`. ``begin`` may return a replacement of ``send`` for one transaction.
    The figures ``p50`` and ``p99`` are milliseconds of ``commit``, which also waits for the records. ``settle`` waits
    for commits that are pending at the end.
    """
    topic = work.topic

    async def transaction() -> float:
        send_now = await begin() or send
        assert send_now is not None
        for value, key, partition in records(work, work.transaction):
            await send_now(topic, value, key, partition)
        began = time.perf_counter()
        await commit()
        return (time.perf_counter() - began) * 1000

    count = max(1, work.records // work.transaction)
    for _ in range(max(1, round(count * WARM_UP))):
        await transaction()
    with Meter(count * work.transaction) as meter:
        took = sorted([await transaction() for _ in range(count)])
        await settle()
    return {
        **meter.figures(),
        "transactions_per_second": count / meter.wall_s,
        "p50": percentile(took, 0.5),
        "p99": percentile(took, 0.99),
    }


async def of_another_language(client: str, work: Workload) -> dict[str, Any]:
    """Return the same figures for a client that runs in a separate process."""
    count = max(1, work.records // work.transaction)
    numbers = [work.partitions, work.transaction, work.size, LINGER_MS, max(1, round(count * WARM_UP)), count]
    command = [*transactions_command(client), work.bootstrap, work.topic, *map(str, numbers)]
    done = await anyio.run_process(command, stderr=None)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures

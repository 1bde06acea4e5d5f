"""A word to the log when a transaction takes long."""

from __future__ import annotations

import time

import anyio

from ..._core.transactions.state import TransactionState
from ..._options.logs import ClientLog

__all__ = ["warn_of_age"]


async def warn_of_age(state: TransactionState, log: ClientLog) -> None:
    """Until cancelled, say so once of each transaction that has used up half of what the coordinator leaves to it."""
    half_s = state.timeout_ms / 2000
    warned = 0
    while True:
        health = state.health(time.monotonic())
        wait_s = half_s  # one that begins from now on is not old before
        if health.age_ms is not None and state.number != warned:
            if health.late:
                warned = state.number
                text = "the transaction of %r (%s) is %.0f ms old: after transaction_timeout_ms, %.0f, it is aborted"
                log.warning(text, state.transactional_id, health.phase, health.age_ms, health.timeout_ms)
            else:
                wait_s = half_s - health.age_ms / 1000
        await anyio.sleep(max(wait_s, 0.001))

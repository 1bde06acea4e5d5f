"""When a batch that was refused is sent again (KIP-580, KIP-951).

The wait belongs to the batch, so it holds back its own partition and nothing else. An advance of the leader epoch ends
it: whatever refused the batch at the older epoch says nothing about the new leader.
"""

from __future__ import annotations

from collections.abc import Callable
from random import random

from ..backoff import FREE_RETRIES, Backoff
from .append import ProducerBatch

__all__ = ["CATCH_UP_MS", "RetryPolicy", "has_free_retry"]

CATCH_UP_MS = 10
"""The first wait for a leader that does not know yet that it is one: brokers need a few milliseconds for that."""


def has_free_retry(batch: ProducerBatch, leader_epoch: int) -> bool:
    """Whether the leader epoch advanced since the batch was last sent: one try at once, whatever its backoff.

    Its first attempt is no retry. Sending it notes the epoch, so that a second failure at that epoch backs off.
    (Java: ``ProducerBatch.hasLeaderChangedForTheOngoingRetry``, which sets no limit to how often.)
    """
    return batch.attempts > 0 and leader_epoch > batch.sent_epoch and batch.free_retries < FREE_RETRIES


class RetryPolicy:
    """How long a refused batch waits."""

    __slots__ = ("_backoff", "_catch_up")

    def __init__(self, retry_backoff_ms: float, retry_backoff_max_ms: float, rng: Callable[[], float] = random) -> None:
        self._backoff = Backoff(retry_backoff_ms, retry_backoff_max_ms, rng)
        self._catch_up = Backoff(min(CATCH_UP_MS, retry_backoff_ms), retry_backoff_max_ms, rng)

    def refused(self, batch: ProducerBatch, now: float) -> None:
        """The batch failed for a reason that may pass."""
        batch.not_before = now + self._backoff.delay_s(batch.attempts)

    def refused_by_leader(self, batch: ProducerBatch, now: float) -> None:
        """The very leader that the known epoch names says it is none: it only has not caught up yet."""
        batch.refusals += 1
        batch.not_before = now + self._catch_up.delay_s(batch.refusals)

    def sent(self, batch: ProducerBatch, leader_epoch: int) -> None:
        """The batch goes out, to the leader of this epoch."""
        if leader_epoch > batch.sent_epoch:
            batch.epoch_advanced = batch.attempts > 0
            batch.sent_epoch = leader_epoch
            batch.refusals = 0
        batch.attempts += 1

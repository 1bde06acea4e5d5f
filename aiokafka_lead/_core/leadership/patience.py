"""How long what failed waits before it is sent again: a batch of records, and the fetches of a partition, alike.

Its refusals are counted as those of anything else that may be wrong (`Trust`, rule 33).

The wait belongs to the one thing that failed, so it holds back its own partition and nothing else (rule 16). There are
two kinds of it. The normal one is ``retry_backoff_ms``, doubling (KIP-580). The one for a leader that has only not
caught up with its own election begins with a few milliseconds (rule 11). An advance of the leader epoch ends either:
whatever refused the try at the older epoch says nothing about the new leader (rules 11 to 13, KIP-951).

Compiled through ``patience.pxd`` where a compiler is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import random

from ..backoff import Backoff
from ..trust import Trust, patience_of

__all__ = ["CATCH_UP_MS", "FREE_RETRIES", "Patience", "RetryPolicy"]

FREE_RETRIES = 10
"""So often in a row a newer leader epoch ends a wait (KIP-951). Brokers that send a client on and on, each time at a
higher epoch, are asked at the rate of the normal backoff from then on."""

CATCH_UP_MS = 10
"""The first wait for a leader that does not know yet that it is one: brokers need a few milliseconds for that."""


class RetryPolicy:
    """The waits of all batches, or of all fetched partitions, of one client."""

    __slots__ = ("catch_up", "normal", "patience_s")

    def __init__(self, retry_backoff_ms: float, retry_backoff_max_ms: float, rng: Callable[[], float] = random) -> None:
        self.normal = Backoff(retry_backoff_ms, retry_backoff_max_ms, rng)
        self.catch_up = Backoff(min(CATCH_UP_MS, retry_backoff_ms), retry_backoff_max_ms, rng)
        """For a leader that has not caught up."""
        self.patience_s = patience_of(retry_backoff_max_ms)
        """Seconds of refusals that lead to doubt."""


class Patience(Trust):
    """Refusals of one batch, or of one partition's fetches, since the last success, and the wait for the next try."""

    __slots__ = ("_catch_ups", "_confirmed", "_sent_at", "epoch", "free_retries", "retry_at")

    def __init__(self) -> None:
        self.refusals = 0
        self.refused_since = 0.0
        self.retry_at = 0.0
        """No try before this time, unless the leader epoch passes ``epoch``."""
        self.epoch = -1
        """The highest leader epoch of a try."""
        self.free_retries = 0
        """How often in a row a newer leader epoch has ended the wait."""
        self._confirmed = False
        """Whether it is certain that the known leader is the right one."""
        self._catch_ups = 0
        """How often the leader of ``epoch`` was waited for, since it had not caught up."""
        self._sent_at = 0.0
        """When the last try went out; 0.0 if its sender has not said so."""

    # --- sending -----------------------------------------------------------------------------------------------------

    def waits_until(self, now: float, leader_epoch: int) -> float:
        """When the next try may go out, or 0 if it may now.

        A leader epoch beyond that of the failure is a free retry, once: a failure at that epoch waits. (Java:
        ``ProducerBatch.hasLeaderChangedForTheOngoingRetry``, which sets no limit to how often.)
        """
        if now >= self.retry_at or (leader_epoch > self.epoch and self.free_retries < FREE_RETRIES):
            return 0.0
        return self.retry_at

    def skipped(self, sent_at: float, leader_epoch: int) -> bool:
        """Whether a try of this leader epoch went out before the wait was over: a free retry, which this counts."""
        if sent_at >= self.retry_at or leader_epoch <= self.epoch:
            return False
        self.free_retries += 1
        return True

    def sent(self, now: float, leader_epoch: int) -> bool:
        """A try of this leader epoch goes out, the only one under way; whether it is a free retry."""
        free = self.skipped(now, leader_epoch)
        self._sent_at = now
        self._note(leader_epoch)
        return free

    def _note(self, leader_epoch: int) -> None:
        if leader_epoch > self.epoch:
            if self.refusals:
                self._confirmed = True
            self.epoch = leader_epoch
            self._catch_ups = 0

    # --- failures ----------------------------------------------------------------------------------------------------

    def failed(self, now: float, leader_epoch: int, policy: RetryPolicy, by_leader: bool, certain: bool) -> bool:
        """A try of this leader epoch failed; whether its wait is the one for a leader that has not caught up.

        ``by_leader``: what failed was asked of the leader of the known epoch, and a leader that does not know of its
        election yet would fail so. That this is the reason is ``certain`` if the broker has said so, or would have
        named another leader; else once the epoch has advanced between two tries.
        """
        self._note(leader_epoch)
        self.refused(self._sent_at or now, now, policy.patience_s)
        catch_up = False
        if by_leader and self.free_retries < FREE_RETRIES:
            self._confirmed = catch_up = certain or self._confirmed
        if catch_up:
            self._catch_ups += 1
            self.retry_at = now + policy.catch_up.delay_s(self._catch_ups)
        else:
            self.retry_at = now + policy.normal.delay_s(self.refusals)
        return catch_up

    def failed_for_another(self, now: float) -> None:
        """A try failed for what came before it, which decides how long to wait."""
        self.refused(now, now, math.inf)
        self.retry_at = now

    def knows_failure(self, now: float, leader_epoch: int) -> bool:
        """Whether a try of this epoch was sent before the failure that is being waited out: its failure is no news."""
        return self.refusals > 0 and now < self.retry_at and leader_epoch <= self.epoch

    def succeeded(self) -> None:
        """The last try succeeded: what failed before counts no more."""
        if self.refusals:
            self.confirmed()
            self.retry_at = 0.0
            self.epoch = -1
            self.free_retries = 0
            self._confirmed = False
            self._catch_ups = 0

    def forget_epoch(self) -> None:
        """The topic was made anew: its leader epochs begin again."""
        self.epoch = -1

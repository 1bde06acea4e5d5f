"""Decides how long a failed batch, or a partition's failed fetch, waits before it is retried; measures leader moves.

`Trust` counts the refusals (rule 33), as everywhere that a broker may be wrong.

The delay belongs to the batch or fetch that failed, so it delays only that partition (rule 16). There are two kinds.
The normal delay is ``retry_backoff_ms``, doubling (KIP-580). The delay for a leader that only has not caught up with
its election begins with a few milliseconds (rule 11). An advance of the leader epoch ends both: a refusal at the older
epoch says nothing about the new leader (rules 11 to 13, KIP-951).

Compiled through ``patience.pxd`` if a compiler is available.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..backoff import Backoff
from ..chance import random
from ..trust import Trust, patience_of

FREE_RETRIES = 10
"""Number of consecutive times that a newer leader epoch ends a wait (KIP-951). Brokers that send a client around, each
time at a higher epoch, are asked at the rate of the normal backoff from then on."""

CATCH_UP_MS = 10
"""First delay for a leader that has not processed its election yet: brokers need a few milliseconds for that."""


class RetryPolicy:
    """The delays of all batches, or of all fetched partitions, of one client."""

    __slots__ = ("catch_up", "normal", "patience_s")

    def __init__(self, retry_backoff_ms: float, retry_backoff_max_ms: float, rng: Callable[[], float] = random) -> None:
        self.normal = Backoff(retry_backoff_ms, retry_backoff_max_ms, rng)
        self.catch_up = Backoff(min(CATCH_UP_MS, retry_backoff_ms), retry_backoff_max_ms, rng)
        """For a leader that has not caught up."""
        self.patience_s = patience_of(retry_backoff_max_ms)
        """Seconds of refusals that lead to doubt."""


class Patience(Trust):
    """Counts refusals of one batch, or of one partition's fetches, since the last success, and delays the next try."""

    __slots__ = ("_catch_ups", "_confirmed", "_sent_at", "epoch", "free_retries", "retry_at")

    def __init__(self) -> None:
        self.refusals = 0
        self.refused_since = 0.0
        self.retry_at = 0.0
        """Earliest time of the next try, unless the leader epoch passes ``epoch``."""
        self.epoch = -1
        """The highest leader epoch of a try."""
        self.free_retries = 0
        """Number of consecutive times that a newer leader epoch has ended the wait."""
        self._confirmed = False
        """True if the known leader is certainly right."""
        self._catch_ups = 0
        """Number of waits for the leader of ``epoch`` to catch up."""
        self._sent_at = 0.0
        """Time of the last try; 0.0 if its sender has not set it."""

    # --- sending -----------------------------------------------------------------------------------------------------

    def waits_until(self, now: float, leader_epoch: int) -> float:
        """Return the time of the next try, or 0 if it may be made now.

        A later leader epoch than at the failure allows one free retry: a failure at that epoch waits. (Java:
        ``ProducerBatch.hasLeaderChangedForTheOngoingRetry``, which does not limit their number.)
        """
        if now >= self.retry_at or (leader_epoch > self.epoch and self.free_retries < FREE_RETRIES):
            return 0.0
        return self.retry_at

    def skipped(self, sent_at: float, leader_epoch: int) -> bool:
        """Return True, and count a free retry, if a try of this leader epoch was sent before the wait had ended."""
        if sent_at >= self.retry_at or leader_epoch <= self.epoch:
            return False
        self.free_retries += 1
        return True

    def sent(self, now: float, leader_epoch: int) -> bool:
        """Record the only try in flight, of this leader epoch; return True if it is a free retry."""
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
        """Record a failed try of this leader epoch; return True if it waits for a leader that has not caught up.

        ``by_leader`` is True if the leader of the known epoch was asked, and a leader that has not processed its
        election yet would fail this way. ``certain`` is True if this must be the reason, because the broker reported it
        or would have named another leader. Otherwise it becomes certain once the epoch has advanced between two tries.
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
        """Record a try that failed because an earlier try failed; the earlier try determines the delay."""
        self.refused(now, now, math.inf)
        self.retry_at = now

    def knows_failure(self, now: float, leader_epoch: int) -> bool:
        """Return True if a try of this epoch was sent before the latest failure, so that its failure is no news."""
        return self.refusals > 0 and now < self.retry_at and leader_epoch <= self.epoch

    def succeeded(self) -> None:
        """Reset after a success: earlier failures no longer count."""
        if self.refusals:
            self.confirmed()
            self.retry_at = 0.0
            self.epoch = -1
            self.free_retries = 0
            self._confirmed = False
            self._catch_ups = 0

    def forget_epoch(self) -> None:
        """Forget the epoch of a recreated topic, whose leader epochs start over."""
        self.epoch = -1


# --- measures of leader moves -----------------------------------------------------------------------------------------


class LeaderMoveCounters:
    """Counters common to producers and consumers."""

    __slots__ = ("leader_move_ms_last", "leader_move_ms_max", "leader_move_ms_total", "leader_moves")

    def __init__(self) -> None:
        self.leader_moves = 0
        self.leader_move_ms_total = 0.0
        self.leader_move_ms_max = 0.0
        self.leader_move_ms_last = 0.0

    def leader_moved(self, took_s: float) -> None:
        """Count a move to another leader, this long after the former one refused."""
        took_ms = took_s * 1000
        self.leader_moves += 1
        self.leader_move_ms_total += took_ms
        self.leader_move_ms_last = took_ms
        self.leader_move_ms_max = max(self.leader_move_ms_max, took_ms)


class MoveClock:
    """Times a partition's change of leader: from the first refusal until another broker serves it."""

    __slots__ = ("_refused_by", "_since")

    def __init__(self) -> None:
        self._since = 0.0
        """Time of the leader's first refusal; 0 if there was none."""
        self._refused_by = -1
        """The broker that refused first."""

    def refused(self, node_id: int, now: float) -> None:
        """Record that the broker does not lead the partition, or cannot be reached."""
        if not self._since:
            self._since = now
            self._refused_by = node_id

    def served(self, node_id: int, at: float, counters: LeaderMoveCounters) -> None:
        """Record that the broker serves the partition, which ends a move if another broker refused before.

        The same broker, elected again, does not count as a move.
        """
        if not self._since:
            return
        if node_id != self._refused_by:
            counters.leader_moved(max(0.0, at - self._since))
        self._since = 0.0

    def stop(self) -> None:
        """Stop the clock: from now on the move's duration depends on the application."""
        self._since = 0.0

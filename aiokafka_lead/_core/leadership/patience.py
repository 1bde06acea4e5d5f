"""Retry delays of failed batches and failed fetches, and measurement of leader moves.

`Trust` counts the refusals (rule 33). The delay belongs to the batch or the fetch that failed, so it delays only one
partition (rule 16).

There are two kinds of delays. The normal delay starts with ``retry_backoff_ms`` and doubles (KIP-580). The delay for a
leader that has not yet caught up since its election starts with a few milliseconds (rule 11). A newer leader epoch ends
both kinds, because a refusal at an older epoch says nothing about the new leader (rules 11 to 13, KIP-951).

If a compiler is available, this code is compiled through ``patience.pxd``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..backoff import Backoff
from ..chance import random
from ..trust import Trust, patience_of

FREE_RETRIES = 10
"""Number of consecutive times that a newer leader epoch ends a wait (KIP-951).

If brokers keep sending a client to each other, each time at a higher epoch, the normal backoff applies after that.
"""

CATCH_UP_MS = 10
"""First delay in milliseconds for a leader that has not caught up.

Brokers need a few milliseconds to process an election.
"""


class RetryPolicy:
    """The retry delays of one client, for all its batches or all its fetched partitions."""

    __slots__ = ("catch_up", "normal", "patience_s")

    def __init__(self, retry_backoff_ms: float, retry_backoff_max_ms: float, rng: Callable[[], float] = random) -> None:
        self.normal = Backoff(retry_backoff_ms, retry_backoff_max_ms, rng)
        self.catch_up = Backoff(min(CATCH_UP_MS, retry_backoff_ms), retry_backoff_max_ms, rng)
        """Delays for a leader that has not caught up since its election."""
        self.patience_s = patience_of(retry_backoff_max_ms)
        """Number of seconds of refusals after which the leader is in doubt."""


class Patience(Trust):
    """Decides when to try again after refusals of one batch, or of one partition's fetches.

    Counts the refusals since the last success.
    """

    __slots__ = ("_catch_ups", "_confirmed", "_sent_at", "epoch", "free_retries", "retry_at")

    def __init__(self) -> None:
        self.refusals = 0
        self.refused_since = 0.0
        self.retry_at = 0.0
        """Earliest time of the next attempt, unless the leader epoch becomes newer than ``epoch``."""
        self.epoch = -1
        """The highest leader epoch of any attempt."""
        self.free_retries = 0
        """Number of consecutive times that a newer leader epoch has ended the wait."""
        self._confirmed = False
        """True if the known leader is certain to be the right one."""
        self._catch_ups = 0
        """Number of times that the leader of ``epoch`` was given time to catch up."""
        self._sent_at = 0.0
        """Time of the last attempt, or 0.0 if the sender has not set it."""

    # --- sending -----------------------------------------------------------------------------------------------------

    def waits_until(self, now: float, leader_epoch: int) -> float:
        """Return the time of the next attempt, or 0 if it may be made now.

        A newer leader epoch than at the failure allows one free retry. After a failure at that epoch, the delay
        applies. (Java: ``ProducerBatch.hasLeaderChangedForTheOngoingRetry``, which does not limit the number of free
        retries.)
        """
        if now >= self.retry_at or (leader_epoch > self.epoch and self.free_retries < FREE_RETRIES):
            return 0.0
        return self.retry_at

    def skipped(self, sent_at: float, leader_epoch: int) -> bool:
        """Return True if a newer leader epoch has allowed an attempt before the delay ended.

        The attempt counts as a free retry.
        """
        if sent_at >= self.retry_at or leader_epoch <= self.epoch:
            return False
        self.free_retries += 1
        return True

    def sent(self, now: float, leader_epoch: int) -> bool:
        """Record an attempt at this leader epoch. It must be the only one in flight.

        Return True if it is a free retry.
        """
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
        """Record a failed attempt at this leader epoch.

        Return True if the delay is for a leader that has not caught up.

        ``by_leader`` is True if the leader of the known epoch was asked and has returned an error that a leader returns
        before it has processed its election. ``certain`` is True if this must be the reason, because the broker said so
        or would otherwise have named another leader. If ``certain`` is False, the reason becomes certain once the epoch
        has advanced between two attempts.
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
        """Record an attempt that failed only because an earlier attempt had failed.

        The earlier attempt determines the delay.
        """
        self.refused(now, now, math.inf)
        self.retry_at = now

    def knows_failure(self, now: float, leader_epoch: int) -> bool:
        """Return True if an attempt at this epoch was sent before the latest failure.

        Its own failure is then no news.
        """
        return self.refusals > 0 and now < self.retry_at and leader_epoch <= self.epoch

    def succeeded(self) -> None:
        """Record a success. Earlier failures no longer count."""
        if self.refusals:
            self.confirmed()
            self.retry_at = 0.0
            self.epoch = -1
            self.free_retries = 0
            self._confirmed = False
            self._catch_ups = 0

    def forget_epoch(self) -> None:
        """Forget the epoch, because the topic has been recreated and its leader epochs start again."""
        self.epoch = -1


# --- measuring leader moves -------------------------------------------------------------------------------------------


class LeaderMoveCounters:
    """Base class with the counters of leader moves, which producers and consumers have in common."""

    __slots__ = ("leader_move_ms_last", "leader_move_ms_max", "leader_move_ms_total", "leader_moves")

    def __init__(self) -> None:
        self.leader_moves = 0
        self.leader_move_ms_total = 0.0
        self.leader_move_ms_max = 0.0
        self.leader_move_ms_last = 0.0

    def leader_moved(self, took_s: float) -> None:
        """Count a move to another leader that completed ``took_s`` seconds after the former leader's first refusal."""
        took_ms = took_s * 1000
        self.leader_moves += 1
        self.leader_move_ms_total += took_ms
        self.leader_move_ms_last = took_ms
        self.leader_move_ms_max = max(self.leader_move_ms_max, took_ms)


class MoveClock:
    """Measures how long a partition's move takes: from the first refusal until another broker serves the partition."""

    __slots__ = ("_refused_by", "_since")

    def __init__(self) -> None:
        self._since = 0.0
        """Time of the leader's first refusal, or 0."""
        self._refused_by = -1
        """The broker that refused first, or -1."""

    def refused(self, node_id: int, now: float) -> None:
        """Start the clock, unless it is running: the broker does not lead the partition or cannot be reached."""
        if not self._since:
            self._since = now
            self._refused_by = node_id

    def served(self, node_id: int, at: float, counters: LeaderMoveCounters) -> None:
        """Record that the broker serves the partition. If another broker refused before, count the move."""
        if not self._since:
            return
        if node_id != self._refused_by:
            counters.leader_moved(max(0.0, at - self._since))
        self._since = 0.0

    def stop(self) -> None:
        """Stop the clock without counting a move, because the duration would depend on the application."""
        self._since = 0.0

"""Assigning and revoking partitions, with waits for records in hand, commits, and calls of the listener."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable

from ..._core.consumer.in_hand import CurrentRun, ParallelWork
from ..._core.consumer.partition_state import Pauser
from ..._core.consumer.reading import Reading
from ..._core.group.member import Assign, Lose, Revoke
from ..._options.logs import ClientLog
from ...errors import RebalanceListenerError
from ...errors.shown import PARTITIONS_NAMED, some_of
from ...types import TopicPartition
from ..cancellation import Waits, face_cancellation, outlives_cancellation, tasks_of_block
from ..loop import Signal
from .leases import AutoCommit

Partitions = frozenset[TopicPartition]

COMMIT_WITHIN_S = 5.0
"""Seconds for a commit during a rebalance, in addition to the time for the records in hand.

If the coordinator is lost, the time limit for the records in hand applies instead.
"""


class Handover:
    """Carries out the member's decisions about partitions, one step at a time.

    While a partition is being revoked, no more of its records are handed out. It stays assigned until the listener has
    been called, so that its position can be read and committed. Records of a new partition are handed out only after
    the listener has been called. All other partitions continue to be read.
    """

    def __init__(
        self,
        reading: Reading,
        auto_commit: AutoCommit | None,
        run: CurrentRun,
        log: ClientLog,
        wake: Signal,
        *,
        listen_within_s: float,
        is_late: Callable[[TopicPartition], bool],
    ) -> None:
        self._reading = reading
        self._positions = reading.positions
        self._prefetch = reading.prefetch
        self._in_hand = reading.in_hand
        self._auto_commit = auto_commit
        self._run = run
        self._log = log
        self.listener: object | None = None
        """The application's listener, as passed to `subscribe`, or None."""
        self.listen_within_s = listen_within_s
        """Time limit in seconds for each callback of the listener."""
        self.on_assigned: Callable[[], None] | None = None
        """Called before the listener is called with an assignment."""
        self._is_late = is_late
        """Returns True if a partition was created while its topic was already being read."""
        self.hurry_until: float | None = None
        """During a stop, the deadline of all waits, which do not include records in hand. Otherwise None."""
        self.tells = False
        """True while a callback is running."""
        self._telling = Waits()
        """The wait for the current callback."""
        self._wake = wake
        """Set when records are done, or when the step may have changed."""

    def hurry(self, until: float) -> None:
        """End all waits by the time ``until`` (``time.monotonic()``), because the consumer is being stopped."""
        self.hurry_until = until
        self._telling.hurry(until)
        if self._auto_commit is not None:
            self._auto_commit.hurry(until)

    async def revoke(self, step: Revoke, still: Callable[[], bool]) -> bool:
        """Give up partitions: stop handing out their records, commit, call the listener, and stop reading.

        ``still`` returns False if another step has become necessary. The revocation then stops and returns False.
        """
        deadline = time.monotonic() + step.timeout_s
        partitions = frozenset(self._positions.with_companions(step.partitions))
        # Withhold further records before the wait. Otherwise, the application might never be done.
        for tp in partitions:
            state = self._positions.get(tp)
            if state is not None:
                self._prefetch.pause(state, Pauser.GROUP)
        work = self._run.work
        if work is not None:
            await self._release(work, partitions, deadline if self.hurry_until is None else self.hurry_until, still)
        elif self.hurry_until is None:
            await self._wait_for_hands(step.partitions, deadline, still)
        if not still():
            return False
        if self._auto_commit is not None and work is None:
            within_s = max(COMMIT_WITHIN_S, deadline - time.monotonic())
            # Commit before the listener is called, as in Java. Otherwise, this would overwrite offsets that the
            # listener commits.
            await self._auto_commit.commit_last(self._left(within_s), step.partitions)
        await self._tell(("on_partitions_revoked",), step.partitions)
        self._in_hand.note_lost(self._drop(partitions))
        if work is not None:
            work.forget(partitions)
        self._log.info("revoked %s", some_of(sorted(step.partitions), PARTITIONS_NAMED))
        return True

    async def _release(
        self, work: ParallelWork, partitions: Partitions, deadline: float, still: Callable[[], bool]
    ) -> None:
        """Let a run give up these partitions by the deadline. Return early if ``still`` returns False.

        This happens, for example, if the coordinator has removed the member. Other members then own its partitions.
        """
        async with tasks_of_block() as tasks:

            async def watch() -> None:
                while still():
                    await self._wake.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(watch, name="kafka revocation")
            await work.release(partitions, deadline)
            tasks.cancel_scope.cancel()

    async def _wait_for_hands(self, partitions: Partitions, deadline: float, still: Callable[[], bool]) -> None:
        while self._in_hand.may_be_working_on(partitions) and still() and self.hurry_until is None:
            if not await self._wake.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                self._log.warning(
                    "the rebalance continues without the records in hand of %s: the application took longer than "
                    "rebalance_timeout_ms; the records will be delivered again",
                    some_of(sorted(partitions), PARTITIONS_NAMED),
                )
                return

    async def commit_done(self, within_s: float = COMMIT_WITHIN_S) -> None:
        """Commit the records that are done, within ``within_s`` seconds, if commits are automatic.

        Does nothing during a run, which commits by itself.
        """
        if self._auto_commit is not None and self._run.work is None:
            await self._auto_commit.commit_last(self._left(within_s))

    async def lose(self, step: Lose) -> None:
        """Drop partitions that may already belong to other members, and then call the listener. Do not commit."""
        self._log.warning("lost %s: %s", some_of(sorted(step.partitions), PARTITIONS_NAMED), step.reason)
        partitions = frozenset(self._positions.with_companions(step.partitions))
        # Unlike in `revoke`, this happens before the listener is called, because other members may already own them.
        held = self._drop(partitions)
        work = self._run.work
        if work is not None:
            await work.release(partitions, time.monotonic())
            work.forget(partitions)
        # Like Java: without on_partitions_lost, the listener's on_partitions_revoked is called.
        await self._tell(("on_partitions_lost", "on_partitions_revoked"), step.partitions)
        # Do this after the call, because the listener may commit offsets of the remaining assignment.
        self._in_hand.note_lost(held)

    async def assign(self, step: Assign) -> None:
        """Start reading new partitions. Their records are handed out once the listener has been called."""
        self._log.info(
            "assigned %s; %d partitions in total",
            some_of(sorted(step.added), PARTITIONS_NAMED) or "nothing",
            len(step.partitions),
        )
        # Records in hand from an earlier assignment of these partitions will be delivered again.
        self._in_hand.forget(step.added)
        added, _ = self._reading.assign(sorted(step.partitions))
        for state in added:
            state.is_late = self._is_late(state.tp)
        if self.listener is not None:
            for state in added:
                self._prefetch.pause(state, Pauser.GROUP)
            if self.on_assigned is not None:
                self.on_assigned()
            await self._tell(("on_partitions_assigned",), step.added)
            for state in added:
                self._prefetch.resume(state, Pauser.GROUP)

    def _drop(self, partitions: Partitions) -> Partitions:
        """Stop reading these partitions. Return those that have records in hand."""
        held = self._in_hand.taken_away(partitions)
        self._in_hand.note_uncommitted(state for state in self._positions if state.tp in partitions)
        self._reading.assign(self._positions.assigned - partitions)
        return held

    def _left(self, within_s: float) -> float:
        if self.hurry_until is None:
            return within_s
        return max(0.0, min(within_s, self.hurry_until - time.monotonic()))

    async def _tell(self, names: tuple[str, ...], partitions: Partitions) -> None:
        """Call the listener's first existing method among ``names``, within a time limit.

        Errors of the listener do not stop the rebalance. The application's next read raises them.
        """
        callback = next((found for name in names if (found := getattr(self.listener, name, None)) is not None), None)
        if callback is None:
            return
        began_at = time.monotonic()
        with self._telling.within(self._left(self.listen_within_s)) as scope:
            self.tells = True
            try:
                result = callback(partitions)
                if inspect.isawaitable(result):
                    await result
                await face_cancellation()
            except Exception as cause:
                self._failed(f"{names[0]} of the listener failed: {cause!r}", cause)
            except asyncio.CancelledError as cause:
                if not await outlives_cancellation():
                    raise
                self._failed(f"{names[0]} of the listener failed: {cause!r}", cause)
            finally:
                self.tells = False
        if scope.cancelled_caught:
            within_s = time.monotonic() - began_at
            self._failed(f"{names[0]} of the listener did not return within {within_s:.3g} s", None)

    def _failed(self, text: str, cause: BaseException | None) -> None:
        error = RebalanceListenerError(text)
        error.__cause__ = cause
        self._prefetch.report("listener", error)

"""Ending transactions at the coordinator, even if the caller is cancelled, and notifying consumers."""

from __future__ import annotations

import time
import weakref
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import anyio

from ..._core.consumer.consumed import Consumed, Source, TransactionPart
from ..._core.transactions.errand import EndPace, Errand
from ..._core.transactions.state import Fate, TransactionState
from ..._core.transactions.verdicts import Verdict
from ..._options.logs import ClientLog
from ...errors import ClientClosedError, CommitFailedError, KafkaError
from ..loop import Signal, Waiter
from .asking import Asking


class Ending:
    """One errand while it is carried out, such as a commit or an abort, and its waiters."""

    def __init__(self, settled: Waiter[None] | None = None) -> None:
        """Begin the errand. A caller that already waits for `settled` passes the object on which it waits."""
        self.settled: Waiter[None] = settled or Waiter()
        """Completed once the transaction's outcome is known or cannot be determined."""
        self.over: Waiter[None] = Waiter()
        """Completed once the producer is ready for its next transaction, or never will be."""
        self.refusal: KafkaError | None = None


class Endings:
    """Ends transactions: carries out one errand at a time.

    If the first request can be sent at once, no task has to be woken.
    """

    def __init__(self, state: TransactionState, asking: Asking, pace: EndPace, settled: Callable[[], None]) -> None:
        """Start without an errand.

        ``settled`` is called once a transaction's outcome is known or cannot be determined.
        """
        self._state = state
        self._asking = asking
        self._pace = pace
        self._settled = settled
        self.current: Ending | None = None
        """The errand in progress, or None."""
        self._wanted = Signal()
        """Set when the task has something to do."""
        self._work: Callable[[], Awaitable[None]] | None = None
        """The part of the current errand that the task has to carry out."""
        self._stopped = False
        """True once the task has ended."""

    async def run(self) -> None:
        """Carry out the errands that need a task, one by one, until cancelled."""
        try:
            while True:
                await self._wanted.wait()
                work, self._work = self._work, None
                ending = self.current
                if work is not None and ending is not None:
                    await work()
                    self._over(ending)
        finally:
            self._stopped = True
            if self.current is not None:
                closed = ClientClosedError("the producer was stopped before the coordinator responded")
                self.current.refusal = self.current.refusal or closed
                self._over(self.current)

    def begin(self, make: Callable[[], Awaitable[Errand | None]]) -> Ending:
        """Call ``make``, and carry out the errand that it returns. None means that no request is needed."""
        ending = self._new()

        async def work() -> None:
            errand = await make()
            if errand is not None:
                await self._ask_on(ending, errand, None)

        self._in_task(work)
        return ending

    def carry_out(self, errand: Errand | None, settled: Waiter[None] | None = None) -> Ending:
        """Begin the errand, and return the object on which to wait for it.

        The first request is sent now if possible. If the errand is None, no request is needed. ``settled`` is passed if
        a caller already waits for it.
        """
        ending = self._new(settled)
        if errand is None:
            self._over(ending)
        elif not self._asking.at_once(errand, partial(self._answered, ending, errand)):
            self._in_task(partial(self._ask_on, ending, errand, None))
        return ending

    def _new(self, settled: Waiter[None] | None = None) -> Ending:
        assert self.current is None
        if self._stopped:
            raise ClientClosedError
        self.current = ending = Ending(settled)
        return ending

    def _in_task(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._wanted.set()

    def _answered(self, ending: Ending, errand: Errand, verdict: Verdict | None) -> None:
        """Process the first response. The task sends any further requests."""
        if verdict is None:
            self._advanced(ending, errand)
        if errand.call is None:
            self._over(ending)
        else:
            self._in_task(partial(self._ask_on, ending, errand, verdict))

    async def _ask_on(self, ending: Ending, errand: Errand, verdict: Verdict | None) -> None:
        await self._asking.run(errand, partial(self._advanced, ending), verdict)

    def _advanced(self, ending: Ending, errand: Errand) -> None:
        self._state.advanced(errand)
        ending.refusal = errand.refusal
        if errand.outcome is not None:
            self._pace.ended(time.monotonic())
            self._settle(ending)

    def _over(self, ending: Ending) -> None:
        self.current = None
        self._settle(ending)
        ending.over.set_result(None)

    def _settle(self, ending: Ending) -> None:
        self._settled()
        ending.settled.set_result(None)


async def warn_of_age(state: TransactionState, log: ClientLog) -> None:
    """Log a warning when a transaction has been open for half of its timeout. Runs until cancelled."""
    half_s = state.timeout_ms / 2000
    warned = 0
    while True:
        health = state.health(time.monotonic())
        wait_s = half_s  # transactions that begin later reach this age later
        if health.age_ms is not None and state.number != warned:
            if health.late:
                warned = state.number
                text = (
                    "the transaction of %r (%s) is %.0f ms old: it will be aborted after transaction_timeout_ms (%.0f)"
                )
                log.warning(text, state.transactional_id, health.phase, health.age_ms, health.timeout_ms)
            else:
                wait_s = half_s - health.age_ms / 1000
        await anyio.sleep(max(wait_s, 0.001))


class ConsumedParts:
    """Moves consumers back if a transaction is aborted, even one that does not contain their offsets yet.

    A consumer whose offsets have been part of a transaction goes back after every transaction that is not committed.
    The first offsets of a consumer that has read before the last abort are refused.
    """

    def __init__(self) -> None:
        self._parts: dict[Fate, list[TransactionPart]] = {}
        """The parts of each transaction."""
        self._sources: weakref.WeakSet[Source] = weakref.WeakSet()
        self._aborted_at = float("-inf")
        """Time at which a transaction last ended without a commit (``time.monotonic()``)."""

    def take(self, consumed: Consumed, fate: Fate) -> TransactionPart:
        """Return a consumer's part of the transaction. Raises `CommitFailedError`, which fails the transaction."""
        part = consumed._transaction_part()
        self._parts.setdefault(fate, []).append(part)
        if part.source not in self._sources:
            self._sources.add(part.source)
            if part.source.read_before(self._aborted_at):
                raise CommitFailedError(
                    "an aborted transaction may have had records of this consumer: they will be delivered again"
                )
        return part

    def committed(self, fate: Fate) -> None:
        """Tell consumers that the transaction, and so their part of it, has been committed."""
        for part in self._parts.pop(fate, ()):
            part.ended(committed=True)

    def aborted(self, fates: Iterable[Fate]) -> None:
        """Tell consumers that these concurrent transactions have been aborted, or that their outcome is unknown."""
        parts = [part for fate in fates for part in self._parts.pop(fate, ())]
        for part in parts:
            part.ended(committed=False)
        self._go_back(self._sources - {part.source for part in parts})

    def not_begun(self) -> None:
        """Move consumers back as after an abort, because a transaction could not begin."""
        self._go_back(self._sources)

    def _go_back(self, sources: Iterable[Source]) -> None:
        self._aborted_at = time.monotonic()
        for source in sources:
            source.go_back()

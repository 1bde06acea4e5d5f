"""A producer's transactions, from begin to end, as the tasks and callers of an event loop see them.

What the coordinator is asked runs in tasks of the client, so that a caller who is cancelled, or whose time is over,
leaves nothing half done: the next transaction waits for the end of the one before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import anyio

from ..._core.consumer.consumed import Consumed
from ..._core.transactions.errand import Errand, Outcome
from ..._core.transactions.phase import Phase
from ..._core.transactions.state import OpenTransaction, TransactionHealth, TransactionState
from ..._core.transactions.versions import TransactionVersion
from ..._options.logs import client_log
from ...config import ProducerConfig
from ...errors import (
    ClientClosedError,
    CommitOutcomeUnknownError,
    IllegalStateError,
    KafkaError,
    RequestTimedOutError,
    TransactionAbortedError,
)
from ...errors.base import own_copy
from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ..cancellation import outlast_cancellation
from ..client import Client
from ..deadline import Deadline
from ..group.coordinators import Coordinators
from ..loop import Signal, Waiter
from ..producer.intake import Admission, Intake
from ..producer.sender import Sender
from .additions import Additions
from .age import warn_of_age
from .consumed_parts import ConsumedParts
from .coordinator import Asking
from .gate import TransactionGate

__all__ = ["Transactions"]

ABORT_WITHIN_S = 5.0
"""How long a cancelled caller waits for its transaction to be aborted; that goes on then without it."""

ENDED_FOR_SURE_S = 0.5
"""After this long nothing is at work any more on a transaction that has ended: by then followers have asked again for
what a coordinator with nothing else to do has not sent them (``replica.fetch.wait.max.ms``)."""

AWAIT_SENT_S = 2.0
"""How long an abort waits for the answers to what was sent, where another epoch makes up for those that do not come."""


class _Ending:
    """An errand under way."""

    def __init__(self) -> None:
        self.settled: Waiter[None] = Waiter()
        """Done when the transaction's fate is known, or will not be had by asking on."""
        self.over: Waiter[None] = Waiter()
        """Done when the producer is ready for its next transaction, or never will be."""
        self.refusal: KafkaError | None = None


class Transactions:
    """Owns the state of a transactional producer."""

    def __init__(
        self, config: ProducerConfig, client: Client, sender: Sender, check_usable: Callable[[], None]
    ) -> None:
        """``check_usable`` raises unless the producer can be used here and now."""
        sequencing = sender.accumulator.transactional
        assert config.transactional_id is not None
        assert sequencing is not None
        self.state = TransactionState(config.transactional_id, config.transaction_timeout_ms)
        self._client = client
        self._check_usable = check_usable
        self._sequencing = sequencing
        self._sender = sender
        self._gate: TransactionGate | None = None
        """Given when the producer starts."""
        self._max_block_s = config.max_block_ms / 1000
        coordinators = Coordinators(client)
        self._asking = Asking(client, coordinators, config.transactional_id)
        self._additions = Additions(self.state, sender.accumulator, client, self._asking, self._failed)
        self._version = TransactionVersion()
        self._parts = ConsumedParts(self.state.fate)
        self._ending: _Ending | None = None
        """What the coordinator is being asked, if anything."""
        self._unlearnt: _Ending | None = None
        """A commit of which the application does not know what became of it."""
        self._beginning = False
        self._ended_at = -math.inf
        """When the coordinator said that it had committed or aborted a transaction; that goes on for a while."""
        self._failure = Signal()
        self._log = client_log("producer", config.client_id)
        sequencing.on_failure = self._failed

    # --- its life -----------------------------------------------------------------------------------------------------

    async def start(self, gate: TransactionGate) -> None:
        """Get a producer id, which fences who had the transactional id before, and aborts what that left open.

        Not where an open transaction was resumed.
        """
        self._gate = gate
        self._client.spawn(self._discard_failed, name="kafka failed transactions")
        self._client.spawn(self._additions.run, name="kafka transaction partitions")
        self._client.spawn(warn_of_age, self.state, self._log, name="kafka transaction age")
        if self.state.phase is not Phase.OPEN:
            await self._get_ready(Deadline(self._max_block_s * 1000))

    def resume(self, opened: OpenTransaction) -> None:
        """Before `start`: begin with the open transaction of another process."""
        self.state.resume(opened, time.monotonic())

    async def stop(self, timeout_s: float | None) -> None:
        """Abort the open transaction; gives up after this time."""
        timeout_s = ABORT_WITHIN_S if timeout_s is None else timeout_s
        if self.state.phase in (Phase.OPEN, Phase.FAILED):
            self._log.warning("the producer is stopped in a transaction, which is aborted")
            self._begin_abort()
        if self._ending is not None:
            await _until(self._ending.over, timeout_s)

    def check(self) -> None:
        """Raise unless the producer can be used here and now."""
        self._client.check()

    def is_open(self, number: int) -> bool:
        """Whether this transaction is neither ended nor being ended."""
        return self.state.number == number and self.state.phase in (Phase.OPEN, Phase.FAILED)

    def admission(self, number: int) -> Admission:
        """For the sends of one transaction."""
        return Admission(partial(self._check_sends, number), partial(self._on_send_failure, number))

    def _check_sends(self, number: int) -> None:
        self._check_usable()
        self.state.check_open(number)

    def intake_of_block(self) -> Intake | None:
        """An intake for the open transaction alone, if its records can be appended as they come."""
        return None if self._gate is None else self._gate.intake_of_block()

    def close_gate(self) -> None:
        """Take no more records."""
        if self._gate is not None:
            self._gate.close()

    def health(self) -> TransactionHealth:
        """How it is doing."""
        return self.state.health(time.monotonic())

    # --- the application's calls --------------------------------------------------------------------------------------

    async def begin(self) -> int:
        """Begin a transaction, and return its number; see `Producer.begin_transaction`."""
        self.state.check_begin()
        if self._beginning:
            raise IllegalStateError("another task is beginning a transaction")
        self._beginning = True
        try:
            if self._unlearnt is not None:
                await self._learn(self._unlearnt)
            await self._get_ready(Deadline(self._max_block_s * 1000))
            v2 = self._version.v2(self._client.brokers.offers())
            if v2 and not self.state.v2 and self.state.number:
                # Partitions of a transaction before could count as part of this one.
                self._run(self.state.renewal())
                await self._get_ready(Deadline(self._max_block_s * 1000))
            state = self.state
            state.begin(v2, time.monotonic())
            held = v2 and state.began_at < self._ended_at + ENDED_FOR_SURE_S
            self._sequencing.begin(state.number, state.producer_id, state.epoch, v2, held)
            assert self._gate is not None
            self._gate.open(self.admission(state.number))
            return state.number
        finally:
            self._beginning = False

    async def commit(self) -> None:
        """Commit the open transaction; see `Producer.commit_transaction`."""
        state = self.state
        state.check_fenced()
        if self._unlearnt is not None:
            await self._learn(self._unlearnt)
            return
        if state.phase is Phase.FAILED:
            await self._abort_failed()
        if state.phase is not Phase.OPEN:
            raise IllegalStateError("no transaction is open")
        await self._send_all()
        self._unlearnt = self._in_background(self._end)
        await self._learn(self._unlearnt)

    async def hand_over(self) -> OpenTransaction:
        """Send all that the open transaction took, and leave its end to another process; raises as a commit does."""
        self.state.check_open(self.state.number)
        await self._send_all()
        self._note_written()
        return self.state.hand_over()

    async def _send_all(self) -> None:
        """Until all that the open transaction took is stored; it takes nothing more. If that fails, it is aborted."""
        self.close_gate()
        self.state.commit()
        try:
            await self._sender.flush(self._max_block_s)
            await self._additions.idle(self._max_block_s)
        except TimeoutError:
            self._failed(RequestTimedOutError("records were not acknowledged within max_block_ms"))
        except BaseException:
            self._failed(TransactionAbortedError("the commit was cancelled before it was sent"))
            await self.leave()
            raise
        if self.state.phase is Phase.FAILED:
            await self._abort_failed()
        self._sequencing.end()

    async def abort(self) -> None:
        """Abort the open transaction; see `Producer.abort_transaction`."""
        state = self.state
        state.check_fenced()
        if state.phase in (Phase.OPEN, Phase.FAILED):
            self._begin_abort()
        elif state.phase is Phase.COMMITTING:
            raise IllegalStateError("the transaction is being committed: commit_transaction() tells what became of it")
        elif state.fate.outcome is not Outcome.ABORTED and state.phase is not Phase.ABORTING:
            raise IllegalStateError("no transaction is open")
        ending = self._ending
        if ending is None:
            return
        if not await _until(ending.settled, self._max_block_s):
            raise RequestTimedOutError("the coordinator has not aborted the transaction within max_block_ms")
        if ending.refusal is not None:
            raise own_copy(ending.refusal)

    async def leave(self) -> None:
        """Abort the open transaction since something was raised, which goes on in a few seconds at most."""
        if self.state.phase not in (Phase.OPEN, Phase.FAILED):
            return
        try:
            ending = self._begin_abort()
        except ClientClosedError:
            return  # the coordinator aborts it when its time is over
        if not await outlast_cancellation(ending.settled, ABORT_WITHIN_S):
            self._log.warning("the transaction is not aborted yet; that goes on")

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Make offsets part of the open transaction; see `Producer.send_offsets_to_transaction`."""
        self.state.check_open(self.state.number)
        with anyio.move_on_after(self._max_block_s):
            await self._additions.offsets(offsets, group)
            return
        raise RequestTimedOutError(
            f"the offsets of group {group.group_id!r} did not become part of the transaction within max_block_ms"
        )

    async def send_part(self, consumed: Consumed) -> None:
        """Make what a consumer has handed out part of the open transaction; it hears how that ends."""
        self.state.check_open(self.state.number)
        try:
            part = self._parts.take(consumed)
        except KafkaError as error:
            self._failed(error)
            raise
        if part.offsets:
            await self.send_offsets(part.offsets, part.group)

    def _on_send_failure(self, number: int, error: KafkaError) -> None:
        """A send raises this: its record is missing from the transaction."""
        if number == self.state.number:
            self._failed(error)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _failed(self, error: KafkaError) -> None:
        """Something of the transaction has failed. Called in the midst of other work, so that the rest comes later."""
        if self.state.fail(error):
            self.close_gate()
            self._sequencing.end()
            self._failure.set()

    async def _discard_failed(self) -> None:
        """Give up what is left of transactions that have failed, until cancelled."""
        while True:
            await self._failure.wait()
            if self.state.phase is Phase.FAILED:
                self._discard()

    def _discard(self) -> None:
        self._sender.abort(lambda fate: self.state.aborted(f"the transaction was aborted; the records were {fate}"))

    def _begin_abort(self) -> _Ending:
        self.close_gate()
        self._sequencing.end()
        self.state.abort()
        self._discard()
        return self._in_background(self._abort)

    async def _abort(self, ending: _Ending) -> None:
        await self._additions.idle()
        # Without KIP-890 what is still on its way would be part of no transaction, and never end.
        wait_s = AWAIT_SENT_S if self.state.v2 else self._client.config.request_timeout_ms / 1000
        answered = await self._sender.answered(wait_s)
        if not answered or self._sequencing.gap:
            self.state.renew = not self.state.v2
        await self._end(ending)

    async def _end(self, ending: _Ending) -> None:
        """Ask the coordinator to commit or abort."""
        errand = self._errand()
        if errand is not None:
            await self._asking.run(errand, partial(self._advanced, ending))

    def _errand(self) -> Errand | None:
        self._note_written()
        return self.state.end()

    def _note_written(self) -> None:
        self.state.touched = self.state.touched or (self.state.v2 and self._sequencing.written)

    def _run(self, errand: Errand) -> None:
        """Ask for a producer id or an epoch."""
        self._in_background(lambda ending: self._asking.run(errand, partial(self._advanced, ending)))

    def _in_background(self, work: Callable[[_Ending], Awaitable[None]]) -> _Ending:
        """Let a task of the client ask the coordinator, whatever becomes of the caller."""
        self._ending = ending = _Ending()
        self._client.spawn(self._carry_out, ending, work, name="kafka transaction")
        return ending

    async def _carry_out(self, ending: _Ending, work: Callable[[_Ending], Awaitable[None]]) -> None:
        try:
            await work(ending)
        except BaseException:
            ending.refusal = ending.refusal or ClientClosedError("the producer was stopped before the answer came")
            raise
        finally:
            self._ending = None
            self._settle(ending)
            ending.over.set_result(None)

    def _advanced(self, ending: _Ending, errand: Errand) -> None:
        self.state.advanced(errand)
        ending.refusal = errand.refusal
        if errand.outcome is not None:
            self._ended_at = time.monotonic()
            self._settle(ending)

    def _settle(self, ending: _Ending) -> None:
        """Say what became of the transaction."""
        if self.state.phase is not Phase.FAILED:  # an abort that was refused is to be tried again
            self._parts.ended(self.state.fate)
        ending.settled.set_result(None)

    async def _get_ready(self, deadline: Deadline) -> None:
        """Until the next transaction may begin."""
        while self.state.phase is not Phase.READY:
            self.state.check_fenced()
            if self._ending is None:
                self.state.check_begin()
                self._run(self.state.start())
            ending = self._ending
            assert ending is not None
            if not await _until(ending.over, deadline.left_s()):
                raise RequestTimedOutError(
                    f"transactional id {self.state.transactional_id!r}: the coordinator has not answered within "
                    f"max_block_ms ({self._max_block_s * 1000:g}); the producer is {self.state.phase.value}"
                )
            if ending.refusal is not None:
                raise own_copy(ending.refusal)

    async def _learn(self, ending: _Ending) -> None:
        """Until the outcome of a commit is known; raises unless it is committed. Not given up when cancelled."""
        known = await outlast_cancellation(ending.settled, self._max_block_s)
        state = self.state
        if not known or (state.fate.outcome is None and isinstance(ending.refusal, ClientClosedError)):
            raise CommitOutcomeUnknownError
        self._unlearnt = None
        if state.fate.outcome is Outcome.COMMITTED:
            return
        state.check_fenced()
        if ending.refusal is not None:
            raise own_copy(ending.refusal)
        if state.fate.outcome is Outcome.UNKNOWN:
            raise CommitOutcomeUnknownError("the answer to the commit was lost, and the coordinator has forgotten it")
        raise state.aborted("the transaction was aborted")

    async def _abort_failed(self) -> None:
        """Abort a transaction that was to be committed, and say so."""
        failure = self.state.aborted("the transaction has failed and was aborted")
        await self.abort()
        raise failure


async def _until(waiter: Waiter[None], timeout_s: float) -> bool:
    """Whether it was done in time."""
    try:
        await waiter.wait(timeout_s)
    except TimeoutError:
        return False
    return True

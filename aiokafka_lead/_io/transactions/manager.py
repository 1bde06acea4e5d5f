"""A producer's transactions, from beginning to end.

Requests to the coordinator run in tasks of the client, so that they continue if the caller is cancelled or times out.
The next transaction waits for the end of the previous one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

import anyio

from ... import errors
from ..._core.consumer.consumed import Consumed
from ..._core.transactions.errand import Errand, Outcome, TransactionVersion
from ..._core.transactions.state import OpenTransaction, Phase, TransactionState
from ..._options.logs import client_log
from ...config import ProducerConfig
from ...errors.base import own_copy
from ...health import TransactionHealth
from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ..cancellation import outlast_cancellation
from ..client import Client
from ..deadline import Deadline
from ..group.coordinators import Coordinators
from ..loop import Signal, Waiter
from ..producer.background import Then
from ..producer.intake import Admission, Intake
from ..producer.sender import Sender
from .additions import Additions
from .asking import Asking
from .endings import ConsumedParts, Ending, Endings, warn_of_age
from .gate import TransactionGate

ABORT_WITHIN_S = 5.0
"""Seconds for which a cancelled caller waits for the abort of its transaction. The abort may continue after that."""

_ENDABLE = (Phase.OPEN, Phase.FAILED, Phase.STORED)
"""Phases in which a transaction can be aborted."""

AWAIT_SENT_S = 2.0
"""Seconds for which an abort waits for pending responses if a new epoch makes late requests harmless."""


class Transactional(Protocol):
    """The part of a producer with a ``transactional_id`` that this module uses."""

    _client: Client
    _transactions: Transactions | None


class Transactions:
    """Begins and ends the transactions of a producer. Owns their state."""

    def __init__(
        self, config: ProducerConfig, client: Client, sender: Sender, check_usable: Callable[[], None]
    ) -> None:
        """Start in the phase NEW.

        ``check_usable`` raises an error if the producer cannot be used now from this task.
        """
        sequencing = sender.accumulator.transactional
        assert config.transactional_id is not None
        assert sequencing is not None
        self.state = TransactionState(config.transactional_id, config.transaction_timeout_ms)
        self._client = client
        self._check_usable = check_usable
        self._sequencing = sequencing
        self._sender = sender
        self._gate: TransactionGate | None = None
        """Set by `start`."""
        self._max_block_s = config.max_block_ms / 1000
        coordinators = Coordinators(client)
        self._asking = Asking(client, coordinators, config.transactional_id)
        self._additions = Additions(self.state, sender, client, self._asking, self._failed)
        self._version = TransactionVersion()
        self.parts = ConsumedParts()
        """The consumers' parts. The producers of a pipeline share this object."""
        self.on_settled = self._tell_parts
        """Called once the transaction's outcome is known or cannot be determined. It may be called repeatedly."""
        self._told = self.state.fate
        """The outcome of the last transaction whose end has been reported."""
        self._endings = Endings(self.state, self._asking, self._additions.pace, self._settled)
        self._unlearnt: Ending | None = None
        """The end of a commit that raised `CommitOutcomeUnknownError`, or None."""
        self._beginning = False
        self._failure = Signal()
        self._log = client_log("producer", config.client_id)
        sequencing.on_failure = self._failed

    # --- start and stop -----------------------------------------------------------------------------------------------

    async def start(
        self, intake: Intake, another: Callable[[Admission], Intake], deadline: Deadline, *, wait: bool = True
    ) -> None:
        """Request a producer id, which fences earlier users of the transactional id and aborts their transactions.

        If ``wait`` is False, the first transaction requests the id. If an open transaction has been resumed, no id is
        requested. ``intake`` and ``another`` are for `TransactionGate`. Raises the errors of
        `Producer.begin_transaction`, and `TransactionTimedOutError` at the ``deadline``.
        """
        self._gate = TransactionGate(intake, another)
        self._client.spawn(self._endings.run, name="kafka transaction")
        self._client.spawn(self._discard_failed, name="kafka failed transactions")
        self._client.spawn(self._additions.run, name="kafka transaction partitions")
        self._client.spawn(warn_of_age, self.state, self._log, name="kafka transaction age")
        if wait and self.state.phase is not Phase.OPEN:
            await self._get_ready(deadline)

    def resume(self, opened: OpenTransaction) -> None:
        """Continue with the open transaction of another process. Call this before `start`."""
        self.state.resume(opened, time.monotonic())

    async def stop(self, timeout_s: float | None) -> None:
        """Abort the open transaction, within ``timeout_s`` seconds (default: `ABORT_WITHIN_S`)."""
        timeout_s = ABORT_WITHIN_S if timeout_s is None else timeout_s
        if self.state.phase in _ENDABLE:
            self._log.warning("the producer was stopped during a transaction, which is aborted")
            self._begin_abort()
        if self._endings.current is not None and self.state.phase in (Phase.COMMITTING, Phase.ABORTING):
            await self._endings.current.over.done_within(timeout_s)

    def check(self) -> None:
        """Raise an error if the producer cannot be used now from this task, for example because it is stopped."""
        self._client.check()

    def is_open(self, number: int) -> bool:
        """Return True if this transaction has neither ended nor begun to end."""
        return self.state.number == number and self.state.phase in (Phase.OPEN, Phase.FAILED)

    def admission(self, number: int) -> Admission:
        """Return the permission to send in this transaction, which ends with it."""
        check, on_failure = partial(self._check_sends, number), partial(self._on_send_failure, number)
        return Admission(check, on_failure, lenient=self._sequencing.lenient)

    def _check_sends(self, number: int) -> None:
        self._check_usable()
        self.state.check_open(number)

    def intake_of_block(self) -> Intake:
        """Return an intake for the open transaction only."""
        assert self._gate is not None
        return self._gate.intake_of_block()

    def watch(self) -> Callable[[], int]:
        """Return a function that counts uses of the producer outside the block of the open transaction."""
        gate = self._gate
        assert gate is not None
        gate.watch()
        return lambda: gate.outside

    def close_gate(self) -> None:
        """Stop accepting records for the open transaction."""
        if self._gate is not None:
            self._gate.close()

    def health(self) -> TransactionHealth:
        """Return the current state, for `Producer.transaction_health`."""
        return self.state.health(time.monotonic())

    # --- the application's calls --------------------------------------------------------------------------------------

    async def begin(self, timeout_s: float | None = None) -> int:
        """Begin a transaction and return its number. See `Producer.begin_transaction`."""
        deadline = Deadline(self._within_s(timeout_s) * 1000)
        self.state.check_begin()
        if self._beginning:
            raise errors.IllegalStateError("another task is beginning a transaction")
        self._beginning = True
        try:
            if self._unlearnt is not None:
                await self._learn(self._unlearnt, deadline)
            await self._get_ready(deadline)
            v2 = self._version.v2(self._client.brokers.offers())
            if v2 and not self.state.v2 and self.state.number:
                # The version has changed, so get a new epoch. Otherwise, partitions of an earlier transaction could
                # count as part of this one.
                self._endings.carry_out(self.state.renewal())
                await self._get_ready(deadline)
            state = self.state
            state.begin(v2, time.monotonic())
            held = v2 and self._additions.pace.goes_on(state.began_at)
            self._sequencing.begin(state.number, state.producer_id, state.epoch, v2, held)
            assert self._gate is not None
            self._gate.open(self.admission(state.number))
            return state.number
        except BaseException:
            self.parts.not_begun()
            raise
        finally:
            self._beginning = False

    async def commit(self, timeout_s: float | None = None) -> None:
        """Commit the open transaction. See `Producer.commit_transaction`."""
        deadline = Deadline(self._within_s(timeout_s) * 1000)
        self.state.check_fenced()
        if self._unlearnt is not None:
            await self._learn(self._unlearnt, deadline)
            return
        ending = await self._send_all(deadline, self._end_at_once) or self._ask_to_commit()
        await self._learn(ending, deadline)

    async def store(self) -> None:
        """Send all records of the open transaction, so that `commit_stored` can commit it.

        Raises the errors of a commit.
        """
        self.state.check_fenced()
        await self._send_all(Deadline(self._max_block_s * 1000))
        self._note_written()
        self.state.store()

    def commit_stored(self) -> None:
        """Request the commit of the stored transaction. ``on_settled`` is called once the outcome is known."""
        self.state.commit()
        self._endings.carry_out(self.state.end())

    def doom(self, error: errors.KafkaError) -> None:
        """Mark the transaction as failed because of this error, so that it can only be aborted.

        If its records are stored, the transaction is aborted at once. Otherwise, it is aborted at the end of its block.
        """
        stored = self.state.phase is Phase.STORED
        self._failed(error)
        if stored:
            self.give_up()

    def give_up(self) -> None:
        """Begin to abort the transaction, regardless of its phase.

        ``on_settled`` is called once it has been aborted.
        """
        if self.state.phase not in _ENDABLE:
            return
        try:
            self._begin_abort()
        except errors.ClientClosedError:
            pass  # the coordinator aborts it after its timeout

    async def hand_over(self) -> OpenTransaction:
        """Store the open transaction, and return the value that lets another process end it.

        Waits until all records of the transaction are stored. Raises the errors of a commit.
        """
        self.state.check_open(self.state.number)
        await self._send_all(Deadline(self._max_block_s * 1000))
        self._note_written()
        return self.state.hand_over()

    async def _send_all(self, deadline: Deadline, then: Then | None = None) -> Ending | None:
        """Stop accepting records, and wait until all records of the open transaction are stored.

        ``then`` is called at the last response, and may begin to end the transaction. The result is this `Ending`, or
        None if there is none. If a record cannot be stored in time, aborts the transaction and raises the error.
        """
        phase = self.state.phase
        if phase is Phase.FAILED:
            await self._abort_failed(deadline)
        if phase is Phase.COMMITTING:
            raise errors.IllegalStateError("another task is committing the transaction")
        if phase is not Phase.OPEN:
            raise errors.IllegalStateError("no transaction is open")
        self.close_gate()
        self.state.commit()
        try:
            await self._sender.flushing.wait(deadline.left_s(), then)
            await self._additions.idle(deadline.left_s())
        except TimeoutError:
            if self._unlearnt is None:
                self._failed(
                    errors.RequestTimedOutError(f"records were not acknowledged within {_time(deadline.timeout_ms)}")
                )
        except BaseException:
            if self._unlearnt is not None:
                await outlast_cancellation(self._unlearnt.settled, deadline.left_s())
                raise
            self._failed(errors.TransactionAbortedError("the commit was cancelled before it was sent"))
            await self.leave()
            raise
        if self._unlearnt is None:
            if self.state.phase is Phase.FAILED:
                await self._abort_failed(deadline)
            self._sequencing.end()
        return self._unlearnt

    def _end_at_once(self, settled: Waiter[None]) -> bool:
        """Request the commit in the connection's callback, right after the last response.

        Returns False if that is not possible now. The task that called `commit` then does it. Waking that task first
        would take longer.
        """
        if self.state.phase is not Phase.COMMITTING or self._additions.busy:
            return False
        try:
            self._ask_to_commit(settled)
        except errors.ClientClosedError:
            return False
        self._sequencing.end()
        return True

    def _ask_to_commit(self, settled: Waiter[None] | None = None) -> Ending:
        self._unlearnt = ending = self._endings.carry_out(self._errand(), settled)
        return ending

    async def abort(self, timeout_s: float | None = None) -> None:
        """Abort the open transaction. See `Producer.abort_transaction`."""
        state = self.state
        state.check_fenced()
        if state.phase in _ENDABLE:
            self._begin_abort()
        elif state.phase is Phase.COMMITTING:
            raise errors.IllegalStateError(
                "the transaction is being committed: call commit_transaction() for its outcome"
            )
        elif state.fate.outcome is not Outcome.ABORTED and state.phase is not Phase.ABORTING:
            raise errors.IllegalStateError("no transaction is open")
        ending = self._endings.current
        if ending is None:
            return
        within_s = self._within_s(timeout_s)
        if not await ending.settled.done_within(within_s):
            raise errors.TransactionTimedOutError(
                f"the coordinator has not aborted the transaction within {_time(within_s * 1000)}"
            )
        if ending.refusal is not None:
            raise own_copy(ending.refusal)

    async def leave(self) -> None:
        """Abort the open transaction, because its block has failed.

        Returns within a few seconds, even if the coordinator does not respond, so that the caller gets the error soon.
        """
        if self.state.phase not in (Phase.OPEN, Phase.FAILED):
            return
        try:
            ending = self._begin_abort()
        except errors.ClientClosedError:
            return  # the coordinator aborts it after its timeout
        if not await outlast_cancellation(ending.settled, ABORT_WITHIN_S):
            self._log.warning("the transaction is not aborted yet; the abort continues in the background")

    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        timeout_s: float | None = None,
    ) -> None:
        """Add offsets to the open transaction. See `Producer.send_offsets_to_transaction`."""
        self.state.check_open(self.state.number)
        if self._gate is not None:
            self._gate.outside += 1
        within_s = self._within_s(timeout_s)
        with anyio.move_on_after(within_s):
            await self._additions.offsets(offsets, group)
            return
        raise errors.TransactionTimedOutError(
            f"the offsets of group {group.group_id!r} were not added to the transaction within {_time(within_s * 1000)}"
        )

    async def send_part(self, consumed: Consumed, timeout_s: float | None = None) -> None:
        """Add the offsets after the records that a consumer has handed out.

        The consumer is notified when the transaction ends. Raises the errors of `Transaction.send_offsets`.
        """
        self.state.check_open(self.state.number)
        try:
            part = self.parts.take(consumed, self.state.fate)
        except errors.KafkaError as error:
            self._failed(error)
            raise
        if part.offsets:
            await self.send_offsets(part.offsets, part.group, timeout_s)

    def _on_send_failure(self, number: int, error: errors.KafkaError) -> None:
        """Fail the transaction, because a send is raising this error and its record is missing."""
        if number == self.state.number:
            self._failed(error)

    def _within_s(self, timeout_s: float | None) -> float:
        return self._max_block_s if timeout_s is None else timeout_s

    # --- internals ----------------------------------------------------------------------------------------------------

    def _failed(self, error: errors.KafkaError) -> None:
        """Mark the transaction as failed. A task does the rest, because this is called in the middle of other work."""
        if self.state.fail(error):
            self.close_gate()
            self._sequencing.end()
            self._failure.set()

    async def _discard_failed(self) -> None:
        """Discard the remaining records of failed transactions, until cancelled."""
        while True:
            await self._failure.wait()
            if self.state.phase is Phase.FAILED:
                self._discard()

    def _discard(self) -> None:
        self._sender.abort(lambda fate: self.state.aborted(f"the transaction was aborted; the records were {fate}"))

    def _begin_abort(self) -> Ending:
        self.close_gate()
        self._sequencing.end()
        self.state.abort()
        self._discard()
        return self._endings.begin(self._abort)

    async def _abort(self) -> Errand | None:
        """Wait for the responses still expected, and then return the errand that aborts the transaction."""
        await self._additions.idle()
        # Without KIP-890, a late request could begin a transaction that never ends.
        wait_s = AWAIT_SENT_S if self.state.v2 else self._client.config.request_timeout_ms / 1000
        answered = await self._sender.answered(wait_s)
        if not answered or self._sequencing.gap:
            self.state.renew = not self.state.v2
        return self._errand()

    def _errand(self) -> Errand | None:
        """Return the errand that ends the transaction, or None if no request is needed."""
        self._note_written()
        return self.state.end()

    def _note_written(self) -> None:
        self.state.touched = self.state.touched or (self.state.v2 and self._sequencing.written)

    def _settled(self) -> None:
        self.on_settled()

    @property
    def aborting(self) -> Ending | None:
        """The abort in progress, or None."""
        return self._endings.current if self.state.phase is Phase.ABORTING else None

    def _tell_parts(self) -> None:
        fate = self.state.fate
        if self.state.phase is Phase.FAILED or fate is self._told:  # a refused abort must be retried
            return
        self._told = fate
        if fate.outcome is Outcome.COMMITTED:
            self.parts.committed(fate)
        else:
            self.parts.aborted([fate])

    async def _get_ready(self, deadline: Deadline) -> None:
        """Wait until the next transaction may begin: the previous one has ended, and there is a producer id."""
        while self.state.phase is not Phase.READY:
            self.state.check_fenced()
            ending = self._endings.current
            if ending is None:
                self.state.check_begin()
                ending = self._endings.carry_out(self.state.start())
            if not await ending.over.done_within(deadline.left_s()):
                raise errors.TransactionTimedOutError(
                    f"transactional id {self.state.transactional_id!r}: the coordinator has not responded within "
                    f"{_time(deadline.timeout_ms)}; the producer is {self.state.phase.value}"
                )
            if ending.refusal is not None:
                raise own_copy(ending.refusal)

    async def _learn(self, ending: Ending, deadline: Deadline) -> None:
        """Wait until the outcome of a commit is known, even if cancelled. Raises an error unless it was committed."""
        known = ending.settled.done or await outlast_cancellation(ending.settled, deadline.left_s())
        state = self.state
        if not known or (state.fate.outcome is None and isinstance(ending.refusal, errors.ClientClosedError)):
            raise errors.CommitOutcomeUnknownError
        if self._unlearnt is ending:
            self._unlearnt = None
        if state.fate.outcome is Outcome.COMMITTED:
            return
        state.check_fenced()
        if ending.refusal is not None:
            raise own_copy(ending.refusal)
        if state.fate.outcome is Outcome.UNKNOWN:
            raise errors.CommitOutcomeUnknownError(
                "the response to the commit was lost, and the coordinator no longer has the transaction"
            )
        raise state.aborted("the transaction was aborted")

    async def _abort_failed(self, deadline: Deadline) -> None:
        """Abort a transaction whose commit has failed, and raise an error."""
        failure = self.state.aborted("the transaction has failed and was aborted")
        with suppress(errors.TransactionTimedOutError):  # the abort continues, and the next transaction waits for it
            await self.abort(deadline.left_s())
        raise failure


def transactions_of(producer: Transactional) -> Transactions:
    """Return the transactions of a producer that has a ``transactional_id``."""
    assert producer._transactions is not None
    return producer._transactions


def _time(timeout_ms: float) -> str:
    return f"{timeout_ms:g} ms (max_block_ms, or the call's timeout_ms)"

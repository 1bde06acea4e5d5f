"""Alternating between transactional ids, so that one transaction is filled while earlier ones are being committed.

With the same transactional id, a transaction cannot begin before the coordinator has written the end of the previous
one (KIP-890). With another id, it can. Processing is still exactly-once, for these reasons:

- Blocks are filled one after another. All records of a block are stored before the next block begins, so records and a
  group's offsets are in their logs in the order of the blocks.
- Of two offsets, a coordinator keeps the later one, whichever transaction ends first (Java:
  ``OffsetMetadataManager.replayEndTransactionMarker``).
- A transaction is committed only after the previous one is known to be committed. If the previous one is not committed,
  the transaction is aborted.
- No transaction begins during an abort. Consumers go back only when the aborted transaction and all later ones have
  ended.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from ... import errors
from ..._core.transactions.chain import Chain, Chained, Event, Stage
from ..._core.transactions.errand import Outcome
from ..._core.transactions.state import Fate, Phase
from ...errors.base import own_copy
from ..cancellation import outlast_cancellation
from ..client import Client
from ..deadline import Deadline
from ..kind import Kind
from ..life import Life
from ..loop import News, Waiter
from .endings import ConsumedParts
from .manager import ABORT_WITHIN_S, Transactional, Transactions, transactions_of


class ChainedTransaction(Chained):
    """One transaction of a pipeline, and the producer that sends it."""

    def __init__(self, producer: Transactional, transactions: Transactions, number: int) -> None:
        super().__init__()
        self.producer = producer
        self.transactions = transactions
        self.number = number
        self.fate: Fate = transactions.state.fate
        self.over: Waiter[None] = Waiter()
        """Completed once the outcome is known or cannot be determined."""


class Pipeline(Kind):
    """Begins transactions on several producers in turn, and commits them in order while later ones are filled.

    It also moves consumers back if a transaction that contains their offsets is aborted.
    """

    stop_within_ms = math.inf  # ``max_block_ms`` limits commits
    begin_within_ms = math.inf  # the start of each producer has a limit of its own
    closing_share, closing_ms = 0.2, 1500.0

    def __init__(self, client: Client, producers: Sequence[Transactional], max_block_ms: float) -> None:
        """Use these ``producers`` in turn. They must not have been started. ``client`` is the pipeline's client."""
        client.kind = self
        self._clients = [producer._client for producer in producers]
        for each in self._clients:
            each.owner = client
        self._members = [(producer, transactions_of(producer)) for producer in producers]
        self._max_block_ms = max_block_ms
        self._chain: Chain[ChainedTransaction] = Chain()
        self._parts = ConsumedParts()
        self._aborted: list[Fate] = []
        """Outcomes to report to consumers once no transaction has to be aborted."""
        self._failure: errors.KafkaError | None = None
        """The error of an earlier transaction that was not committed, kept until it has been raised."""
        self._turn = 0
        self._beginning = False
        self._open: ChainedTransaction | None = None
        self._news = News()
        """Notified when a transaction in flight has changed."""
        for _, transactions in self._members:
            transactions.parts = self._parts
            transactions.on_settled = partial(self._settled, transactions)

    # --- calls of the application -------------------------------------------------------------------------------------

    async def begin_transaction(self) -> ChainedTransaction:
        """Begin a transaction with the next producer. At most ``in_flight - 1`` other transactions may be in flight.

        Raises the error of an earlier transaction that was not committed, and the errors of `Transactions.begin`.
        """
        if self._open is not None:
            raise errors.IllegalStateError("a transaction is open: end its block before you begin another")
        if self._beginning:
            raise errors.IllegalStateError("another task is beginning a transaction")
        self._beginning = True
        try:
            deadline = Deadline(self._max_block_ms)
            while True:
                await self._make_room(deadline)
                producer, transactions = self._free()
                number = await transactions.begin()
                if self._chain.calm and self._failure is None:
                    break
                await transactions.abort()  # an earlier transaction has failed in the meantime
            chained = self._open = ChainedTransaction(producer, transactions, number)
            self._chain.begin(chained)
            return chained
        except BaseException:
            self._parts.not_begun()
            raise
        finally:
            self._beginning = False

    def check(self, chained: ChainedTransaction) -> None:
        """Raise an error unless the transaction accepts records and offsets."""
        if chained.reason is not None:
            self._failure = None
            raise own_copy(chained.reason)
        chained.transactions.state.check_open(chained.number)

    async def commit(self, chained: ChainedTransaction) -> None:
        """Wait until all records of the block are stored. The transaction is then committed after the earlier ones."""
        try:
            await chained.transactions.store()
        except BaseException as error:
            await self._fall(chained)
            if chained.reason is not None and isinstance(error, errors.KafkaError):
                self._failure = None
                raise own_copy(chained.reason) from chained.reason.__cause__
            raise
        finally:
            self._open = None
        chained.take(Event.STORE)
        self._go_on()

    async def leave(self, chained: ChainedTransaction, error: BaseException) -> None:
        """Abort the transaction, because its block raised ``error``.

        Returns within a few seconds, even if the coordinator does not respond, so that the caller gets the error soon.
        """
        if isinstance(error, errors.TransactionAbortedError) and isinstance(
            chained.reason, errors.TransactionAbortedError
        ):
            self._failure = None  # the reason has already been raised, for example by a delivery
        try:
            await self._fall(chained)
        finally:
            self._open = None

    async def settle(self, timeout_ms: float) -> None:
        """Wait until no transaction is in flight.

        Raises the error of a transaction that was not committed. Cancelling this call has no effect on the
        transactions.
        """
        if self._open is not None:
            raise errors.IllegalStateError("a transaction is open: end its block first")
        deadline = Deadline(timeout_ms)
        try:
            while len(self._chain):
                await self._step(deadline)
        except TimeoutError:
            raise errors.CommitOutcomeUnknownError from None
        self._raise_failure()

    def take_failure(self) -> errors.KafkaError | None:
        """Return the error of an uncommitted transaction, if it has not been raised yet."""
        failure, self._failure = self._failure, None
        return failure

    # --- start and stop -----------------------------------------------------------------------------------------------

    async def begin(self, deadline: Deadline, *, wait: bool) -> None:
        """Start the producers, which take over the transactional ids."""
        for client in self._clients:
            await client.start(wait=wait, timeout_ms=None if deadline.timeout_ms == math.inf else deadline.left_ms())

    async def finish(self, deadline: Deadline) -> None:
        """Wait until earlier transactions have ended, within ``max_block_ms``."""
        by = Deadline(self._max_block_ms)
        for chained in self._left():
            if not await chained.over.done_within(by.left_s()):
                return

    async def depart(self, deadline: Deadline) -> None:
        if self._left():
            self._failure = self._failure or errors.CommitOutcomeUnknownError()

    def dependents(self) -> Collection[Life[Any]]:
        return self._clients

    def release(self) -> None:
        """End all waits for transactions in flight. The coordinators end these transactions."""
        for chained in self._chain:
            chained.over.set_error(errors.ClientClosedError())
        self._news.tell()

    def _left(self) -> list[ChainedTransaction]:
        return [chained for chained in self._chain if chained.left and not chained.over.done]

    # --- internals ----------------------------------------------------------------------------------------------------

    async def _make_room(self, deadline: Deadline) -> None:
        try:
            while not self._chain.calm or len(self._chain) == len(self._members):
                await self._step(deadline)
        except TimeoutError:
            raise errors.TransactionTimedOutError(
                "the coordinators have not ended the transactions in flight within max_block_ms "
                f"({self._max_block_ms:g})"
            ) from None
        self._raise_failure()

    async def _step(self, deadline: Deadline) -> None:
        """Wait until a transaction in flight changes its state. Raises TimeoutError, or the error of a failed abort."""
        if self._chain.calm:
            await self._news.wait(deadline.left_s())
            return
        for chained in list(self._chain):
            if chained.stage is Stage.DOOMED:
                await chained.transactions.abort()  # retry the abort if the coordinator has refused it

    def _raise_failure(self) -> None:
        failure = self.take_failure()
        if failure is not None:
            self._parts.not_begun()  # no transaction contains the records that consumers have read since
            raise failure

    def _free(self) -> tuple[Transactional, Transactions]:
        """Return the next producer that has no transaction in flight."""
        busy = {chained.transactions for chained in self._chain}
        while True:
            member = self._members[self._turn]
            self._turn = (self._turn + 1) % len(self._members)
            if member[1] not in busy:
                return member

    async def _fall(self, chained: ChainedTransaction) -> None:
        """Abort the open transaction. Wait for a limited time until it and all later ones have ended."""
        if chained.stage is Stage.OPEN:
            chained.take(Event.DOOM)
        deadline = Deadline(ABORT_WITHIN_S * 1000)
        await chained.transactions.leave()
        for each in list(self._chain):
            ending = each.transactions.aborting
            if ending is not None:
                await outlast_cancellation(ending.over, deadline.left_s())

    def _go_on(self) -> None:
        """Commit the next transaction if all earlier ones have been committed."""
        chained = self._chain.next()
        if chained is None:
            return
        if chained.transactions.state.phase is not Phase.STORED:
            self._refused(chained)  # it failed after being stored
            return
        try:
            chained.transactions.commit_stored()
        except errors.ClientClosedError:
            self._not_committed(chained)

    def _settled(self, transactions: Transactions) -> None:
        """Handle the outcome of a producer's transaction if it is in the chain."""
        chained = next((each for each in self._chain if each.transactions is transactions), None)
        if chained is None or chained.number != transactions.state.number:
            return
        if chained.fate.outcome is Outcome.COMMITTED:
            self._parts.committed(chained.fate)
            self._chain.ended(chained)
            chained.over.set_result(None)
            self._go_on()
        elif transactions.state.phase is not Phase.FAILED:
            self._not_committed(chained)
        elif chained.left:
            self._refused(chained)
        self._news.tell()

    def _refused(self, chained: ChainedTransaction) -> None:
        """Abort a transaction that cannot be committed and is still open, and all later ones."""
        self._doom_behind(chained)
        chained.take(Event.DOOM)
        chained.transactions.give_up()

    def _not_committed(self, chained: ChainedTransaction) -> None:
        """Handle a transaction that was aborted, or whose outcome is unknown."""
        self._doom_behind(chained)
        self._aborted.append(chained.fate)
        self._chain.ended(chained)
        if self._chain.calm:
            aborted, self._aborted = self._aborted, []
            self._parts.aborted(aborted)
        chained.over.set_result(None)

    def _doom_behind(self, chained: ChainedTransaction) -> None:
        if chained.left:
            self._failure = self._failure or _failure_of(chained)
        for each in self._chain.doom_behind(chained, self._failure):
            assert each.reason is not None
            each.transactions.doom(each.reason)


def _failure_of(chained: ChainedTransaction) -> errors.KafkaError:
    """Return the reason why the transaction was not committed."""
    state = chained.transactions.state
    if isinstance(state.error, errors.ProducerFencedError):
        return own_copy(state.error)
    if chained.fate.outcome is None and state.phase is not Phase.FAILED:
        return errors.CommitOutcomeUnknownError()
    if chained.fate.outcome is Outcome.UNKNOWN:
        return errors.CommitOutcomeUnknownError(
            "the response to the commit was lost, and the coordinator no longer has the transaction"
        )
    return state.aborted("an earlier transaction was aborted, and all transactions after it")

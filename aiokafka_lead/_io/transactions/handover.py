"""Transactions that one process opens and another ends, for example a worker and its driver.

The first process hands over the producer id and the version of the transaction. A transaction that began with KIP-890
must end with it in every process. For the coordinator, both processes are the same producer. The end of a transaction
may be requested repeatedly, even by a third process. Requesting a producer id for the transactional id fences all of
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio

from ..._core.transactions.errand import Errand, Outcome
from ..._core.transactions.state import OpenTransaction
from ..._core.transactions.verdicts import Call
from ..._values import NamedTuple
from ...config import AdminConfig
from ...errors import KafkaError, RequestTimedOutError
from ..client import Client
from ..group.coordinators import Coordinators
from .asking import Asking
from .manager import Transactional, transactions_of

__all__ = ["Ended", "OpenTransaction", "Outcome", "TransactionCommits", "hand_over", "resume"]

COMMITS_AT_ONCE = 100
"""Maximum number of transactions to commit at the same time."""


async def hand_over(producer: Transactional) -> OpenTransaction:
    """Send all records of the producer's open transaction, and return the value that lets another process end it.

    Afterwards, the producer can only be stopped, which leaves the transaction open. If a record cannot be stored, the
    transaction is aborted, and the errors of `Producer.commit_transaction` are raised.
    """
    transactions = transactions_of(producer)
    transactions.check()
    return await transactions.hand_over()


def resume(producer: Transactional, opened: OpenTransaction) -> None:
    """Let a producer continue this open transaction instead of requesting a producer id.

    Call it before the producer starts.

    The producer may add offsets, and must end the transaction. It can send records only in later transactions.
    """
    transactions = transactions_of(producer)
    assert transactions.state.transactional_id == opened.transactional_id
    transactions.resume(opened)


class Ended(NamedTuple):
    """The result of committing one transaction: its outcome, or the error."""

    outcome: Outcome | None
    """The outcome. If it is None, the outcome is unknown, and the call should be repeated."""
    error: KafkaError | None
    """The reason for an unexpected outcome, or None."""


class TransactionCommits:
    """Commits open transactions of other processes. It is started and stopped like `Client`."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Any) -> None:
        """Take the options of an `AdminClient`."""
        self._client = Client(AdminConfig.from_options(bootstrap_servers, options))
        self._coordinators = Coordinators(self._client)

    async def start(self) -> None:
        """Connect to the cluster. Raises the same errors as a client."""
        await self._client.start()

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Close all connections within ``timeout_ms``."""
        await self._client.stop(timeout_ms)

    async def commit(self, opened: Iterable[OpenTransaction], *, within_ms: float) -> dict[str, Ended]:
        """Commit all these transactions, and return a dict from transactional id to `Ended`.

        If the coordinator does not respond within ``within_ms``, the error of an item is `RequestTimedOutError`, and
        the outcome of its transaction is unknown. The call may be repeated.
        """
        ended: dict[str, Ended] = {}
        at_once = anyio.CapacityLimiter(COMMITS_AT_ONCE)

        async def commit_one(transaction: OpenTransaction) -> None:
            name = transaction.transactional_id
            errand = _errand(transaction)
            async with at_once:
                with anyio.move_on_at(deadline):
                    await Asking(self._client, self._coordinators, name).run(errand, _stop_when_known)
            error = errand.refusal or errand.reason
            if errand.call is not None:
                error = errand.latest or RequestTimedOutError(f"{errand.call.value} of {name!r} got no response")
            ended[name] = Ended(errand.outcome, error)

        deadline = anyio.current_time() + within_ms / 1000
        async with anyio.create_task_group() as group:
            for transaction in opened:
                if transaction.begun:
                    group.start_soon(commit_one, transaction)
        return ended


def _errand(transaction: OpenTransaction) -> Errand:
    errand = Errand(
        transaction.transactional_id,
        _NO_TIMEOUT,
        Call.COMMIT,
        transaction.producer_id,
        transaction.epoch,
        v2=transaction.version == 2,
    )
    errand.in_doubt = True  # it may be a repetition
    return errand


_NO_TIMEOUT = 0
"""Transaction timeout, which is unused because no producer id is requested."""


def _stop_when_known(errand: Errand) -> None:
    """Stop the errand once the outcome is known. The new epoch, for which it would continue, is not needed."""
    if errand.outcome is not None:
        errand.call = None

"""Transactions opened by one process and ended by another one, as a worker and its driver do.

The first process hands over the identity of the transaction, with its version: a transaction that began under KIP-890
has to end under it in every process. The coordinator does not distinguish processes: to it, both are one producer. So
an end may be repeated, also by a third process; and any request for a producer id under the transactional id fences
them all.
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

__all__ = ["Ended", "OpenTransaction", "Outcome", "TransactionEnds", "hand_over", "resume"]

ENDS_AT_ONCE = 100
"""Number of transactions ended at a time."""


async def hand_over(producer: Transactional) -> OpenTransaction:
    """Send all records of the producer's open transaction; another process may end it with the result.

    Afterwards the producer can only be stopped, which leaves the transaction open. Raises the errors of
    `Producer.commit_transaction` if a record is not stored: then the transaction is aborted.
    """
    transactions = transactions_of(producer)
    transactions.check()
    return await transactions.hand_over()


def resume(producer: Transactional, opened: OpenTransaction) -> None:
    """Let a producer that is not started yet begin in this open transaction, instead of with a new producer id.

    It may add offsets and has to end the transaction; it sends records only in later transactions.
    """
    transactions = transactions_of(producer)
    assert transactions.state.transactional_id == opened.transactional_id
    transactions.resume(opened)


class Ended(NamedTuple):
    """Result of ending a transaction."""

    outcome: Outcome | None
    """None while it is unknown: ask again."""
    error: KafkaError | None
    """Reason for an unexpected outcome."""


class TransactionEnds:
    """A client that ends open transactions of other processes; used like `Client`: started, used, stopped."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Any) -> None:
        """Takes the options of an `AdminClient`."""
        self._client = Client(AdminConfig.from_options(bootstrap_servers, options))
        self._coordinators = Coordinators(self._client)

    async def start(self) -> None:
        """Connect to the cluster."""
        await self._client.start()

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Close every connection."""
        await self._client.stop(timeout_ms)

    async def end(self, opened: Iterable[OpenTransaction], *, commit: bool, within_ms: float) -> dict[str, Ended]:
        """Commit or abort all of them; return the results by transactional id. Can be repeated safely.

        Commits are sent as possible repetitions. If the coordinator has not answered in time, the error is
        `RequestTimedOutError`, and the outcome is unknown.
        """
        ended: dict[str, Ended] = {}
        at_once = anyio.CapacityLimiter(ENDS_AT_ONCE)

        async def end_one(transaction: OpenTransaction) -> None:
            name = transaction.transactional_id
            errand = _errand(transaction, commit)
            async with at_once:
                with anyio.move_on_at(deadline):
                    await Asking(self._client, self._coordinators, name).run(errand, _stop_when_known)
            error = errand.refusal or errand.reason
            if errand.call is not None:
                error = errand.latest or RequestTimedOutError(f"{errand.call.value} of {name!r} was not answered")
            ended[name] = Ended(errand.outcome, error)

        deadline = anyio.current_time() + within_ms / 1000
        async with anyio.create_task_group() as group:
            for transaction in opened:
                if transaction.begun:
                    group.start_soon(end_one, transaction)
        return ended


def _errand(transaction: OpenTransaction, commit: bool) -> Errand:
    errand = Errand(
        transaction.transactional_id,
        _NO_TIMEOUT,
        Call.COMMIT if commit else Call.ABORT,
        transaction.producer_id,
        transaction.epoch,
        v2=transaction.version == 2,
    )
    errand.in_doubt = commit
    return errand


_NO_TIMEOUT = 0
"""Timeout for a producer id that is not requested."""


def _stop_when_known(errand: Errand) -> None:
    """Do not ask for a new epoch, which would be for a next transaction."""
    if errand.outcome is not None:
        errand.call = None

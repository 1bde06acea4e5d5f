"""Transactions that one process opens and another one ends, as a worker and its driver do.

The first process hands over what identifies the transaction, with its version: one that began under KIP-890 has to end
under it in every process. The coordinator knows no processes: to it, both are one producer. So an end may be repeated,
also by a third process; and whatever asks for a producer id under the transactional id meanwhile fences them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import anyio

from ..._core.transactions.errand import Errand, Outcome
from ..._core.transactions.state import OpenTransaction
from ..._core.transactions.verdicts import Call
from ...config import AdminConfig
from ...errors import KafkaError, RequestTimedOutError
from ..client import Client
from ..group.coordinators import Coordinators
from .asking import Asking
from .manager import Transactional, transactions_of

__all__ = ["Ended", "OpenTransaction", "Outcome", "TransactionEnds", "hand_over", "resume"]

ENDS_AT_ONCE = 100
"""So many transactions are ended at a time."""


async def hand_over(producer: Transactional) -> OpenTransaction:
    """Send all that the producer's open transaction took; another process may end it with what this returns.

    The producer is good for nothing then but to be stopped, which leaves the transaction open. Raises as
    `Producer.commit_transaction` does where a record is not stored: then the transaction is aborted.
    """
    transactions = transactions_of(producer)
    transactions.check()
    return await transactions.hand_over()


def resume(producer: Transactional, opened: OpenTransaction) -> None:
    """Let a producer that is not started yet begin in this open transaction, instead of with a new producer id.

    It may add offsets and has to end the transaction; it sends records only in those that it begins after that.
    """
    transactions = transactions_of(producer)
    assert transactions.state.transactional_id == opened.transactional_id
    transactions.resume(opened)


class Ended(NamedTuple):
    """What became of a transaction."""

    outcome: Outcome | None
    """None where it is not known yet: ask again."""
    error: KafkaError | None
    """Why it is not as it was to be."""


class TransactionEnds:
    """A client that ends open transactions of other processes, in the way of `Client`: started, used, stopped."""

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Any) -> None:
        """Options are those of an `AdminClient`."""
        self._client = Client(AdminConfig.from_options(bootstrap_servers, options))
        self._coordinators = Coordinators(self._client)

    async def start(self) -> None:
        """Connect to the cluster."""
        await self._client.start()

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Close every connection."""
        await self._client.stop(timeout_ms)

    async def end(self, opened: Iterable[OpenTransaction], *, commit: bool, within_ms: float) -> dict[str, Ended]:
        """Commit, or abort, each of them; what became of each, by transactional id. Repeating it changes nothing.

        A commit is asked for as one that may have been carried out before. Where the coordinator has not answered
        within the time, the error is `RequestTimedOutError`, and the outcome is not known.
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
"""No producer id is asked for."""


def _stop_when_known(errand: Errand) -> None:
    """Ask for no other epoch, which would be for a next transaction."""
    if errand.outcome is not None:
        errand.call = None

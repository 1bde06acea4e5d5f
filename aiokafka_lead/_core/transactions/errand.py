"""Series of requests to the transaction coordinator, and the delay before it is asked if it has finished.

An *errand* gets a producer id, ends a transaction, or gets a new epoch. Each response determines the next request. An
errand ends when the producer is ready for its next transaction, or can never begin another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import Enum
from operator import is_
from typing import Any

from ... import errors
from ..._wire import ApiVersions, Request
from ..._wire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ..._wire.messages.end_txn import EndTxnRequest
from ..._wire.messages.init_producer_id import InitProducerIdRequest
from ..._wire.messages.produce import ProduceRequest
from ..._wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from .verdicts import Call, Verdict, verdict_of

# --- transaction version ----------------------------------------------------------------------------------------------
#
# Decides if transactions follow KIP-890 (V2) or the earlier protocol (V1).
#
# This depends on the cluster's finalized feature ``transaction.version``, which a client gets when it connects. The
# brokers' API versions do not show it, because brokers offer the new versions before the feature is enabled.


FEATURE = "transaction.version"
FIRST_V2_LEVEL = 2
_NEEDED = ((ProduceRequest, 12), (EndTxnRequest, 5), (TxnOffsetCommitRequest, 5))


class TransactionVersion:
    """The newest known value of the feature ``transaction.version``.

    A transaction ends in the version in which it began.
    """

    def __init__(self) -> None:
        self._newest = -1
        """Epoch of the newest finalized features that were received."""
        self._level = 0
        self._offered: list[ApiVersions] = []
        self._v2 = False
        """True if these features include KIP-890."""

    def v2(self, offers: Iterable[ApiVersions]) -> bool:
        """Return True if the next transaction should follow KIP-890.

        ``offers`` contains the API versions of the connected brokers.
        """
        offered = list(offers)
        if len(offered) != len(self._offered) or not all(map(is_, offered, self._offered)):
            self._offered = offered
            self._v2 = self._usable(offered) and self._level >= FIRST_V2_LEVEL
        return self._v2

    def _usable(self, offers: Iterable[ApiVersions]) -> bool:
        usable = True
        for offered in offers:
            if offered.finalized_features_epoch > self._newest:
                self._newest = offered.finalized_features_epoch
                self._level = offered.finalized_features.get(FEATURE, 0)
            usable = usable and all(offered.supports(request, version) for request, version in _NEEDED)
        return usable


FIRST_INIT_WITH_EPOCH = 3
"""First version of InitProducerId that accepts a producer id and epoch, and returns the next epoch (KIP-360)."""

FIRST_END_WITH_EPOCH = 5
"""First version of EndTxn with an epoch per transaction: the response contains the next epoch (KIP-890)."""

_ENDING = ("PrepareAbort", "PrepareCommit", "PrepareEpochFence")
_TIMED_OUT = "CompleteAbort"
_INITIALIZED = "Empty"


def ask_request(transactional_id: str, versions: ApiVersions) -> tuple[DescribeTransactionsRequest, int]:
    """Return the request that asks the coordinator for the state of a transactional id, and its version."""
    version = versions.version_for(DescribeTransactionsRequest)
    return DescribeTransactionsRequest(transactional_ids=[transactional_id]), version


def read_ended(response: DescribeTransactionsResponse) -> errors.KafkaError | None:
    """Return `ConcurrentTransactionsError` if the coordinator is still ending the transaction, otherwise None."""
    ending = any(found.transaction_state in _ENDING for found in response.transaction_states)
    return errors.ConcurrentTransactionsError() if ending else None


class Outcome(Enum):
    """Outcomes of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """The response to the commit was lost, and the coordinator now has a later transaction or another producer."""


_FATES = {"CompleteCommit": Outcome.COMMITTED, "CompleteAbort": Outcome.ABORTED}


class Errand:
    """One errand. Until ``call`` is None, send `request`, and then call `answered`, `failed` or `lost`."""

    def __init__(
        self,
        transactional_id: str,
        timeout_ms: int,
        call: Call,
        producer_id: int = -1,
        epoch: int = -1,
        *,
        v2: bool = False,
        renew: bool = False,
    ) -> None:
        """Create an errand whose first request is ``call``.

        ``producer_id`` and ``epoch`` identify the producer of the transaction. -1 means that the coordinator has not
        assigned them yet, which is possible only if ``call`` requests a producer id. ``timeout_ms`` is the
        ``transaction_timeout_ms`` of the producer. ``v2`` is True if the transaction follows KIP-890. ``renew`` is True
        if the producer needs a new epoch before its next transaction.
        """
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.call: Call | None = call
        """The current request, or None if the errand has ended."""
        self.producer_id = producer_id
        """The current producer id, which the errand may replace."""
        self.epoch = epoch
        self.v2 = v2
        self.renew = renew
        self._ends = call in (Call.COMMIT, Call.ABORT)
        """True if the errand ends a transaction."""
        self.outcome: Outcome | None = None
        """The outcome of the transaction, or None until it is known. The errand may continue after this."""
        self.refusal: errors.KafkaError | None = None
        """The error that ended the errand early, or None."""
        self.reason: errors.KafkaError | None = None
        """The error that caused an abort instead of a commit, or a request for the coordinator's state."""
        self.latest: errors.KafkaError | None = None
        """The error of the latest request, or None if it succeeded."""
        self.in_doubt = False
        """True if a request to commit was not answered, so the transaction may have been committed."""
        self._renewed = False
        """True if a request for a new epoch was not answered, so the coordinator may have assigned one."""
        self._contradicted = False
        """True if the coordinator has said that no other producer has taken over, although it had refused this one."""

    @property
    def fenced(self) -> bool:
        """True if the errand ended because another producer uses the transactional id."""
        return isinstance(self.refusal, errors.ProducerFencedError)

    def request(self, versions: ApiVersions) -> tuple[Request[Any], int]:
        """Return the next request, and its version for a broker with these ``versions``.

        Raises `UnsupportedVersionError`.
        """
        call = self.call
        if call is Call.ASK:
            return ask_request(self.transactional_id, versions)
        if call in (Call.COMMIT, Call.ABORT):
            highest = None if self.v2 else FIRST_END_WITH_EPOCH - 1
            version = versions.version_for(
                EndTxnRequest, lowest=FIRST_END_WITH_EPOCH if self.v2 else None, highest=highest
            )
            end = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=call is Call.COMMIT,
            )
            return end, version
        version = versions.version_for(InitProducerIdRequest)
        init = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        if call is Call.RENEW and version >= FIRST_INIT_WITH_EPOCH:
            init.producer_id, init.producer_epoch = self.producer_id, self.epoch
        return init, version

    def lost(self) -> None:
        """Record that no response arrived. The coordinator may have executed the request.

        Without KIP-890, it may even execute the request later, in another transaction of the same epoch (KAFKA-17754).
        The next transaction must therefore have another epoch.
        """
        if self.call is Call.COMMIT:
            self.in_doubt = True
        self._renewed = self._renewed or self.call is Call.RENEW
        if not self.v2:
            self.renew = True

    def answered(self, response: Any) -> Verdict | None:
        """Process the response to the last request, and choose the next request.

        Returns None if the errand has advanced or ended. Otherwise, returns the verdict on repeating the same request.
        """
        self.latest = None
        if self.call is Call.ASK:
            return self._learn(response)
        if response.error_code:
            kind = errors.error_for_code(response.error_code)
            return self.failed(kind(f"{self._name}: {kind().message}"))
        if self.call is Call.COMMIT or self.call is Call.ABORT:
            self._ended(response.producer_id, response.producer_epoch)
        elif response.producer_id < 0:
            return self.failed(errors.UnknownServerError(f"{self._name}: the response has no producer id"))
        else:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.call = None
        return None

    def failed(self, error: errors.KafkaError) -> Verdict | None:
        """Process an error or a failed request. Returns None or a verdict, like `answered`."""
        assert self.call is not None
        self.latest = error
        verdict = verdict_of(self.call, type(error))
        if verdict is Verdict.REFUSE and self.in_doubt and self.call is Call.COMMIT:
            verdict = Verdict.RETRY  # the outcome of the transaction must be found out, however long it takes
        if verdict is Verdict.ASK and self._contradicted:
            self._contradicted = False  # the next refusal leads to another request
            verdict = Verdict.RETRY
        step = _STEPS.get(verdict)
        if step is None:
            return verdict
        step(self, error)
        return None

    # --- choosing the next request ------------------------------------------------------------------------------------

    def _ended(self, producer_id: int, epoch: int) -> None:
        self.outcome = Outcome.COMMITTED if self.call is Call.COMMIT else Outcome.ABORTED
        if producer_id >= 0:
            self.producer_id, self.epoch = producer_id, epoch
        self.call = Call.RENEW if self.renew else None

    def _abort(self, error: errors.KafkaError) -> None:
        """Continue after the coordinator has refused to commit: abort the transaction if it is still open.

        Without KIP-890, an earlier request to commit may have been executed despite the refusal, so the coordinator is
        asked first.
        """
        self.reason = error
        self.call = Call.ASK if self.in_doubt and not self.v2 else Call.ABORT

    def _go_on(self, error: errors.KafkaError) -> None:
        """Request a new epoch next, because there is no transaction to end."""
        self._not_committed(error)
        self.call = Call.RENEW

    def _ask(self, error: errors.KafkaError) -> None:
        self.reason = self.reason or error
        self.call = Call.ASK

    def _start(self, error: errors.KafkaError) -> None:
        self._not_committed(error)
        self.call = Call.START

    def _not_committed(self, error: errors.KafkaError) -> None:
        self.reason = self.reason or error
        if self._ends and self.outcome is None:
            self.outcome = Outcome.UNKNOWN if self.in_doubt else Outcome.ABORTED

    def _refuse(self, error: errors.KafkaError) -> None:
        self.refusal = error
        self.call = None

    def _fence(self, error: errors.KafkaError, rival: str = "") -> None:
        text = f"another producer has taken over the transactional id {self.transactional_id!r}"
        if rival:
            text += f": {rival}"
        self._not_committed(error)
        if self.outcome is Outcome.UNKNOWN:
            text += "; the transaction may have been committed before"
        fenced = errors.ProducerFencedError(text)
        fenced.__cause__ = self.reason or error
        self._refuse(fenced)

    def _learn(self, response: DescribeTransactionsResponse) -> Verdict | None:
        """Find out whether the transaction timed out or another producer has taken over.

        When a transaction times out, the coordinator aborts it under the next epoch of the same producer id and forgets
        the previous epoch. The new epoch must therefore be requested with that next epoch. The same is true if the
        response with a new epoch was lost together with the coordinator, because its successor does not know for which
        epoch it was. If another producer has taken over, and has begun and aborted a transaction in the meantime, the
        state looks the same. This producer then fences the other one, as any later producer would. No data is lost.
        """
        found = next((s for s in response.transaction_states if s.transactional_id == self.transactional_id), None)
        if found is None:
            return self.failed(
                errors.TransactionalIdNotFoundError(f"{self._name}: the response lacks the transactional id")
            )
        if found.error_code:
            kind = errors.error_for_code(found.error_code)
            return self.failed(kind(f"{self._name}: {kind().message}"))
        own = found.producer_id == self.producer_id and found.producer_epoch in (self.epoch, self.epoch + 1)
        if own and found.transaction_state in _ENDING:
            return Verdict.RETRY
        # The earlier error was wrong: no other producer has taken over.
        if own and found.producer_epoch == self.epoch:
            self._contradicted = True
            if isinstance(self.reason, errors.InvalidTxnStateError):
                self.outcome = self._fate_in(found.transaction_state)
            self._go_on(self.reason or errors.ProducerFencedError())
            return None
        if own and found.transaction_state == _TIMED_OUT and found.producer_epoch == self.epoch + 1:
            gone = errors.InvalidTxnStateError(f"{self._name}: the coordinator has aborted the transaction")
            gone.__cause__, self.reason = self.reason, gone
            self._not_committed(gone)
            self.epoch = found.producer_epoch
            self.call = Call.RENEW
            return None
        if own and found.transaction_state == _INITIALIZED and self._renewed:
            self.epoch = found.producer_epoch
            self.call = Call.RENEW
            return None
        if own and found.transaction_state == _INITIALIZED and self.in_doubt:
            self.outcome = self._fate_in(found.transaction_state)
        rival = (
            f"its state is {found.transaction_state}, with producer id {found.producer_id} and epoch "
            f"{found.producer_epoch}; this producer has {self.producer_id} and {self.epoch}"
        )
        self._fence(errors.ProducerFencedError(), rival)
        return None

    def _fate_in(self, state: str) -> Outcome:
        """Return the outcome of the transaction from the coordinator's state at this epoch or the next.

        After InitProducerId, an ended transaction has an empty state. Without KIP-890, such a transaction was
        committed, because no producer has requested its abort, and any other abort increments the epoch.
        """
        if state == _INITIALIZED and self.in_doubt and not self.v2:
            return Outcome.COMMITTED
        return _FATES.get(state, Outcome.UNKNOWN)

    @property
    def _name(self) -> str:
        assert self.call is not None
        return f"{self.call.value} of {self.transactional_id!r}"


_STEPS: dict[Verdict, Callable[[Errand, errors.KafkaError], None]] = {
    Verdict.ABORT: Errand._abort,
    Verdict.RENEW: Errand._go_on,
    Verdict.START: Errand._start,
    Verdict.ASK: Errand._ask,
    Verdict.FENCED: Errand._fence,
    Verdict.REFUSE: Errand._refuse,
    Verdict.FAIL: Errand._refuse,
}


# --- delay before the coordinator is asked ----------------------------------------------------------------------------
#
# To end a transaction, the coordinator has transaction markers written to all partitions, and then writes the end to
# its log. Until then, it refuses the next transaction's partitions. If it handles no other requests, it sends that last
# log record to its followers only when the next request arrives (``ActionQueue``). A request before the markers are
# written is therefore useless, and each moment after that is lost time.


ENDED_FOR_SURE_S = 0.5
"""Seconds after which the coordinator has certainly finished a transaction.

By then, its followers have fetched again and received the last log record (``replica.fetch.wait.max.ms``).
"""

SHORTEST_S = 0.001
LONGEST_S = 0.02
"""Longest delay in seconds.

It is equal to a broker's delay before it repeats such a request (``add.partitions.to.txn.retry.backoff.ms``).
"""

ENOUGH = 2
"""Number of requests needed if the first one arrives just when the markers have been written."""

LATER = 1.25
SOONER = 0.9


class EndPace:
    """Adapts the delay before the coordinator is first asked if it has finished a transaction.

    The delay depends on how many such requests were needed for earlier transactions.
    """

    def __init__(self) -> None:
        self._wait_s = SHORTEST_S
        self._ended_at = -math.inf

    def ended(self, now: float) -> None:
        """Record that the coordinator has begun to write a commit or an abort, which takes time."""
        self._ended_at = now

    def goes_on(self, now: float) -> bool:
        """Return True if the coordinator may still be ending the last transaction."""
        return now < self._ended_at + ENDED_FOR_SURE_S

    def left_s(self, now: float) -> float:
        """Return the seconds to wait before the coordinator is first asked."""
        return max(0.0, self._ended_at + self._wait_s - now)

    def asked(self, times: int) -> None:
        """Adapt the delay. ``times`` is the number of requests until the coordinator had finished, at least 1."""
        factor = LATER if times > ENOUGH else SOONER
        self._wait_s = min(LONGEST_S, max(SHORTEST_S, self._wait_s * factor))

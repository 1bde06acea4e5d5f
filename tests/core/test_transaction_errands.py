"""Errors of every call to a coordinator: the verdict, and the next step of the errand."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead import errors
from aiokafka_lead._core.transactions.errand import Errand, Outcome
from aiokafka_lead._core.transactions.verdicts import Call, Verdict, verdict_of
from aiokafka_lead._wire import ApiVersions
from aiokafka_lead._wire.messages.describe_transactions import DescribeTransactionsResponse, TransactionState
from aiokafka_lead._wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokafka_lead._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokafka_lead.errors import BrokerError, KafkaError

ID = "payments"
VERSIONS = ApiVersions({22: (0, 5), 26: (0, 5), 65: (0, 0)})
OLD_VERSIONS = ApiVersions({22: (0, 2), 26: (0, 1)})

EVERY_ERROR = sorted(
    {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, KafkaError) and (kind is BrokerError or "code" in vars(kind))
    },
    key=lambda kind: kind.__name__,
)

RIVALS = {"ProducerFencedError", "InvalidProducerEpochError", "InvalidProducerIdMappingError"}
EXPECTED: dict[Call, dict[str, Verdict]] = {
    Call.START: {
        "ProducerFencedError": Verdict.FENCED,
        "InvalidProducerEpochError": Verdict.FENCED,
    },
    Call.RENEW: {
        **dict.fromkeys(RIVALS, Verdict.ASK),
        "UnknownProducerIdError": Verdict.ASK,
        "UnknownServerError": Verdict.RETRY,
        "TransactionAbortableError": Verdict.ASK,
    },
    Call.COMMIT: {
        **dict.fromkeys(RIVALS, Verdict.ASK),
        "InvalidTxnStateError": Verdict.ABORT,
        "TransactionAbortableError": Verdict.ABORT,
        "UnknownProducerIdError": Verdict.ABORT,
        "UnknownServerError": Verdict.RETRY,
    },
    Call.ABORT: {
        **dict.fromkeys(RIVALS, Verdict.ASK),
        "InvalidTxnStateError": Verdict.RENEW,
        "TransactionAbortableError": Verdict.RENEW,
        "UnknownProducerIdError": Verdict.RENEW,
        "UnknownServerError": Verdict.RETRY,
    },
    Call.ASK: {"TransactionalIdNotFoundError": Verdict.START, "UnknownServerError": Verdict.RETRY},
    Call.ADD_PARTITIONS: {"UnknownServerError": Verdict.RETRY},
    Call.ADD_OFFSETS: {"UnknownServerError": Verdict.RETRY},
    Call.COMMIT_OFFSETS: {"UnknownServerError": Verdict.RETRY},
}
"""Verdicts by call and error, except retries and `OTHERWISE`."""

OTHERWISE = {
    Call.START: Verdict.REFUSE,
    Call.RENEW: Verdict.REFUSE,
    Call.COMMIT: Verdict.REFUSE,
    Call.ABORT: Verdict.REFUSE,
    Call.ASK: Verdict.FENCED,
    Call.ADD_PARTITIONS: Verdict.FAIL,
    Call.ADD_OFFSETS: Verdict.FAIL,
    Call.COMMIT_OFFSETS: Verdict.FAIL,
}


@pytest.mark.parametrize("call", Call)
def test_each_error_of_each_call(call: Call) -> None:
    for kind in EVERY_ERROR:
        wanted = EXPECTED[call].get(kind.__name__)
        if wanted is None:
            wanted = Verdict.RETRY if kind.retriable else OTHERWISE[call]
        assert verdict_of(call, kind) is wanted, kind.__name__
    assert verdict_of(call, errors.KafkaConnectionError) is Verdict.RETRY
    assert verdict_of(call, errors.ConcurrentTransactionsError) is Verdict.RETRY
    unknown = errors.error_for_code(32_000)
    if call in (Call.COMMIT, Call.ABORT, Call.RENEW, Call.ASK):
        assert verdict_of(call, unknown) is Verdict.RETRY, "what became of it has to be learnt"


def errand(call: Call, **options: Any) -> Errand:
    return Errand(ID, 60_000, call, 100, 7, **options)


@pytest.mark.parametrize(("highest", "named"), [(2, False), (3, True), (5, True)])
def test_a_renewal_names_the_producer_where_the_version_can(highest: int, named: bool) -> None:
    request: Any
    request, version = errand(Call.RENEW).request(ApiVersions({22: (0, highest)}))
    assert version == highest
    assert (request.producer_id, request.producer_epoch) == ((100, 7) if named else (-1, -1))
    request, _ = errand(Call.START).request(ApiVersions({22: (0, highest)}))
    assert (request.producer_id, request.producer_epoch) == (-1, -1)


def refuse(one: Errand, kind: type[BrokerError]) -> Verdict | None:
    """Answer with this error as the coordinator."""
    if one.call is Call.ASK:
        state = TransactionState(transactional_id=ID, error_code=kind.code)
        return one.answered(DescribeTransactionsResponse(transaction_states=[state]))
    if one.call in (Call.COMMIT, Call.ABORT):
        return one.answered(EndTxnResponse(error_code=kind.code))
    return one.answered(InitProducerIdResponse(error_code=kind.code))


def describe(one: Errand, state: str, producer_id: int = 100, epoch: int = 7) -> Verdict | None:
    found = TransactionState(
        transactional_id=ID, transaction_state=state, producer_id=producer_id, producer_epoch=epoch
    )
    return one.answered(DescribeTransactionsResponse(transaction_states=[found]))


def test_a_start() -> None:
    one = errand(Call.START)
    assert refuse(one, errors.ConcurrentTransactionsError) is Verdict.RETRY
    assert refuse(one, errors.NotCoordinatorError) is Verdict.RETRY
    request, version = one.request(VERSIONS)
    assert isinstance(request, InitProducerIdRequest)
    assert (request.transactional_id, request.producer_id, request.producer_epoch, version) == (ID, -1, -1, 5)
    assert one.answered(InitProducerIdResponse(producer_id=101, producer_epoch=0)) is None
    assert (one.call, one.producer_id, one.epoch, one.outcome) == (None, 101, 0, None)


def test_a_renewal_names_the_epoch_where_that_is_possible() -> None:
    request, _ = errand(Call.RENEW).request(VERSIONS)
    assert isinstance(request, InitProducerIdRequest)
    assert (request.producer_id, request.producer_epoch) == (100, 7)
    request, version = errand(Call.RENEW).request(OLD_VERSIONS)
    assert isinstance(request, InitProducerIdRequest)
    assert (request.producer_id, version) == (-1, 2)


@pytest.mark.parametrize(("call", "outcome"), [(Call.COMMIT, Outcome.COMMITTED), (Call.ABORT, Outcome.ABORTED)])
def test_an_end(call: Call, outcome: Outcome) -> None:
    new = errand(call, v2=True)
    request, version = new.request(VERSIONS)
    assert isinstance(request, EndTxnRequest)
    assert (request.committed, request.producer_id, request.producer_epoch) == (call is Call.COMMIT, 100, 7)
    assert version == 5
    new.lost()
    assert new.answered(EndTxnResponse(producer_id=100, producer_epoch=8)) is None
    assert (new.call, new.outcome, new.epoch) == (None, outcome, 8), "an answer that was lost costs nothing"
    old = errand(call)
    assert old.request(VERSIONS)[1] == 4
    assert old.answered(EndTxnResponse()) is None
    assert (old.call, old.outcome, old.epoch) == (None, outcome, 7)
    with pytest.raises(errors.UnsupportedVersionError):
        errand(call, v2=True).request(OLD_VERSIONS)


def test_a_new_producer_id_comes_when_the_epochs_are_used_up() -> None:
    one = errand(Call.COMMIT, v2=True)
    one.answered(EndTxnResponse(producer_id=101, producer_epoch=0))
    assert (one.producer_id, one.epoch) == (101, 0)


@pytest.mark.parametrize("call", [Call.COMMIT, Call.ABORT])
def test_a_lost_answer_ends_the_epoch_without_kip_890(call: Call) -> None:
    """KAFKA-17754: the request may be executed later, in another transaction of the same epoch."""
    one = errand(call)
    one.lost()
    assert one.answered(EndTxnResponse()) is None
    assert (one.outcome is not None, one.call) == (True, Call.RENEW)
    one.answered(InitProducerIdResponse(producer_id=100, producer_epoch=8))
    assert (one.call, one.epoch) == (None, 8)


@pytest.mark.parametrize("kind", [errors.InvalidTxnStateError, errors.TransactionAbortableError])
def test_a_commit_that_is_refused_is_an_abort(kind: type[BrokerError]) -> None:
    one = errand(Call.COMMIT, v2=True)
    assert refuse(one, kind) is None
    assert one.call is Call.ABORT
    assert one.answered(EndTxnResponse(producer_id=100, producer_epoch=8)) is None
    assert one.outcome is Outcome.ABORTED
    assert isinstance(one.reason, kind)


def test_an_abort_of_what_the_coordinator_does_not_know_goes_on_with_a_new_epoch() -> None:
    one = errand(Call.ABORT)
    assert refuse(one, errors.InvalidTxnStateError) is None
    assert (one.call, one.outcome) == (Call.RENEW, Outcome.ABORTED)


@pytest.mark.parametrize("call", [Call.COMMIT, Call.ABORT])
def test_a_transaction_that_took_too_long_is_survived(call: Call) -> None:
    one = errand(call)
    assert refuse(one, errors.ProducerFencedError) is None
    assert one.call is Call.ASK
    assert describe(one, "PrepareAbort", epoch=8) is Verdict.RETRY
    assert describe(one, "CompleteAbort", epoch=8) is None
    assert (one.call, one.outcome) == (Call.RENEW, Outcome.ABORTED)
    request, _ = one.request(VERSIONS)
    assert isinstance(request, InitProducerIdRequest)
    assert request.producer_epoch == 8, "so that a rival who comes now is not fenced"


@pytest.mark.parametrize("state", ["CompleteCommit", "CompleteAbort", "Ongoing", "Empty"])
@pytest.mark.parametrize("v2", [False, True])
def test_a_coordinator_that_knows_this_very_epoch_knows_no_rival(state: str, v2: bool) -> None:
    one = errand(Call.ABORT, v2=v2)
    refuse(one, errors.ProducerFencedError)
    assert describe(one, "PrepareCommit") is Verdict.RETRY
    assert describe(one, state) is None
    assert (one.call, one.outcome) == (Call.RENEW, Outcome.ABORTED)
    request, _ = one.request(VERSIONS)
    assert isinstance(request, InitProducerIdRequest)
    assert (request.producer_id, request.producer_epoch) == (100, 7), "so that a rival is found out"


def test_an_epoch_whose_assignment_was_lost_with_the_coordinator_is_no_rival_s() -> None:
    """Coordinators do not store for which epoch they have assigned the next one."""
    one = errand(Call.RENEW)
    one.lost()
    refuse(one, errors.ProducerFencedError)
    assert describe(one, "Empty", epoch=8) is None
    request, _ = one.request(VERSIONS)
    assert isinstance(request, InitProducerIdRequest)
    assert request.producer_epoch == 8
    one.answered(InitProducerIdResponse(producer_id=100, producer_epoch=9))
    assert (one.call, one.epoch) == (None, 9)


def test_a_coordinator_that_refuses_the_epoch_that_it_knows_is_not_asked_without_end() -> None:
    one = errand(Call.RENEW)
    for _ in range(3):
        assert refuse(one, errors.ProducerFencedError) is None
        assert describe(one, "Empty") is None
        assert refuse(one, errors.ProducerFencedError) is Verdict.RETRY, "after a wait"
    refuse(one, errors.ProducerFencedError)
    describe(one, "Empty", epoch=8)
    assert one.fenced


@pytest.mark.parametrize(
    ("state", "producer_id", "epoch"),
    [("Empty", 100, 8), ("Ongoing", 100, 8), ("CompleteAbort", 100, 9), ("CompleteAbort", 200, 8), ("Empty", 200, 0)],
)
@pytest.mark.parametrize("call", [Call.COMMIT, Call.ABORT, Call.RENEW])
def test_a_rival_is_final(call: Call, state: str, producer_id: int, epoch: int) -> None:
    one = errand(call)
    refuse(one, errors.ProducerFencedError)
    assert describe(one, state, producer_id, epoch) is None
    assert one.call is None
    assert one.fenced
    assert isinstance(one.refusal, errors.ProducerFencedError)
    assert one.outcome is (None if call is Call.RENEW else Outcome.ABORTED)


@pytest.mark.parametrize(("state", "epoch"), [("Ongoing", 8), ("CompleteCommit", 8), ("Empty", 9)])
@pytest.mark.parametrize("v2", [False, True])
def test_a_rival_after_a_commit_without_an_answer_leaves_its_outcome_unknown(state: str, epoch: int, v2: bool) -> None:
    one = errand(Call.COMMIT, v2=v2)
    one.lost()
    refuse(one, errors.ProducerFencedError)
    describe(one, state, 100, epoch)
    assert one.fenced
    assert one.outcome is Outcome.UNKNOWN
    assert "may have been committed" in str(one.refusal)


def test_a_rival_that_has_only_begun_shows_that_the_commit_without_an_answer_took_place() -> None:
    """This does not hold with KIP-890, where the next epoch may follow a commit or an abort."""
    for v2, outcome in ((False, Outcome.COMMITTED), (True, Outcome.UNKNOWN)):
        one = errand(Call.COMMIT, v2=v2)
        one.lost()
        refuse(one, errors.ProducerFencedError)
        describe(one, "Empty", 100, 8)
        assert one.fenced
        assert one.outcome is outcome


@pytest.mark.parametrize(
    ("state", "outcome"),
    [("CompleteCommit", Outcome.COMMITTED), ("CompleteAbort", Outcome.ABORTED), ("Empty", Outcome.COMMITTED)],
)
def test_without_kip_890_a_refusal_after_a_lost_answer_is_looked_into(state: str, outcome: Outcome) -> None:
    """A late InitProducerId leaves only an empty state after a commit; its abort has another epoch."""
    one = errand(Call.COMMIT)
    one.lost()
    assert refuse(one, errors.InvalidTxnStateError) is None
    assert one.call is Call.ASK
    assert describe(one, state) is None
    assert (one.call, one.outcome) == (Call.RENEW, outcome)


def test_a_commit_without_an_answer_is_asked_for_until_its_outcome_is_known() -> None:
    one = errand(Call.COMMIT)
    assert one.failed(errors.TransactionalIdAuthorizationFailedError()) is None
    assert isinstance(one.refusal, errors.TransactionalIdAuthorizationFailedError)
    other = errand(Call.COMMIT)
    other.lost()
    assert other.failed(errors.TransactionalIdAuthorizationFailedError()) is Verdict.RETRY
    assert other.call is Call.COMMIT


def test_an_id_that_has_expired_starts_anew() -> None:
    one = errand(Call.ABORT)
    refuse(one, errors.InvalidProducerIdMappingError)
    assert refuse(one, errors.TransactionalIdNotFoundError) is None
    assert (one.call, one.outcome) == (Call.START, Outcome.ABORTED)
    request, _ = one.request(VERSIONS)
    assert isinstance(request, InitProducerIdRequest)
    assert request.producer_id == -1


def test_a_broker_that_cannot_describe_transactions_is_believed() -> None:
    one = errand(Call.ABORT)
    refuse(one, errors.ProducerFencedError)
    with pytest.raises(errors.UnsupportedVersionError) as caught:
        one.request(OLD_VERSIONS)
    one.failed(caught.value)
    assert one.fenced

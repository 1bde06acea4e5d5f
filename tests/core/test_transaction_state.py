"""Phases of a transactional producer: random walks through the table, and the origin of the version."""

from __future__ import annotations

import random

import pytest

from aiokafka_lead import errors
from aiokafka_lead._core.transactions import state as transaction_state
from aiokafka_lead._core.transactions.errand import Errand, Outcome, TransactionVersion
from aiokafka_lead._core.transactions.state import OpenTransaction, Phase, TransactionState
from aiokafka_lead._core.transactions.verdicts import Call
from aiokafka_lead._wire import ApiVersions
from aiokafka_lead._wire.messages.describe_transactions import DescribeTransactionsResponse
from aiokafka_lead._wire.messages.describe_transactions import TransactionState as Described
from aiokafka_lead._wire.messages.end_txn import EndTxnResponse
from aiokafka_lead._wire.messages.init_producer_id import InitProducerIdResponse

from .test_transitions import pairs, taken

WALKS = 400
STEPS = 60
REFUSALS = (
    errors.ConcurrentTransactionsError,
    errors.InvalidProducerIdMappingError,
    errors.InvalidTransactionTimeoutError,
    errors.InvalidTxnStateError,
    errors.ProducerFencedError,
    errors.TransactionAbortableError,
    errors.TransactionalIdAuthorizationFailedError,
    errors.UnknownProducerIdError,
)


class Walk:
    """A producer that receives any call that its phase allows, and any answer."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.state = TransactionState("payments", 60_000)
        self.errand: Errand | None = None

    def step(self) -> None:
        if self.errand is not None:
            self.answer(self.errand)
            return
        state, rng = self.state, self.rng
        now: Phase = state.phase
        match now:
            case Phase.NEW:
                if rng.random() < 0.1:
                    state.resume(OpenTransaction("payments", 5, 3, version=rng.randrange(1, 3), begun=True), 0.0)
                else:
                    self.errand = state.start()
            case Phase.READY:
                if rng.random() < 0.1:
                    self.errand = rng.choice((state.start, state.renewal))()
                else:
                    state.begin(rng.random() < 0.5, 0.0)
                    state.touched = rng.random() < 0.9
                    state.renew = rng.random() < 0.2
            case Phase.OPEN:
                act = rng.choice((state.commit, state.abort, self.fail))
                act()
                if state.phase in (Phase.COMMITTING, Phase.ABORTING):
                    if rng.random() < 0.1 and state.phase is Phase.COMMITTING:
                        self.fail()  # a record still in flight
                    elif rng.random() < 0.02 and state.phase is Phase.COMMITTING:
                        state.hand_over()
                    elif rng.random() < 0.1 and state.phase is Phase.COMMITTING:
                        state.store()
                    else:
                        self.errand = state.end()
            case Phase.STORED:
                act = rng.choice((state.commit, state.abort, self.fail))
                act()
                self.errand = state.end() if state.phase in (Phase.COMMITTING, Phase.ABORTING) else None
            case Phase.FAILED:
                assert not state.fail(errors.InvalidRecordError()), "it has failed already"
                state.abort()
                self.errand = state.end()
            case Phase.HANDED_OVER:
                with pytest.raises(errors.IllegalStateError, match="handed over"):
                    state.check_begin()
            case Phase.FENCED:
                with pytest.raises(errors.ProducerFencedError):
                    state.check_begin()

    def fail(self) -> None:
        assert self.state.fail(errors.InvalidRecordError())

    def answer(self, errand: Errand) -> None:
        if errand.call is Call.ASK:
            found = Described(
                transactional_id="payments",
                transaction_state=self.rng.choice(("CompleteAbort", "Empty", "PrepareAbort")),
                producer_id=errand.producer_id,
                producer_epoch=errand.epoch + self.rng.randrange(3),
            )
            verdict = errand.answered(DescribeTransactionsResponse(transaction_states=[found]))
        elif self.rng.random() < 0.4:
            verdict = errand.failed(self.rng.choice(REFUSALS)())
        elif errand.call in (Call.COMMIT, Call.ABORT):
            verdict = errand.answered(EndTxnResponse(producer_id=errand.producer_id, producer_epoch=errand.epoch + 1))
        else:
            verdict = errand.answered(InitProducerIdResponse(producer_id=5, producer_epoch=errand.epoch + 1))
        if verdict is None:
            self.state.advanced(errand)
            if errand.call is None:
                self.errand = None
                self.check(errand)

    def check(self, errand: Errand) -> None:
        """Check invariants after an errand."""
        state = self.state
        assert state.phase in (Phase.READY, Phase.NEW, Phase.FAILED, Phase.FENCED)
        if state.phase is Phase.READY:
            assert (state.producer_id, state.epoch) == (errand.producer_id, errand.epoch)
            assert not state.renew
        if errand.outcome is Outcome.COMMITTED:
            assert state.fate.outcome is Outcome.COMMITTED


def test_a_walk_takes_each_transition_and_none_beside_them() -> None:
    with taken(transaction_state.TRANSITIONS) as found:
        for seed in range(WALKS):
            walk = Walk(random.Random(seed))
            for _ in range(STEPS):
                walk.step()
    assert found == pairs(transaction_state.TRANSITIONS)


def ready() -> TransactionState:
    state = TransactionState("payments", 60_000)
    errand = state.start()
    errand.answered(InitProducerIdResponse(producer_id=5, producer_epoch=0))
    state.advanced(errand)
    return state


def test_sends_belong_to_their_own_transaction() -> None:
    state = ready()
    with pytest.raises(errors.IllegalStateError, match="no transaction is open"):
        state.check_open(0)
    state.begin(True, 0.0)
    state.check_open(1)
    with pytest.raises(errors.IllegalStateError, match="no transaction is open"):
        state.check_open(0)
    state.fail(errors.InvalidRecordError())
    with pytest.raises(errors.TransactionAbortedError):
        state.check_open(1)
    with pytest.raises(errors.IllegalStateError, match="no transaction is open"):
        state.check_open(2)
    state.abort()
    with pytest.raises(errors.IllegalStateError, match="is being ended"):
        state.check_open(1)


def test_health() -> None:
    state = ready()
    assert state.health(10.0).age_ms is None
    state.begin(True, 10.0)
    assert state.health(39.0).age_ms == 29_000
    assert not state.health(39.0).late
    assert state.health(41.0).late
    assert state.health(41.0).version == 2


def offer(level: int | None, epoch: int, *, produce: int = 13, end: int = 5, offsets: int = 5) -> ApiVersions:
    features = {} if level is None else {"transaction.version": level}
    ranges = {0: (3, produce), 26: (0, end), 28: (0, offsets)}
    return ApiVersions(ranges, finalized_features=features, finalized_features_epoch=epoch)


@pytest.mark.parametrize(
    ("offers", "v2"),
    [
        ([offer(2, 5)], True),
        ([offer(1, 5)], False),
        ([offer(0, 5)], False),
        ([offer(None, 5)], False),
        ([], False),
        ([offer(1, 5), offer(2, 6)], True),
        ([offer(2, 5), offer(1, 6)], False),
        ([offer(2, 5, produce=11)], False),
        ([offer(2, 5, end=4)], False),
        ([offer(2, 5, offsets=4)], False),
        ([offer(2, 5), offer(2, 5, produce=11)], False),
    ],
)
def test_the_newest_word_on_the_feature_counts_and_versions_must_allow_it(offers: list[ApiVersions], v2: bool) -> None:
    assert TransactionVersion().v2(offers) is v2


def test_an_older_word_does_not_undo_a_newer_one() -> None:
    version = TransactionVersion()
    assert version.v2([offer(2, 6)])
    assert version.v2([offer(1, 5)])
    assert not version.v2([offer(1, 7)])

"""Sequences and partitions of a transactional producer: batches that may leave, and failures of a transaction."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead._core.producer.delivery import Delivery
from aiokafka_lead._core.producer.transactional import TOUCHES_APART_S, TransactionalSequencing
from aiokafka_lead.errors import (
    BrokerError,
    ClusterIdMismatchError,
    ConcurrentTransactionsError,
    KafkaError,
    OutOfOrderSequenceNumberError,
    TransactionAbortedError,
    UnknownProducerIdError,
)
from tests.core.producer_sim import ProducerSim


class TransactionalSim(ProducerSim):
    """A simulation with transactions that the test begins, and a record of failures."""

    def __init__(self, *, v2: bool, **options: Any) -> None:
        options = {"linger_ms": 0, "retry_backoff_ms": 10, "partitions": 4, "brokers": 2, **options}
        super().__init__(transactional_id="sim", **options)
        assert self.accumulator.transactional is not None
        self.transactional: TransactionalSequencing = self.accumulator.transactional
        self.failures: list[KafkaError] = []
        self.transactional.on_failure = self.failures.append
        self.v2 = v2
        self.begin(1, 0)

    def begin(self, number: int, epoch: int) -> None:
        self.transactional.begin(number, 1000, epoch, self.v2)

    def add_wanted(self) -> list[int]:
        """Answer AddPartitionsToTxn."""
        queues = list(self.transactional.wanted)
        for queue in queues:
            self.transactional.added(queue)
            self.accumulator.schedule.evaluate(queue, self.now)
        return [queue.partition for queue in queues]

    def each(self, value: bytes = b"v") -> list[Delivery]:
        """Send one record to each partition."""
        return [self.send(value, partition=partition) for partition in range(len(self.partitions))]

    def unanswered(self) -> bool:
        """Return True if an answer is due."""
        return self.accumulator.unanswered

    def requests(self) -> list[tuple[int, list[int]]]:
        """Return brokers and partitions of the requests so far, in order."""
        found: dict[tuple[float, int], list[int]] = {}
        for at, node_id, batch in self.sent:
            found.setdefault((at, node_id), []).append(batch.queue.partition)
        return [(node_id, partitions) for (_, node_id), partitions in found.items()]


def test_before_kip_890_a_batch_waits_until_the_coordinator_knows_its_partition() -> None:
    sim = TransactionalSim(v2=False)
    deliveries = sim.each()
    sim.run(1)
    assert sim.sent == []
    assert sim.add_wanted() == [0, 1, 2, 3]
    sim.run_until_done(deliveries)
    sim.run_until_done(sim.each())
    assert not sim.transactional.wanted, "it knows them all"
    sim.begin(2, 0)
    later = sim.each()
    sim.run(1)
    assert not any(delivery.done() for delivery in later)
    assert sim.add_wanted() == [0, 1, 2, 3]
    sim.run_until_done(later)
    assert [state.producers[1000].last_sequence for state in sim.partitions] == [2] * 4, "sequences go on"


def test_with_kip_890_brokers_get_first_requests_one_after_the_other() -> None:
    """Broker 0 leads partitions 0 and 2, broker 1 leads 1 and 3."""
    sim = TransactionalSim(v2=True)
    began_at = sim.now
    deliveries = [sim.send(b"a", partition=0)]
    sim.run(0.0005)
    deliveries += sim.each()
    sim.run(0.0005)
    assert sim.requests() == [(0, [0])], "all others wait for the answer about partition 0"
    sim.run_until_done(deliveries)
    assert sim.now < began_at + TOUCHES_APART_S, "a response lets the next one go"
    first, *others = sim.requests()
    assert first == (0, [0])
    assert sorted((node_id, sorted(partitions)) for node_id, partitions in others) == [(0, [0, 2]), (1, [1, 3])]
    assert len({at for at, _, _ in sim.sent}) == 3, "not at the same time either"
    sim.sent.clear()
    again = sim.each()
    sim.run(0.0005)
    again += sim.each()
    sim.run(0.0005)
    assert len(sim.sent) == 8, "all are part of the transaction, and nothing waits any more"
    sim.run_until_done(again)
    assert sim.failures == []


@pytest.mark.parametrize("v2", [False, True])
def test_a_partition_whose_leader_moves_waits_for_the_old_one_s_answer(v2: bool) -> None:
    """The new leader might receive the second batch before the first, which the old leader refuses."""
    sim = TransactionalSim(v2=v2, partitions=1)
    first = sim.send(b"a", partition=0)
    sim.add_wanted()
    sim.run_until_done([first])
    sim.latency = (0.05, 0.05)
    deliveries = [sim.send(b"b", partition=0)]
    sim.run(0.01)
    sim.move(0)
    sim.refresh()
    deliveries.append(sim.send(b"c", partition=0))
    sim.run(0.06)
    assert [node_id for node_id, _ in sim.requests()] == [0, 0], "its answer is on the way"
    sim.run_until_done(deliveries)
    assert sim.partitions[0].log == [b"a", b"b", b"c"]
    assert sim.failures == []


def test_what_was_sent_in_time_is_not_looked_at_again() -> None:
    sim = TransactionalSim(v2=True)
    sim.run_until_done(sim.each())
    assert len(sim.requests()) == 2, "one of them waited for the other"
    due = sim.accumulator.schedule.next_at()
    assert due is None or due > sim.now + TOUCHES_APART_S


def test_a_broker_that_is_slow_to_answer_holds_up_the_others_for_a_moment_only() -> None:
    sim = TransactionalSim(v2=True)
    sim.latency = (0.3, 0.3)
    deliveries = sim.each()
    sim.run(TOUCHES_APART_S * 0.9)
    assert [node_id for node_id, _ in sim.requests()] == [0]
    sim.run(TOUCHES_APART_S * 0.2)
    assert [node_id for node_id, _ in sim.requests()] == [0, 1]
    sim.run_until_done(deliveries)
    assert sim.failures == []


def test_first_requests_wait_while_they_are_held() -> None:
    sim = TransactionalSim(v2=True)
    asked: list[None] = []
    sim.transactional.on_wanted = lambda: asked.append(None)
    sim.transactional.begin(2, 1000, 1, True, held=True)
    deliveries = sim.each()
    sim.run(1)
    assert asked
    assert sim.sent == []
    for queue in sim.transactional.release():
        sim.accumulator.schedule.evaluate(queue, sim.now)
    sim.run_until_done(deliveries)
    assert sim.failures == []


def test_first_requests_are_repeated_one_at_a_time_while_the_transaction_before_is_being_ended() -> None:
    sim = TransactionalSim(v2=True, brokers=1)
    refusals = 9

    def refuse(request: object, batch: object) -> int | None:
        nonlocal refusals
        refusals -= 1
        return ConcurrentTransactionsError.code if refusals >= 0 else None

    sim.faults.append(refuse)
    deliveries = sim.each()
    sim.run_until_done(deliveries)
    assert sim.now < 1.2
    assert sim.failures == []
    together = [len(partitions) for _, partitions in sim.requests()]
    assert together[0] == 4, "all that were ready went together"
    assert sum(together) == 4 + 9


def test_each_epoch_begins_with_sequence_0() -> None:
    sim = TransactionalSim(v2=True)
    for number in range(1, 4):
        sim.begin(number, number)
        sim.run_until_done(sim.each())
        sim.run_until_done(sim.each())
        assert [(p.producers[1000].epoch, p.producers[1000].last_sequence) for p in sim.partitions] == [(number, 1)] * 4
    assert sim.failures == []


@pytest.mark.parametrize("error", [OutOfOrderSequenceNumberError, UnknownProducerIdError])
def test_what_would_start_the_sequences_over_fails_the_transaction(error: type[BrokerError]) -> None:
    sim = TransactionalSim(v2=True, brokers=1, partitions=1)
    sim.faults.append(lambda request, batch: error.code)
    delivery = sim.send(b"a", partition=0)
    sim.run_until_done([delivery])
    assert [type(failure) for failure in sim.failures] == [error]
    assert sim.transactional.gap
    sim.transactional.end()
    sim.faults.clear()
    sim.begin(2, 1)
    later = sim.send(b"b", partition=0)
    sim.run_until_done([later])
    assert sim.partitions[0].log == [b"b"]
    assert len(sim.failures) == 1


def test_a_late_answer_to_an_aborted_batch_does_not_touch_the_next_transaction() -> None:
    sim = TransactionalSim(v2=True, brokers=1, partitions=1)
    sim.latency = (0.05, 0.05)
    aborted = sim.send(b"a", partition=0)
    sim.run(0.01)
    sim.transactional.end()
    sim.answers.abort(lambda fate: TransactionAbortedError(fate), sim.now)
    assert aborted.done()
    assert sim.unanswered()
    sim.begin(2, 1)
    later = [sim.send(b"%d" % number, partition=0) for number in range(3)]
    sim.run_until_done(later)
    assert not sim.unanswered()
    state = sim.partitions[0].producers[1000]
    assert (state.epoch, state.last_sequence) == (1, 2)
    assert sim.partitions[0].log == [b"a", b"0", b"1", b"2"], "the first of them is one that is aborted"


def test_nothing_leaves_outside_of_a_transaction() -> None:
    sim = TransactionalSim(v2=True)
    sim.transactional.end()
    sim.each()
    sim.run(1)
    assert sim.sent == []


def test_another_cluster_fails_the_transaction() -> None:
    sim = TransactionalSim(v2=True)
    sim.transactional.forget_producer_id()
    assert [type(failure) for failure in sim.failures] == [ClusterIdMismatchError]
    sim.each()
    sim.run(1)
    assert sim.sent == []

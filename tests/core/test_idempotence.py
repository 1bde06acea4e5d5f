"""Sequences: the permitted successors of each, answer by answer."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead._core.producer.batches import ProducerBatch
from aiokafka_lead._core.producer.delivery import Delivery
from aiokafka_lead._core.producer.idempotence import sequence_after
from aiokafka_lead.errors import (
    DeliveryTimeoutError,
    InvalidProducerEpochError,
    InvalidRecordError,
    MessageTooLargeError,
)
from tests.core.producer_sim import ProducerSim, SimRequest
from tests.simulated.codes import (
    INVALID_PRODUCER_EPOCH,
    NOT_LEADER_OR_FOLLOWER,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    REQUEST_TIMED_OUT,
)

LAST = 2**31 - 1


def pipelined(sim: ProducerSim) -> None:
    """Let the leader know the producer, so that several requests may be in flight."""
    sim.run_until_done([sim.send(b"warm-up", partition=0)])


def restarts(sim: ProducerSim) -> int:
    """Return the number of times that partitions restarted under a new epoch."""
    assert sim.accumulator.identity is not None
    return sim.accumulator.identity.restarts


def one_by_one(sim: ProducerSim, values: list[bytes]) -> list[Delivery]:
    """Send each record in its own batch (with batch_size 1)."""
    return [sim.send(value, partition=0) for value in values]


def sim_with_small_batches(**options: Any) -> ProducerSim:
    return ProducerSim(linger_ms=0, batch_size=1, retry_backoff_ms=10, **options)


def test_sequences_wrap_after_int32() -> None:
    assert sequence_after(0, 5) == 5
    assert sequence_after(LAST, 1) == 0
    assert sequence_after(LAST - 2, 5) == 2


def test_sequences_wrap_without_a_gap() -> None:
    sim = ProducerSim(linger_ms=0)
    pipelined(sim)
    queue = sim.accumulator.topics["events"].queue(0)
    state = sim.partitions[0].producers[1000]
    queue.next_sequence = queue.acked_sequence = LAST - 1
    state.last_sequence = LAST - 2
    deliveries = [sim.send(b"%d" % number, partition=0) for number in range(5)]
    sim.run_until_done(deliveries)
    more = [sim.send(b"more", partition=0)]
    sim.run_until_done(more)
    assert restarts(sim) == 0
    assert state.last_sequence == 3
    assert queue.next_sequence == queue.acked_sequence == 4
    assert [delivery.result().offset for delivery in deliveries + more] == [1, 2, 3, 4, 5, 6]


def test_first_batch_goes_alone_until_the_leader_is_known_to_know_us() -> None:
    sim = sim_with_small_batches()
    deliveries = one_by_one(sim, [b"a", b"b", b"c", b"d"])
    sim.run(0.0005)
    assert len(sim.sent) == 1
    sim.run_until_done(deliveries)
    one_by_one(sim, [b"e", b"f", b"g", b"h"])
    sim.run(0.0005)
    assert len(sim.sent) == 8


def test_at_most_max_in_flight_and_in_order() -> None:
    sim = sim_with_small_batches()
    pipelined(sim)
    deliveries = one_by_one(sim, [b"%d" % number for number in range(12)])
    sim.run(0.0005)
    assert len(sim.sent) == 1 + 5
    sim.run_until_done(deliveries)
    assert [delivery.result().offset for delivery in deliveries] == list(range(1, 13))


def test_rule_14_a_refused_batch_is_sent_again_before_those_behind_it() -> None:
    sim = sim_with_small_batches()
    pipelined(sim)
    refused: list[object] = []

    def refuse_first(request: object, batch: object) -> int | None:
        if not refused:
            refused.append(batch)
            return NOT_LEADER_OR_FOLLOWER
        return None

    sim.faults.append(refuse_first)
    deliveries = one_by_one(sim, [b"0", b"1", b"2", b"3", b"4"])
    sim.run_until_done(deliveries)
    # All five were sent; the last four were refused as out of order; then each was resent in turn.
    again = [batch.base_sequence for _, _, batch in sim.sent[6:]]
    assert again[:2] == [1, 2]
    assert again == sorted(again)
    assert sim.partitions[0].log[1:] == [b"0", b"1", b"2", b"3", b"4"]
    assert restarts(sim) == 0


def test_only_the_first_in_line_decides_that_there_is_a_gap() -> None:
    sim = sim_with_small_batches()
    pipelined(sim)
    sim.partitions[0].log.clear()
    sim.partitions[0].producers[1000].last_sequence = -1  # the log lost the first record
    sim.partitions[0].producers[1000].recent.clear()
    deliveries = one_by_one(sim, [b"0", b"1", b"2"])
    sim.run_until_done(deliveries)
    assert restarts(sim) == 1
    assert sim.partitions[0].log == [b"0", b"1", b"2"]
    assert sim.partitions[0].producers[1000].epoch == 1


def test_a_batch_in_doubt_behind_a_gap_is_written_under_a_new_epoch() -> None:
    sim = sim_with_small_batches()
    pipelined(sim)
    attempts = []

    def forget_the_producer(request: SimRequest, batch: ProducerBatch) -> int | None:
        attempts.append(batch)
        if len(attempts) > 1:
            return None
        sim.partitions[0].producers[1000].last_sequence = -1
        sim.partitions[0].producers[1000].recent.clear()
        return REQUEST_TIMED_OUT

    sim.faults.append(forget_the_producer)
    sim.run_until_done(one_by_one(sim, [b"0"]))
    assert sim.partitions[0].log == [b"warm-up", b"0"]
    assert restarts(sim) == 1


def test_lasting_error_makes_those_behind_start_over() -> None:
    sim = sim_with_small_batches()
    pipelined(sim)
    sim.faults.append(lambda request, batch: 87 if batch.ordinal == 3 else None)
    deliveries = one_by_one(sim, [b"0", b"1", b"2", b"3"])
    sim.run_until_done(deliveries)
    with pytest.raises(InvalidRecordError):
        deliveries[1].result()
    assert sim.partitions[0].log == [b"warm-up", b"0", b"2", b"3"]
    assert restarts(sim) == 1


def test_batch_in_doubt_before_a_lasting_error_keeps_its_sequence() -> None:
    """A batch that may be in the log must not be written again under another sequence."""
    sim = sim_with_small_batches()
    pipelined(sim)
    first, second = one_by_one(sim, [b"0", b"1"])
    sim.run(0.0011)  # both are appended, the answers are in flight
    assert sim.partitions[0].log == [b"warm-up", b"0", b"1"]
    sim.disconnect(0)
    sim.faults.append(lambda request, batch: 87 if batch.ordinal == 3 else None)
    sim.run_until_done([first, second])
    assert first.result().offset == 1
    with pytest.raises(InvalidRecordError):
        second.result()
    sim.run_until_done(one_by_one(sim, [b"2"]))
    assert sim.partitions[0].log == [b"warm-up", b"0", b"1", b"2"]


def test_expired_batch_in_doubt_that_was_written_needs_no_new_epoch() -> None:
    sim = sim_with_small_batches(delivery_timeout_ms=100, request_timeout_ms=50)
    sim.latency = (0.06, 0.06)
    warm = sim.send(b"warm-up", partition=0)
    sim.run(0.2)
    with pytest.raises(DeliveryTimeoutError, match="may have been written"):
        warm.result()
    sim.latency = (0.001, 0.001)
    sim.run_until_done([sim.send(b"next", partition=0)])
    assert sim.partitions[0].log == [b"warm-up", b"next"]
    assert restarts(sim) == 0


def test_an_expired_batch_in_doubt_before_one_that_was_written_needs_no_new_epoch() -> None:
    """A broker appends only what follows, so the first was written, too."""
    sim = sim_with_small_batches(delivery_timeout_ms=100, request_timeout_ms=90)
    pipelined(sim)

    def write_and_fail(request: SimRequest, batch: ProducerBatch) -> int | None:
        if batch.ordinal != 2:
            return None
        sim.partitions[0].append(*(raw for other, raw in request.batches if other is batch))
        return REQUEST_TIMED_OUT

    sim.faults.append(write_and_fail)
    sim.latency = (0.0485, 0.0485)
    first = sim.send(b"0", partition=0)
    sim.run(0.02)
    second = sim.send(b"1", partition=0)
    sim.run_until_done([first, second])
    with pytest.raises(DeliveryTimeoutError, match="may have been written"):
        first.result()
    sim.run_until_done([sim.send(b"2", partition=0)])
    assert sim.partitions[0].log == [b"warm-up", b"0", b"1", b"2"]
    assert restarts(sim) == 0


def test_expired_batch_in_doubt_that_was_not_written_is_fenced_off() -> None:
    sim = sim_with_small_batches(delivery_timeout_ms=100, request_timeout_ms=50, retry_backoff_max_ms=10)
    pipelined(sim)
    sim.faults.append(lambda request, batch: REQUEST_TIMED_OUT if sim.now < 1.2 else None)
    lost = one_by_one(sim, [b"0", b"1"])
    sim.run(0.3)
    for delivery in lost:
        with pytest.raises(DeliveryTimeoutError):
            delivery.result()
    sim.run_until_done([sim.send(b"next", partition=0)])
    assert sim.partitions[0].log == [b"warm-up", b"next"]
    assert sim.partitions[0].producers[1000].epoch == 1


def test_epochs_that_are_used_up_need_another_producer_id() -> None:
    sim = sim_with_small_batches()
    pipelined(sim)
    queue = sim.accumulator.topics["events"].queue(0)
    queue.producer_epoch = 2**15 - 1
    sim.partitions[0].producers[1000].epoch = 2**15 - 1
    sim.faults.append(lambda request, batch: 87 if batch.ordinal == 2 else None)
    failed = sim.send(b"0", partition=0)
    sim.run_until_done([failed])
    assert sim.accumulator.identity is not None
    assert sim.accumulator.identity.producer_id == -1
    waiting = sim.send(b"1", partition=0)
    sim.run(0.5)
    assert not waiting.done()
    sim.accumulator.on_producer_id(2000, 0, sim.now)
    sim.run_until_done([waiting])
    assert sim.partitions[0].producers[2000].last_sequence == 0


def test_a_broker_with_one_epoch_for_all_partitions_gets_another_producer_id() -> None:
    """After a restart in one partition, such a broker refuses the former epoch in the others."""
    sim = sim_with_small_batches(partitions=2)
    sim.run_until_done([sim.send(b"warm-up", partition=number) for number in range(2)])
    latest = 0

    def refusal(request: SimRequest, batch: ProducerBatch) -> int | None:
        nonlocal latest
        if batch.builder.size_bytes > 1000:
            return 87
        if batch.producer_id == 1000:
            latest = max(latest, batch.producer_epoch)
        return INVALID_PRODUCER_EPOCH if batch.producer_id == 1000 and batch.producer_epoch < latest else None

    sim.faults.append(refusal)
    sim.run_until_done([sim.send(b"x" * 1000, partition=0)])
    sim.run_until_done([sim.send(b"0", partition=0)])
    assert latest == 1
    waiting = [sim.send(b"%d" % number, partition=1) for number in range(3)]
    sim.run(0.5)
    assert sim.accumulator.identity is not None
    assert sim.accumulator.identity.producer_id == -1
    assert not any(delivery.done() for delivery in waiting)
    sim.accumulator.on_producer_id(2000, 0, sim.now)
    sim.run_until_done([*waiting, sim.send(b"1", partition=0)])
    assert [delivery.result().offset for delivery in waiting] == [1, 2, 3]
    assert sim.partitions[0].log == [b"warm-up", b"0", b"1"]
    assert sim.partitions[1].log == [b"warm-up", b"0", b"1", b"2"]


def test_a_batch_in_doubt_is_not_written_under_another_producer_id() -> None:
    sim = sim_with_small_batches()
    pipelined(sim)
    codes = [REQUEST_TIMED_OUT, INVALID_PRODUCER_EPOCH]
    sim.faults.append(lambda request, batch: codes.pop(0) if batch.ordinal == 2 and codes else None)
    fenced, following = one_by_one(sim, [b"0", b"1"])
    sim.run_until_done([fenced, following])
    with pytest.raises(InvalidProducerEpochError):
        fenced.result()
    assert sim.partitions[0].log == [b"warm-up", b"1"]


def test_out_of_order_for_ever_is_bounded_by_the_delivery_timeout() -> None:
    sim = sim_with_small_batches(delivery_timeout_ms=3000, request_timeout_ms=50)
    pipelined(sim)
    sim.faults.append(lambda request, batch: OUT_OF_ORDER_SEQUENCE_NUMBER)
    delivery = sim.send(b"0", partition=0)
    sim.run(4)
    with pytest.raises(DeliveryTimeoutError, match="OutOfOrderSequenceNumberError"):
        delivery.result()
    assert len(sim.sent) < 15


def test_split_batch_takes_over_the_sequences() -> None:
    sim = ProducerSim(linger_ms=5)
    pipelined(sim)
    sim.faults.append(lambda request, batch: 10 if batch.builder.record_count > 3 else None)
    deliveries = [sim.send(b"%d" % number, partition=0) for number in range(20)]
    sim.run_until_done(deliveries)
    assert [delivery.result().offset for delivery in deliveries] == list(range(1, 21))
    assert sim.partitions[0].log == [b"warm-up", *[b"%d" % number for number in range(20)]]
    assert sim.accumulator.memory.used == 0
    assert restarts(sim) == 0


def test_single_record_that_is_too_large_fails() -> None:
    sim = ProducerSim(linger_ms=0)
    sim.faults.append(lambda request, batch: 10)
    delivery = sim.send(b"0", partition=0)
    sim.run_until_done([delivery])
    with pytest.raises(MessageTooLargeError):
        delivery.result()


def test_pieces_of_a_batch_that_may_be_in_the_log_are_not_written_again() -> None:
    """Found by seeded runs: the batch was appended, its answer was lost, and the retry was refused for its size."""
    sim = ProducerSim(linger_ms=5)
    pipelined(sim)
    deliveries = [sim.send(b"%d" % number, partition=0) for number in range(4)]
    sim.run(0.0061)
    assert len(sim.partitions[0].log) == 5
    sim.disconnect(0)
    sim.faults.append(lambda request, batch: 10 if batch.builder.record_count > 2 else None)
    sim.run_until_done(deliveries)
    assert len(sim.partitions[0].log) == 5
    sim.run_until_done([sim.send(b"next", partition=0)])
    assert sim.partitions[0].log[-1] == b"next"


def test_batch_that_a_later_one_proves_written_is_acknowledged() -> None:
    """The broker's memory of five batches no longer has it, but a later batch was acknowledged."""
    sim = sim_with_small_batches()
    pipelined(sim)
    delivery = sim.send(b"0", partition=0)
    sim.run(0.0005)
    batch = sim.sent[-1][2]
    batch.queue.acked_sequence = 5
    sim.faults.append(lambda request, batch: OUT_OF_ORDER_SEQUENCE_NUMBER)
    sim.run_until_done([delivery])
    assert delivery.result().offset == -1


def test_another_cluster_needs_another_producer_id() -> None:
    sim = ProducerSim(linger_ms=0)
    pipelined(sim)
    assert sim.accumulator.identity is not None
    assert sim.accumulator.identity.producer_id == 1000
    other = sim.snapshot
    other.cluster_id = "other"
    sim.accumulator.on_snapshot(other, sim.now)
    assert sim.accumulator.identity.producer_id == -1

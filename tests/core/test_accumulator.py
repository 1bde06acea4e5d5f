"""Batches: opening, closing, becoming ready, draining; and their memory."""

from __future__ import annotations

from itertools import groupby

import pytest

from aiokafka_lead._core.metadata.types import ClusterSnapshot
from aiokafka_lead._core.producer.batches import Record
from aiokafka_lead._core.producer.buffer_memory import BufferMemory
from aiokafka_lead._core.producer.delivery import new_delivery
from aiokafka_lead._records.encoder import BatchBuilder
from aiokafka_lead.errors import DeliveryTimeoutError, MessageTooLargeError
from tests.core.producer_sim import TOPIC, ProducerSim
from tests.simulated.codes import MESSAGE_TOO_LARGE


def test_batch_waits_for_linger_ms() -> None:
    sim = ProducerSim(linger_ms=20)
    sim.send(b"a", partition=0)
    sim.run(0.010)
    sim.send(b"b", partition=0)
    sim.run(0.009)
    assert sim.sent == []
    sim.run(0.002)
    assert [batch.builder.record_count for _, _, batch in sim.sent] == [2]
    assert sim.sent[0][0] == pytest.approx(1.020)


def test_full_batch_does_not_wait() -> None:
    sim = ProducerSim(linger_ms=1000, batch_size=200)
    deliveries = [sim.send(b"x" * 60, partition=0) for _ in range(3)]
    sim.run(0.001)
    assert [batch.builder.record_count for _, _, batch in sim.sent] == [2]
    sim.run(1.1)
    assert all(delivery.done() for delivery in deliveries)


def test_full_batch_lingers_behind_a_request_and_grows() -> None:
    sim = ProducerSim(linger_ms=50, batch_size=200, batch_size_max=1000)
    sim.latency = (0.01, 0.01)
    deliveries = [sim.send(b"x" * 60, partition=0) for _ in range(3)]
    sim.run(0.001)
    deliveries += [sim.send(b"x" * 60, partition=0) for _ in range(8)]
    sim.run(0.001)
    assert [batch.builder.record_count for _, _, batch in sim.sent] == [3], "the broker was idle"
    assert not deliveries[0].done()
    deliveries += [sim.send(b"x" * 60, partition=0) for _ in range(2)]
    sim.run(0.02)
    assert deliveries[2].done()
    assert [batch.builder.record_count for _, _, batch in sim.sent] == [3, 10], "the answer ends the wait"
    sim.run_until_done(deliveries)
    assert sim.partitions[0].log == [b"x" * 60] * 13


def test_full_batch_lingers_behind_a_request_for_linger_ms_at_most() -> None:
    sim = ProducerSim(linger_ms=5, batch_size=200, batch_size_max=1000)
    sim.latency = (0.05, 0.05)
    sim.run_until_done([sim.send(b"first", partition=0)])
    sim.send(b"x" * 150, partition=0)
    sim.run(0.006)
    for _ in range(4):
        sim.send(b"x" * 60, partition=0)
    sim.run(0.004)
    assert [batch.builder.record_count for _, _, batch in sim.sent] == [1, 1]
    sim.run(0.002)
    assert [batch.builder.record_count for _, _, batch in sim.sent] == [1, 1, 4]


def test_batch_that_waits_for_its_leader_grows_to_batch_size_max() -> None:
    sim = ProducerSim(linger_ms=5, batch_size=200, batch_size_max=950)
    sim.unreachable = {0}
    deliveries = [sim.send(b"x" * 60, partition=0) for _ in range(40)]
    sim.run(0.01)
    sim.unreachable = set()
    sim.run_until_done(deliveries)
    counts = [batch.builder.record_count for _, _, batch in sim.sent]
    assert len(counts) == 4
    assert all(850 < batch.size_bytes <= 950 for _, _, batch in sim.sent[:3])
    assert sum(counts) == 40
    assert sim.accumulator.memory.used == 0


def test_records_without_a_key_stay_with_a_partition_for_linger_ms() -> None:
    sim = ProducerSim(partitions=4, linger_ms=20, batch_size=200, batch_size_max=2000)
    sim.run_until_done([sim.send(b"first", partition=number) for number in range(4)])
    deliveries = []
    for _ in range(200):
        deliveries.append(sim.send(b"x" * 60))
        sim.run(0.001)
    runs = [len(list(run)) for _, run in groupby(delivery.partition for delivery in deliveries)]
    assert len(runs) > 2
    assert min(runs[:-1]) >= 19, runs
    sim.run_until_done(deliveries)


def test_records_without_a_key_leave_a_partition_with_batch_size_max() -> None:
    sim = ProducerSim(partitions=4, linger_ms=20, batch_size=200, batch_size_max=1000)
    sim.unreachable = {0, 1, 2}
    deliveries = [sim.send(b"x" * 60) for _ in range(50)]
    runs = [len(list(run)) for _, run in groupby(delivery.partition for delivery in deliveries)]
    assert max(runs) <= 2 * 14, "a partition may be drawn twice"
    sim.unreachable = set()
    sim.run_until_done(deliveries)
    assert all(batch.size_bytes <= 1000 for _, _, batch in sim.sent)


def test_batch_size_alone_bounds_every_batch() -> None:
    sim = ProducerSim(linger_ms=5, batch_size=200)
    sim.unreachable = {0}
    deliveries = [sim.send(b"x" * 60, partition=0) for _ in range(40)]
    sim.unreachable = set()
    sim.run_until_done(deliveries)
    assert all(batch.size_bytes <= 200 for _, _, batch in sim.sent)


def test_old_batch_does_not_grow() -> None:
    sim = ProducerSim(linger_ms=5, batch_size=200, batch_size_max=100_000)
    sim.unreachable = {0}
    for _ in range(10):
        sim.send(b"x" * 60, partition=0)
        sim.run(0.3)
    sim.unreachable = set()
    sim.run(1)
    # Its records share the first record's delivery timeout: three at a time, until it is older than a second.
    assert [batch.builder.record_count for _, _, batch in sim.sent] == [4, 4, 2]


def test_batches_of_a_topic_that_takes_no_large_ones_do_not_grow() -> None:
    sim = ProducerSim(linger_ms=5, batch_size=200, batch_size_max=2000)
    sim.faults.append(lambda request, batch: MESSAGE_TOO_LARGE if batch.size_bytes > 300 else None)
    for _ in range(2):
        sim.unreachable = {0}
        deliveries = [sim.send(b"x" * 60, partition=0) for _ in range(20)]
        sim.run(0.01)
        sim.unreachable = set()
        sim.run_until_done(deliveries)
    refused = [batch for _, _, batch in sim.sent if batch.size_bytes > 300]
    assert refused
    assert all(batch.size_bytes <= 200 for _, _, batch in sim.sent[-10:])
    assert sim.partitions[0].log == [b"x" * 60] * 40


def test_what_goes_out_in_one_turn_is_bounded() -> None:
    sim = ProducerSim(brokers=1, partitions=30, compression_type="gzip", linger_ms=0, max_request_size=100_000)
    accumulator = sim.accumulator
    sim.unreachable = {0}
    for number in range(30):
        sim.send(b"x" * 20_000, partition=number)
    accumulator.start_turn(sim.now)
    requests = []
    while accumulator.turn_bytes > 0:
        requests.append(sum(batch.size_bytes for batch in accumulator.drain(0, sim.now)))
    assert max(requests) <= 100_000
    assert 256 * 1024 <= sum(requests) < 256 * 1024 + 21_000
    accumulator.start_turn(sim.now)
    assert len(accumulator.drain(0, sim.now)) == 4


def test_without_linger_records_join_the_batch_while_it_cannot_be_sent() -> None:
    sim = ProducerSim(linger_ms=0)
    sim.unreachable = {0}
    for _ in range(10):
        sim.send(b"x", partition=0)
        sim.run(0.001)
    sim.unreachable = set()
    sim.send(b"y", partition=0)
    sim.run(0.1)
    assert [batch.builder.record_count for _, _, batch in sim.sent] == [11]


def test_one_request_carries_every_ready_partition_of_its_broker() -> None:
    sim = ProducerSim(brokers=2, partitions=6, linger_ms=5)
    deliveries = [sim.send(b"x", partition=number) for number in range(6)]
    sim.run_until_done(deliveries)
    assert sim.accumulator.counters.requests == 2
    assert sim.accumulator.counters.batches_sent == 6


def test_request_is_bounded_and_every_partition_gets_its_turn() -> None:
    sim = ProducerSim(
        brokers=1,
        partitions=4,
        linger_ms=5,
        batch_size=300,
        max_request_size=700,
        max_in_flight_requests_per_connection=1,
    )
    deliveries = [sim.send(b"x" * 100, partition=number % 4) for number in range(40)]
    sim.run_until_done(deliveries)
    order = [batch.queue.partition for _, _, batch in sim.sent]
    assert len(order) == 20
    # Each partition waits for the three others only.
    for start in range(0, 16, 4):
        assert sorted(order[start : start + 4]) == [0, 1, 2, 3]


def test_flush_sends_what_lingers_and_knows_when_that_is_done() -> None:
    sim = ProducerSim(partitions=3, linger_ms=10_000)
    done: list[str] = []
    first = [sim.send(b"x", partition=number) for number in range(3)]
    ticket = sim.accumulator.start_flush(lambda: done.append("first"), sim.now)
    assert ticket is not None
    sim.send(b"later, but in the same batch", partition=0)
    sim.run(0.0005)
    sim.latency = (0.05, 0.05)
    later = sim.send(b"later", partition=1)
    ticket_of_later = sim.accumulator.start_flush(lambda: done.append("later"), sim.now)
    assert ticket_of_later is not None
    sim.run_until_done(first)
    assert done == ["first"]
    sim.run_until_done([later])
    assert done == ["first", "later"]
    sim.accumulator.end_flush(ticket)
    sim.accumulator.end_flush(ticket_of_later)
    assert sim.accumulator.start_flush(lambda: None, sim.now) is None
    assert sim.accumulator.schedule.flushes == 0


def test_batch_that_lingers_again_after_a_flush_is_not_forgotten() -> None:
    sim = ProducerSim(linger_ms=20)
    sim.unreachable = {0}
    sim.send(b"x", partition=0)
    ticket = sim.accumulator.start_flush(lambda: None, sim.now)
    assert ticket is not None
    sim.run(0.001)
    sim.accumulator.end_flush(ticket)
    sim.unreachable = set()
    sim.run(0.1)
    assert len(sim.sent) == 1


def test_leader_that_moves_takes_what_is_ready_with_it() -> None:
    sim = ProducerSim(linger_ms=0)
    sim.unreachable = {0}
    delivery = sim.send(b"x", partition=0)
    sim.run(0.01)
    sim.move(0, to=1)
    sim.refresh()
    sim.run_until_done([delivery])
    assert [node_id for _, node_id, _ in sim.sent] == [1]


def test_topic_that_metadata_forgets_and_learns_again() -> None:
    sim = ProducerSim(linger_ms=0)
    known = sim.snapshot
    sim.run_until_done([sim.send(b"a", partition=0)])
    sim.unreachable = {0}
    waiting = sim.send(b"b", partition=0)
    sim.accumulator.on_snapshot(ClusterSnapshot(known.generation + 1, "sim"), sim.now)
    assert sim.accumulator.topic(TOPIC) is None
    assert [queue.partition for queue in sim.accumulator.schedule.leaderless] == [0]
    assert not sim.accumulator.schedule.ready
    sim.unreachable = set()
    sim.accumulator.on_snapshot(known, sim.now)
    sim.run_until_done([waiting, sim.send(b"c", partition=0)])
    assert sim.partitions[0].log == [b"a", b"b", b"c"]
    assert not sim.accumulator.schedule.leaderless


def test_idle_partitions_are_left_alone() -> None:
    sim = ProducerSim(partitions=3000, linger_ms=0)
    sim.run_until_done([sim.send(b"x", partition=number) for number in range(3000)])
    assert not sim.accumulator.schedule.ready
    topic = sim.accumulator.topics[TOPIC]
    assert not topic.pending
    sim.unreachable = {1}
    waiting = sim.send(b"x", partition=7)
    for number in range(3000):
        sim.move(number, to=2)
    sim.refresh()
    # Only the queue with a record has learnt its current leader; the other queues learn it with their next record.
    informed = [number for number in range(3000) if topic.queue(number).leader_id == 2 and number % 3 != 2]
    assert informed == [7]
    sim.run_until_done([waiting, sim.send(b"x", partition=0)])
    assert {node_id for _, node_id, _ in sim.sent[3000:]} == {2}


def test_oldest_batches_expire_in_order_and_in_time() -> None:
    sim = ProducerSim(partitions=2, linger_ms=0, delivery_timeout_ms=100, request_timeout_ms=50)
    sim.unreachable = {0, 1, 2}
    first = sim.send(b"x", partition=0)
    sim.run(0.05)
    second = sim.send(b"x", partition=1)
    sim.run(0.049)
    done = [(first.done(), second.done())]
    sim.run(0.002)
    done.append((first.done(), second.done()))
    with pytest.raises(DeliveryTimeoutError, match="never sent"):
        first.result()
    sim.run(0.05)
    assert [*done, (first.done(), second.done())] == [(False, False), (True, False), (True, True)]
    assert sim.accumulator.memory.used == 0
    assert sim.accumulator.schedule.next_at() is None


def test_expired_open_batch_takes_no_more_records() -> None:
    sim = ProducerSim(linger_ms=60, delivery_timeout_ms=100, request_timeout_ms=40)
    sim.unreachable = {0}
    first = sim.send(b"x", partition=0)
    sim.run(0.101)
    assert first.done()
    sim.unreachable = set()
    second = sim.send(b"y", partition=0)
    sim.run_until_done([second])
    assert sim.partitions[0].log == [b"y"]


def test_record_is_too_large_at_once() -> None:
    sim = ProducerSim(max_request_size=1000)
    with pytest.raises(MessageTooLargeError):
        sim.send(b"x" * 1000, partition=0)
    assert sim.accumulator.pending == 0


def test_large_record_has_a_batch_of_its_own() -> None:
    sim = ProducerSim(batch_size=100, linger_ms=1)
    deliveries = [sim.send(content, partition=0) for content in (b"a", b"x" * 1000, b"b")]
    sim.run_until_done(deliveries)
    assert [batch.builder.record_count for _, _, batch in sim.sent] == [1, 1, 1]


def test_memory_is_granted_in_turn() -> None:
    memory = BufferMemory(100, 10)
    granted: list[str] = []
    assert memory.take(90)
    large = memory.claim(50, lambda: granted.append("large"))
    small = memory.claim(5, lambda: granted.append("small"))
    assert granted == []
    assert not memory.take(1), "nobody overtakes"
    assert memory.open_until == -1
    memory.give(20)
    assert granted == []
    memory.give(25)
    assert granted == ["large", "small"]
    assert memory.used == 100
    memory.release(large)
    memory.release(small)
    assert memory.used == 45
    assert memory.open_until == 90


def test_claim_that_is_given_up_lets_the_next_one_in() -> None:
    memory = BufferMemory(100, 10)
    granted: list[str] = []
    assert memory.take(60)
    large = memory.claim(100, lambda: granted.append("large"))
    memory.claim(40, lambda: granted.append("small"))
    memory.release(large)
    assert granted == ["small"]
    assert memory.used == 100


def test_memory_shortage_sends_what_lingers() -> None:
    sim = ProducerSim(linger_ms=10_000, buffer_memory=3000, batch_size=2000, delivery_timeout_ms=100_000)
    sim.send(b"x" * 1800, partition=0)
    topic = sim.accumulator.topics[TOPIC]
    record = Record(TOPIC, b"x" * 1800, None, 0, 1, ())
    assert sim.accumulator.append(topic, record, sim.now) is None
    granted: list[bool] = []
    claim = sim.accumulator.claim(1900, lambda: granted.append(True), sim.now)
    sim.run(0.01)
    assert granted == [True]
    sim.accumulator.append_granted(topic, record, sim.accumulator.next_ordinal(), sim.now)
    sim.accumulator.memory.release(claim)
    assert sim.accumulator.memory.used < 1950


def test_request_carries_so_many_batches_at_most() -> None:
    sim = ProducerSim(brokers=1, partitions=1200, linger_ms=5)
    deliveries = [sim.send(b"x", partition=number) for number in range(1200)]
    sim.run_until_done(deliveries)
    assert sim.accumulator.counters.requests == 2


def test_opening_batches_is_work_too() -> None:
    sim = ProducerSim(brokers=1, partitions=100, linger_ms=5)
    opened = 0
    while not sim.accumulator.crowded():
        sim.send(b"x", partition=opened)
        opened += 1
    assert opened == 64


def built(sim: ProducerSim, *values: bytes, size: int = 10_000) -> BatchBuilder:
    builder = sim.accumulator.new_builder(size)
    for value in values:
        assert builder.append(7, None, value) >= 0
    return builder


def test_batch_that_was_filled_elsewhere_goes_as_it_is_and_in_its_turn() -> None:
    sim = ProducerSim(linger_ms=10_000, compression_type="gzip")
    deliveries = [sim.send(b"before", partition=0)]
    topic = sim.accumulator.topics[TOPIC]
    outcome = sim.accumulator.append_built(topic, 0, built(sim, b"1", b"2"), sim.now)
    assert outcome is not None
    deliveries += [new_delivery(outcome, index, 7) for index in range(2)]
    deliveries.append(sim.send(b"behind", partition=0))
    sim.run(0.1)
    assert [delivery.done() for delivery in deliveries] == [True, True, True, False], (
        "nothing is put behind its records"
    )
    sim.accumulator.start_flush(lambda: None, sim.now)
    sim.run_until_done(deliveries)
    assert [batch.builder.record_count for _, _, batch in sim.sent] == [1, 2, 1]
    assert sim.partitions[0].log == [b"before", b"1", b"2", b"behind"]
    assert sim.accumulator.memory.used == 0


def test_batch_that_was_filled_elsewhere_waits_for_memory_and_is_not_too_large() -> None:
    sim = ProducerSim(linger_ms=10_000, buffer_memory=3000, batch_size=2000, max_request_size=2500)
    sim.send(b"x" * 1800, partition=0)
    topic = sim.accumulator.topics[TOPIC]
    builder = built(sim, b"y" * 1800)
    assert sim.accumulator.append_built(topic, 0, builder, sim.now) is None
    claim = sim.accumulator.claim(builder.size_bytes, lambda: None, sim.now)
    sim.run(1.0)
    assert claim.granted
    outcome = sim.accumulator.append_built_granted(topic, 0, builder, sim.now)
    sim.accumulator.memory.release(claim)
    sim.run_until_done([new_delivery(outcome, 0, 7)])
    assert sim.accumulator.memory.used == 0
    with pytest.raises(MessageTooLargeError, match=r"the batch of 26.. bytes exceeds max_request_size"):
        sim.accumulator.append_built(topic, 0, built(sim, b"z" * 1300, b"z" * 1300), sim.now)


def test_batch_that_was_filled_elsewhere_is_divided_where_the_broker_wants_less() -> None:
    sim = ProducerSim(linger_ms=1)
    sim.faults.append(lambda _, batch: MESSAGE_TOO_LARGE if batch.builder.record_count > 2 else None)
    sim.run_until_done([sim.send(b"0", partition=0)])
    outcome = sim.accumulator.append_built(sim.accumulator.topics[TOPIC], 0, built(sim, b"1", b"2", b"3"), sim.now)
    assert outcome is not None
    sim.run_until_done([new_delivery(outcome, index, 7) for index in range(3)])
    assert sim.partitions[0].log == [b"0", b"1", b"2", b"3"]

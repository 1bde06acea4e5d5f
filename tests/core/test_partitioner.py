"""Partitions of records without a key (KIP-480, KIP-794), and of records with one."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from aiokafka_lead._core.metadata.types import Broker, ClusterSnapshot, PartitionMetadata, TopicMetadata
from aiokafka_lead._core.producer.batches import Record, TopicBuffer
from aiokafka_lead._core.producer.buffer_memory import BufferMemory
from aiokafka_lead._core.producer.partitioner import NodeAvailability, StickyChooser
from tests.core.producer_sim import TOPIC, TOPIC_ID, ProducerSim

# From Java's Utils.murmur2, by way of the test suites of kafka-python and librdkafka.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def topic_with(leaders: list[int], racks: str = "") -> tuple[TopicBuffer, ClusterSnapshot]:
    partitions = tuple(PartitionMetadata(TOPIC, number, leader, 1) for number, leader in enumerate(leaders))
    brokers = {number: Broker(number, "host", 9000 + number, rack) for number, rack in enumerate(racks)}
    snapshot = ClusterSnapshot(1, "c", 0, brokers, {TOPIC: TopicMetadata(TOPIC, TOPIC_ID, False, partitions)})
    topic = TopicBuffer(TOPIC, BufferMemory(10_000, 100), ignore_keys=False)
    topic.renew(len(leaders), TOPIC_ID)
    return topic, snapshot


def pile_up(topic: TopicBuffer, depths: list[int]) -> None:
    """Queue this many batches' worth of records for each partition."""
    for number, depth in enumerate(depths):
        queue = topic.queue(number)
        queue.depth = depth
        if depth:
            topic.pending[queue] = None


def draws(topic: TopicBuffer, snapshot: ClusterSnapshot, count: int, **options: Any) -> Counter[int]:
    chooser = StickyChooser(
        options.get("adaptive", True),
        options.get("nodes") or NodeAvailability(0),
        Random(1).random,
        options.get("rack"),
    )
    return Counter(chooser.choose(topic, snapshot, options.get("now", 0.0)) for _ in range(count))


def test_kip_1123_records_stay_in_the_rack_of_their_producer() -> None:
    topic, snapshot = topic_with([0, 1, 2] * 4, racks="abc")
    pile_up(topic, [0, 0, 0, 3] + 8 * [0])
    found = draws(topic, snapshot, 3000, rack="a")
    assert found.keys() == {0, 3, 6, 9}
    assert found[3] < found[0] / 2  # the weights count within the rack
    assert draws(topic, snapshot, 1000).keys() == set(range(12))


def test_kip_1123_without_a_leader_in_the_rack_that_takes_records_all_partitions_count() -> None:
    topic, snapshot = topic_with([0, 1, 2] * 4, racks="abc")
    assert draws(topic, snapshot, 1000, rack="elsewhere").keys() == set(range(12))
    nodes = NodeAvailability(1.0)
    nodes.blocked(0, 0.0)
    assert draws(topic, snapshot, 1000, rack="a", nodes=nodes, now=5.0).keys() == set(range(12)) - {0, 3, 6, 9}
    topic, snapshot = topic_with([1, 2] * 4, racks="abc")
    assert draws(topic, snapshot, 1000, rack="a").keys() == set(range(8))


class Counting:
    """Counts the partitions that are looked at."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.brokers = snapshot.brokers
        self.looks = 0
        self._snapshot = snapshot

    def partition(self, topic: str, number: int) -> PartitionMetadata | None:
        self.looks += 1
        return self._snapshot.partition(topic, number)


@pytest.mark.parametrize("rack", ["a", "b", "elsewhere"])
def test_kip_1123_few_leaders_in_the_rack_cost_no_search_for_each_choice(rack: str) -> None:
    """During the outage of a zone, none is left there."""
    topic, snapshot = topic_with([0] + 2999 * [1], racks="ab")
    counting: Any = Counting(snapshot)
    found = draws(topic, counting, 100, rack=rack)
    assert counting.looks < 3000 + 100 * 16
    assert (len(found) == 1) == (rack == "a")


def test_kip_1123_a_hint_may_lead_out_of_the_rack() -> None:
    brokers = {0: Broker(0, "host", 9000, "a"), 1: Broker(1, "host", 9001, "b")}
    led = [PartitionMetadata(TOPIC, number, 0, 1) for number in range(2)]
    snapshot = ClusterSnapshot(1, "c", 0, brokers, {TOPIC: TopicMetadata(TOPIC, TOPIC_ID, False, tuple(led))})
    options: dict[str, Any] = {"client_rack": "a", "partitioner_rack_aware": True, "batch_size": 1, "linger_ms": 1000}
    accumulator = ProducerSim(**options).accumulator
    accumulator.on_snapshot(snapshot, 0.0)

    topic = accumulator.topic(TOPIC)
    assert topic is not None

    def chosen() -> set[int]:
        deliveries = [accumulator.append(topic, Record(TOPIC, b"x", None, -1, 0, ()), 0.0) for _ in range(20)]
        return {delivery.partition for delivery in deliveries if delivery is not None}

    assert chosen() == {0, 1}
    moved = {(TOPIC, 0): led[0]._replace(leader_id=1, leader_epoch=2)}
    accumulator.on_snapshot(snapshot.with_moved(moved, brokers), 1.0, moved)
    assert 0 not in chosen()


@pytest.mark.parametrize(("key", "hashed"), JAVA.items())
def test_keys_go_where_java_puts_them(key: bytes, hashed: int) -> None:
    topic, _ = topic_with([0] * 17)
    assert topic.partition_for_key(key) == (hashed & 0x7FFFFFFF) % 17


def test_sticks_to_a_partition_for_a_batch_worth() -> None:
    sim = ProducerSim(partitions=10, batch_size=1000, linger_ms=5)
    chosen = [sim.send(b"x" * 90).partition for _ in range(400)]
    turns = [1]
    for before, after in pairwise(chosen):
        if before == after:
            turns[-1] += 1
        else:
            turns.append(1)
    # Nine such records fill a batch; the same partition may be drawn twice in a row.
    assert all(turn % 9 in (0, 1) or turn % 10 == 0 for turn in turns[:-1]), turns
    assert len(set(chosen)) == 10


def test_sticks_while_batches_are_sent_early() -> None:
    """The partition changes after a batch's worth of bytes, not after a small batch that lingered out (KIP-794)."""
    sim = ProducerSim(partitions=10, batch_size=1000, linger_ms=0)
    chosen = []
    for _ in range(12):
        delivery = sim.send(b"x" * 90)
        chosen.append(delivery.partition)
        sim.run_until_done([delivery])
    assert len(set(chosen[:7])) == 1
    assert chosen[6] != chosen[7] or chosen[7] != chosen[8] or len(set(chosen)) > 1


def test_empty_queues_are_chosen_alike() -> None:
    topic, snapshot = topic_with([0, 1, 2, 3])
    counts = draws(topic, snapshot, 4000)
    assert all(800 < counts[number] < 1200 for number in range(4))


def test_short_queues_are_preferred_as_the_kip_weighs_them() -> None:
    topic, snapshot = topic_with([0, 1, 2])
    pile_up(topic, [0, 3, 1])
    counts = draws(topic, snapshot, 8000)
    # The KIP's own example: queues of 0, 3 and 1 weigh 4, 1 and 3.
    assert [round(counts[number] / 1000) for number in range(3)] == [4, 1, 3]


def test_without_adaptive_partitioning_all_are_alike() -> None:
    topic, snapshot = topic_with([0, 1, 2])
    pile_up(topic, [0, 9, 1])
    counts = draws(topic, snapshot, 3000, adaptive=False)
    assert all(850 < counts[number] < 1150 for number in range(3))


def test_partitions_without_leader_are_not_chosen() -> None:
    topic, snapshot = topic_with([-1] * 50 + [3])
    assert set(draws(topic, snapshot, 200)) == {50}


def test_any_partition_if_none_has_a_leader() -> None:
    topic, snapshot = topic_with([-1, -1])
    assert set(draws(topic, snapshot, 50)) == {0, 1}


def test_brokers_that_take_nothing_are_left_out() -> None:
    topic, snapshot = topic_with([0, 1, 2])
    nodes = NodeAvailability(0.5)
    nodes.blocked(1, 10.0)
    assert set(draws(topic, snapshot, 100, nodes=nodes, now=10.4)) == {0, 1, 2}
    nodes.blocked(1, 10.6)
    assert set(draws(topic, snapshot, 100, nodes=nodes, now=10.6)) == {0, 2}
    nodes.taking(1)
    assert set(draws(topic, snapshot, 100, nodes=nodes, now=10.7)) == {0, 1, 2}
    for node_id in range(3):
        nodes.blocked(node_id, 20.0)
    assert set(draws(topic, snapshot, 100, nodes=nodes, now=30.0)) == {0, 1, 2}


def test_that_is_off_by_default() -> None:
    topic, snapshot = topic_with([0, 1])
    nodes = NodeAvailability(0)
    nodes.blocked(1, 0.0)
    assert set(draws(topic, snapshot, 100, nodes=nodes, now=1000.0)) == {0, 1}

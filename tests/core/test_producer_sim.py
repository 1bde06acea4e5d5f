"""Acknowledged once, and in order in each partition, under any faults of brokers and connections: seeded replays."""

from __future__ import annotations

import os
from random import Random

import pytest

from aiokafka_lead._core.producer.delivery import Delivery
from aiokafka_lead.errors import KafkaError
from tests.core.producer_sim import ProducerSim, SimRequest
from tests.simulated.codes import MESSAGE_TOO_LARGE, NOT_LEADER_OR_FOLLOWER
from tests.suites import crossed

RUNS = int(os.environ.get("PRODUCER_SIM_RUNS", "150"))


def outcomes(deliveries: list[Delivery]) -> tuple[list[int], int]:
    """Return the offsets of the acknowledged records in order of sending, and the number of failed ones."""
    offsets, failed = [], 0
    for delivery in deliveries:
        try:
            offsets.append(delivery.result().offset)
        except KafkaError:
            failed += 1
    return offsets, failed


def check_log(sim: ProducerSim, by_partition: dict[int, list[tuple[bytes, Delivery]]], *, all_acked: bool) -> None:
    for number, sent in by_partition.items():
        log = sim.partitions[number].log
        position = {value: at for at, value in enumerate(log)}
        assert len(position) == len(log), "a record is twice in the log"
        acked = [(value, delivery) for value, delivery in sent if _acked(delivery)]
        if all_acked:
            assert len(acked) == len(sent)
        offsets = [delivery.result().offset for _, delivery in acked]
        assert [position.get(value) for value, _ in acked] == offsets
        assert offsets == sorted(offsets), "acknowledged out of order"
        in_log = [position[value] for value, _ in sent if value in position]
        assert in_log == sorted(in_log), "the log is out of order"


def _acked(delivery: Delivery) -> bool:
    try:
        delivery.result()
    except KafkaError:
        return False
    return True


class Chaos:
    """Cause random faults until it is stopped."""

    def __init__(self, sim: ProducerSim, rng: Random, *, lossy: bool) -> None:
        self.sim = sim
        self.rng = rng
        self.on = True
        self.rate = rng.choice([0.0, 0.02, 0.1, 0.3])
        self.lossy = lossy
        sim.faults.append(self.fault)

    def fault(self, request: SimRequest, batch: object) -> int | None:
        if not self.on or self.rng.random() >= self.rate:
            return None
        codes = [3, 5, 6, 7, 19, 56]
        if self.lossy:
            codes += [-1, MESSAGE_TOO_LARGE, 29, 87]
        return self.rng.choice(codes)

    def step(self) -> None:
        roll = self.rng.random()
        sim = self.sim
        if roll < 0.2:
            sim.move(self.rng.randrange(len(sim.partitions)))
        elif roll < 0.3:
            sim.disconnect(self.rng.choice(sim.brokers))
        elif roll < 0.35:
            sim.unreachable = {self.rng.choice(sim.brokers)}
        elif roll < 0.5:
            sim.unreachable = set()


@pytest.mark.parametrize("seed", crossed(range(RUNS), first=50))
def test_idempotent_records_are_acknowledged_once_and_in_order(seed: int) -> None:
    rng = Random(seed)
    lossy = seed % 3 == 0
    sim = ProducerSim(
        seed=seed,
        partitions=rng.choice([1, 2, 5]),
        hints=rng.random() < 0.7,
        linger_ms=rng.choice([0, 5, 20]),
        batch_size=(size := rng.choice([1, 100, 400])),
        batch_size_max=size * rng.choice([1, 1, 5]),
        retry_backoff_ms=rng.choice([10, 100]),
        request_timeout_ms=200,
        delivery_timeout_ms=rng.choice([300, 2000]) if lossy else 600_000,
    )
    sim.latency = rng.choice([(0.001, 0.001), (0.001, 0.02), (0.0, 0.1)])
    sim.metadata_delay = rng.choice([0.005, 0.1])
    chaos = Chaos(sim, rng, lossy=lossy)
    sent: dict[int, list[tuple[bytes, Delivery]]] = {number: [] for number in range(len(sim.partitions))}
    for n in range(300):
        number = rng.randrange(len(sim.partitions))
        value = b"%d-%d" % (number, n) + b"." * rng.randrange(40)
        sent[number].append((value, sim.send(value, partition=number)))
        if rng.random() < 0.5:
            chaos.step()
            sim.run(rng.choice([0.0, 0.001, 0.005, 0.03]))
    chaos.on = False
    sim.unreachable = set()
    deliveries = [delivery for records in sent.values() for _, delivery in records]
    sim.run_until_done(deliveries)
    sim.run(10.0)
    check_log(sim, sent, all_acked=not lossy)
    assert sim.accumulator.memory.used == 0
    assert sim.accumulator.pending == 0
    last = {number: sim.send(b"last", partition=number) for number in sent}
    sim.run_until_done(list(last.values()), limit=20)
    for number, delivery in last.items():
        assert sim.partitions[number].log[delivery.result().offset] == b"last"


@pytest.mark.parametrize("seed", crossed(range(RUNS // 5), first=10))
def test_one_request_in_flight_keeps_the_order_without_idempotence(seed: int) -> None:
    rng = Random(seed)
    sim = ProducerSim(
        seed=seed,
        partitions=2,
        linger_ms=rng.choice([0, 5]),
        batch_size=(size := rng.choice([1, 200])),
        batch_size_max=size * rng.choice([1, 5]),
        enable_idempotence=False,
        max_in_flight_requests_per_connection=1,
        retry_backoff_ms=20,
    )
    sim.faults.append(lambda request, batch: NOT_LEADER_OR_FOLLOWER if rng.random() < 0.2 else None)
    sent: dict[int, list[tuple[bytes, Delivery]]] = {0: [], 1: []}
    for n in range(150):
        value = b"%d" % n
        sent[n % 2].append((value, sim.send(value, partition=n % 2)))
        if n % 3 == 0:
            sim.run(0.002)
        if n % 20 == 0:
            sim.move(rng.randrange(2))
    deliveries = [delivery for records in sent.values() for _, delivery in records]
    sim.run_until_done(deliveries)
    check_log(sim, sent, all_acked=True)

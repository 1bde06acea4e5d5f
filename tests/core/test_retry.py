"""Retries of a refused batch: the rules of leader discovery on virtual time (KIP-580, KIP-951)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from aiokafka_lead._core.leadership.patience import FREE_RETRIES
from aiokafka_lead._core.producer.batches import ProducerBatch
from aiokafka_lead.errors import DeliveryTimeoutError, NotLeaderOrFollowerError, RequestTimedOutError
from tests.core.producer_sim import ProducerSim, SimRequest
from tests.simulated.codes import NOT_LEADER_OR_FOLLOWER


def warm_sim(**options: Any) -> ProducerSim:
    """Return a cluster whose leader has acknowledged a record, with negligible latency."""
    sim = ProducerSim(linger_ms=0, **options)
    sim.latency = (0.0001, 0.0001)
    sim.run_until_done([sim.send(b"warm-up", partition=0)])
    sim.sent.clear()
    return sim


def times(sim: ProducerSim) -> list[float]:
    """Return the times of sent batches, in milliseconds since the first."""
    return [(at - sim.sent[0][0]) * 1000 for at, _, _ in sim.sent]


def test_rule_11_an_epoch_advance_gives_one_retry_at_once() -> None:
    sim = warm_sim(retry_backoff_ms=1000)
    sim.move(0, to=1)
    sim.run_until_done([sim.send(b"v", partition=0)])
    assert [node_id for _, node_id, _ in sim.sent] == [0, 1]
    assert times(sim)[1] < 1
    assert sim.accumulator.counters.free_retries == 1
    assert sim.accumulator.counters.moves.leader_moves == 1


def test_rule_11_a_second_failure_at_the_same_epoch_backs_off() -> None:
    sim = warm_sim(retry_backoff_ms=1000)
    sim.move(0, to=1)
    sim.faults.append(lambda request, batch: 7 if request.node_id == 1 and len(sim.sent) == 2 else None)
    sim.run_until_done([sim.send(b"v", partition=0)])
    assert [node_id for _, node_id, _ in sim.sent] == [0, 1, 1]
    assert times(sim)[1] < 1
    assert times(sim)[2] >= 800
    assert sim.accumulator.counters.free_retries == 1


def test_rule_11_each_advance_gives_another_free_retry() -> None:
    sim = warm_sim(retry_backoff_ms=1000)
    sim.move(0, to=1)
    delivery = sim.send(b"v", partition=0)
    sim.timeline.at(sim.now + 0.00025, lambda: sim.move(0, to=2))
    sim.run_until_done([delivery])
    assert [node_id for _, node_id, _ in sim.sent] == [0, 1, 2]
    assert times(sim)[2] < 2


def test_rule_11_a_leader_that_has_not_caught_up_is_asked_after_10_ms_then_20() -> None:
    sim = warm_sim(retry_backoff_ms=1000)
    sim.faults.append(lambda request, batch: NOT_LEADER_OR_FOLLOWER if len(sim.sent) <= 3 else None)
    sim.run_until_done([sim.send(b"v", partition=0)])
    waits = [later - earlier for earlier, later in pairwise(times(sim))]
    for wait, nominal in zip(waits, [10, 20, 40], strict=True):
        assert nominal * 0.79 <= wait <= nominal * 1.25
    assert sim.accumulator.counters.catch_up_waits == 3


def test_rule_11_that_wait_is_never_longer_than_retry_backoff_ms() -> None:
    sim = warm_sim(retry_backoff_ms=2)
    sim.faults.append(lambda request, batch: NOT_LEADER_OR_FOLLOWER if len(sim.sent) <= 1 else None)
    sim.run_until_done([sim.send(b"v", partition=0)])
    assert 1 < times(sim)[1] < 5


def test_rule_12_metadata_that_knows_a_newer_epoch_ends_the_backoff() -> None:
    sim = warm_sim(retry_backoff_ms=5000, retry_backoff_max_ms=5000, hints=False)
    sim.move(0, to=1)
    sim.run_until_done([sim.send(b"v", partition=0)])
    assert [node_id for _, node_id, _ in sim.sent] == [0, 1]
    assert 9 < times(sim)[1] < 15  # the time for metadata


def test_rule_12_a_leader_change_without_an_epoch_advance_does_not() -> None:
    sim = warm_sim(retry_backoff_ms=500, hints=False)
    sim.partitions[0].leader = 1
    sim.run_until_done([sim.send(b"v", partition=0)])
    assert [node_id for _, node_id, _ in sim.sent] == [0, 1]
    assert times(sim)[1] >= 400


def test_rule_13_without_a_hint_the_backoff_doubles_up_to_its_longest() -> None:
    sim = warm_sim(retry_backoff_ms=100, retry_backoff_max_ms=400, hints=False)
    sim.faults.append(lambda request, batch: NOT_LEADER_OR_FOLLOWER)
    sim.send(b"v", partition=0)
    sim.run(3)
    waits = [later - earlier for earlier, later in pairwise(times(sim))]
    for wait, nominal in zip(waits, [100, 200, 400, 400, 400], strict=False):
        assert nominal * 0.79 <= wait <= nominal * 1.21
    assert len(sim.sent) < 12


def test_rule_13_brokers_that_lie_with_ever_newer_epochs_see_a_bounded_rate() -> None:
    """Each refusal names another leader at a newer epoch: free retries run out, and the backoff holds."""
    sim = warm_sim(retry_backoff_ms=100, retry_backoff_max_ms=400)

    def refuse(request: SimRequest, batch: ProducerBatch) -> int:
        sim.move(0)
        return NOT_LEADER_OR_FOLLOWER

    sim.faults.append(refuse)
    delivery = sim.send(b"v", partition=0)
    sim.run(4)
    assert sim.accumulator.counters.free_retries == FREE_RETRIES
    assert FREE_RETRIES + 8 < len(sim.sent) <= FREE_RETRIES + 14
    sim.faults.clear()
    sim.run_until_done([delivery], limit=0.5)
    # The next batch has its free retries again.
    sim.move(0)
    sim.run_until_done([sim.send(b"w", partition=0)], limit=0.05)


def test_rule_15_nothing_goes_to_the_new_leader_before_the_old_one_has_answered() -> None:
    sim = warm_sim()
    sim.latency = (0.1, 0.1)
    first = sim.send(b"first", partition=0)
    sim.run(0.11)  # appended, the answer is in flight
    sim.move(0, to=1)
    sim.refresh()
    second = sim.send(b"second", partition=0)
    sim.run(0.08)
    assert [node_id for _, node_id, _ in sim.sent] == [0]
    sim.run_until_done([first, second])
    assert [node_id for _, node_id, _ in sim.sent] == [0, 1]
    assert sim.partitions[0].log[1:] == [b"first", b"second"]


def test_rule_16_one_partition_waits_and_the_others_of_its_broker_do_not() -> None:
    sim = warm_sim(partitions=2, brokers=1, retry_backoff_ms=1000)
    sim.faults.append(lambda request, batch: 7 if batch.queue.partition == 0 and len(sim.sent) < 3 else None)
    stuck = sim.send(b"stuck", partition=0)
    sim.run(0.01)
    others = []
    for number in range(20):
        others.append(sim.send(b"%d" % number, partition=1))
        sim.run(0.01)
    assert all(delivery.done() for delivery in others)
    assert not stuck.done()
    sim.run_until_done([stuck])


def test_first_attempt_is_no_retry() -> None:
    sim = warm_sim()
    sim.move(0, to=1)
    sim.refresh()
    sim.run_until_done([sim.send(b"v", partition=0)])
    assert sim.accumulator.counters.retries == 0
    assert sim.accumulator.counters.free_retries == 0


def test_retries_are_bounded() -> None:
    sim = warm_sim(retries=2, retry_backoff_ms=1)
    sim.faults.append(lambda request, batch: 7)
    delivery = sim.send(b"v", partition=0)
    sim.run(5)
    with pytest.raises(RequestTimedOutError):
        delivery.result()
    assert len(sim.sent) == 3


def test_no_retries_at_all() -> None:
    sim = warm_sim(retries=0)
    sim.move(0, to=1)
    delivery = sim.send(b"v", partition=0)
    sim.run(1)
    with pytest.raises(NotLeaderOrFollowerError):
        delivery.result()


def test_partition_without_a_leader_waits_for_one() -> None:
    sim = warm_sim(delivery_timeout_ms=1000, request_timeout_ms=100)
    sim.partitions[0].leader = -1
    sim.partitions[0].epoch += 1
    sim.refresh()
    delivery = sim.send(b"v", partition=0)
    sim.run(0.5)
    assert sim.sent == []
    sim.move(0, to=2)
    sim.run_until_done([delivery], limit=0.2)
    lost = sim.send(b"v", partition=0)
    sim.partitions[0].leader = -1
    sim.partitions[0].epoch += 1
    sim.refresh()
    sim.run(1.1)
    with pytest.raises(DeliveryTimeoutError, match="the partition has no known leader"):
        lost.result()

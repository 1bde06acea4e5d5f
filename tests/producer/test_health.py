"""`Producer.health`, and the counts by topic."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer
from aiokafka_lead._core.producer.health import ProducerFacts, judge_producer
from aiokafka_lead.errors import MessageTooLargeError, TopicAuthorizationFailedError
from aiokafka_lead.testing import EmbeddedCluster
from tests.patience import started

pytestmark = pytest.mark.anyio

FACTS = ProducerFacts(None, True, 100.0, None, None, 0.0, 0, True)


async def test_a_producer_that_gets_acknowledgements(cluster: EmbeddedCluster) -> None:
    producer = Producer(cluster.bootstrap_servers)
    assert producer.health().problems == ("the producer has not been started",)
    async with producer:
        fresh = producer.health()
        assert (fresh.healthy, fresh.connected, fresh.pending_ms, fresh.since_ack_ms) == (True, True, None, None)
        held = cluster.faults.add("Produce", hold=True)
        delivery = await producer.send("events", b"1")
        waiting = producer.health()
        assert waiting.healthy
        assert waiting.pending_ms is not None
        assert waiting.buffer_used > 0
        held.remove()
        await delivery
        done = producer.health()
        assert done.pending_ms is None
        assert done.since_ack_ms is not None
    assert producer.health().problems == ("the producer has been stopped",)


async def test_a_producer_without_acknowledgements_says_so(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("Produce", hold=True)
    short: dict[str, Any] = {"request_timeout_ms": 500, "delivery_timeout_ms": 60_000}
    async with started(Producer(cluster.bootstrap_servers, **short)) as producer:
        await producer.send("events", b"1")
        with anyio.fail_after(20):
            while (health := producer.health()).healthy:
                await cluster.wait_for_requests("Produce", count=cluster.requests.count("Produce") + 1)
        (problem,) = health.problems
        assert problem.startswith("no broker has acknowledged records for")
        held.remove()
        await producer.flush()
        assert producer.health().healthy


async def test_before_the_cluster_was_reached(cluster: EmbeddedCluster) -> None:
    producer = Producer("127.0.0.1:1")
    await producer.start(wait=False)
    assert not producer.health().connected
    await producer.stop(0)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        (FACTS, None),
        (
            FACTS._replace(pending_s=50.0),
            "no broker has acknowledged records for 100.0 s; a record has waited for 50.0 s",
        ),
        (FACTS._replace(pending_s=5.0), None),
        (FACTS._replace(pending_s=50.0, since_ack_s=1.0), None),
        (FACTS._replace(connected=False), "the cluster could not be reached in 100.0 s"),
        (FACTS._replace(connected=False, since_start_s=1.0), None),
        (FACTS._replace(unusable="it has failed", pending_s=50.0), "it has failed"),
    ],
)
def test_what_is_a_problem(facts: ProducerFacts, problem: str | None) -> None:
    health = judge_producer(facts, 10.0)
    assert health.problems == health.own_problems == (() if problem is None else (problem,))
    away = judge_producer(facts._replace(reachable=False), 10.0)
    assert away.problems == health.problems
    assert away.live is (facts.unusable is None)


async def test_counts_by_topic(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("others", partitions=1)
    async with Producer(cluster.bootstrap_servers, max_request_size=1000) as producer:
        await (await producer.send_many("events", [b"1", b"2"], partition=0))
        await producer.send_and_wait("events", b"3")
        cluster.faults.add("Produce", topic="others", error_code=TopicAuthorizationFailedError)
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("others", b"4")
        with pytest.raises(MessageTooLargeError):
            await producer.send("others", b"x" * 2000)
        metrics = producer.metrics()
    assert {name: (each.records_acked, each.records_failed) for name, each in metrics.topics.items()} == {
        "events": (3, 0),
        "others": (0, 1),
    }
    assert metrics.send_latency.count == metrics.batches_acked == 2
    assert (metrics.records_acked, metrics.records_failed) == (3, 1)

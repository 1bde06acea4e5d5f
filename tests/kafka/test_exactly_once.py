"""Spark's exactly-once sink on Apache Kafka, in Spark's steps: drivers that die, and a driver that seems dead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import anyio
import pytest

from aiokafka_lead import AdminClient
from aiokafka_lead.admin import TransactionState
from aiokafka_lead.spark.client_loop import client_loop
from aiokafka_lead.spark.sink.exactly_once.task import ExactlyOnceError
from tests.spark.exactly_once_support import MicroBatch, counted, decide

from .harness import KafkaCluster

A, B, C = [b"a1", b"a2"], [b"b1"], [b"c1"]


class Servers(NamedTuple):
    """A cluster as Spark's options name it."""

    bootstrap_servers: str


@pytest.fixture(autouse=True)
def _no_client_left() -> Iterator[None]:
    yield
    client_loop().close_idle()


@pytest.mark.parametrize("release", ["kafka_old", "kafka"])
def test_each_batch_counts_once(release: str, request: pytest.FixtureRequest, topic_name: Callable[[], str]) -> None:
    kafka: KafkaCluster = request.getfixturevalue(release)
    topic = kafka.create_topic(topic_name(), partitions=3)
    cluster = Servers(kafka.bootstrap())
    MicroBatch(cluster, topic, 0).run(A)
    dead = MicroBatch(cluster, topic, 1)
    for task in range(3):
        dead.write([b"never"], task)
    decided = MicroBatch(cluster, topic, 1)
    messages = [decided.write(values, task) for task, values in enumerate((B, [], C))]
    decide(cluster, topic, messages)
    zombie = MicroBatch(cluster, topic, 1)
    assert counted(cluster, topic) == sorted([*A, *B, *C]), "what was decided is committed when the next run begins"
    MicroBatch(cluster, topic, 1).run(C, B)
    late = MicroBatch(cluster, topic, 2)
    written = [late.write([b"never"], 0), late.write([b"never"], 1)]
    MicroBatch(cluster, topic, 2).run([b"d1"], [b"d2"])
    with pytest.raises(ExactlyOnceError, match="taken over"):
        late.commit(written)
    assert zombie.write([b"never"]).rows == 0  # type: ignore[attr-defined]
    assert counted(cluster, topic) == sorted([*A, *B, *C, b"d1", b"d2"])
    assert anyio.run(_open, kafka.bootstrap(), topic) == []


async def _open(bootstrap: str, prefix: str) -> list[str]:
    async with AdminClient(bootstrap) as admin:
        listed = await admin.list_transactions(states=[TransactionState.ONGOING])
    return [name for name in listed if name.startswith(prefix)]

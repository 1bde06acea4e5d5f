"""read_committed: transactions that another client writes."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import pytest

from .harness import KafkaCluster
from .support import in_thread, read_topic

pytestmark = pytest.mark.anyio


def _write_transactions(kafka: KafkaCluster, topic: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap(), "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(30)
    for number in range(30):
        producer.begin_transaction()
        for i in range(10):
            producer.produce(topic, b"%d" % (number * 10 + i), partition=0)
        producer.flush(30)
        if number % 3 == 1:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


@pytest.mark.parametrize("release", ["kafka", "kafka_old"])
async def test_aborted_records_are_not_seen(
    request: pytest.FixtureRequest, release: str, topic_name: Callable[[], str]
) -> None:
    kafka: KafkaCluster = request.getfixturevalue(release)
    topic = await in_thread(kafka.create_topic, topic_name())
    await in_thread(_write_transactions, kafka, topic)
    committed = [b"%d" % (n * 10 + i) for n in range(30) if n % 3 != 1 for i in range(10)]
    seen = await read_topic(kafka, topic, 1, len(committed), isolation_level="read_committed")
    assert [r.value for r in seen] == committed
    everything = await read_topic(kafka, topic, 1, 300)
    assert [r.value for r in everything] == [b"%d" % i for i in range(300)]

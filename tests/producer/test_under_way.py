"""Number of Produce requests in flight to a broker that serves them in order."""

from __future__ import annotations

from typing import Literal

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import Producer
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("acks", ["all", 1])
async def test_what_comes_while_a_broker_is_busy_leaves_in_one_request(acks: Literal["all", 1]) -> None:
    async with (
        EmbeddedCluster(1) as cluster,
        Producer(cluster.bootstrap_servers, linger_ms=0, acks=acks) as producer,
    ):
        cluster.create_topic("events", partitions=20)
        for _ in range(3):
            await producer.send_and_wait("events", b"first", partition=0)
        cluster.requests.clear()
        held = cluster.faults.add("Produce", hold=True)
        deliveries = []
        for number in range(20):
            deliveries.append(await producer.send("events", b"%d" % number, partition=number))
            await anyio.lowlevel.checkpoint()
        await cluster.requests.wait_for("Produce")
        held.remove()
        with anyio.fail_after(20):
            for delivery in deliveries:
                await delivery
        sizes = [len(record.request.topic_data[0].partition_data) for record in cluster.requests.select("Produce")]
        assert sum(sizes) == 20
        assert len(sizes) <= 3
        assert sizes[-1] >= 17, "the first two have what had come by then: trio takes tasks in any order"

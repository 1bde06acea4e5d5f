"""Names of bootstrap servers that do not resolve, or resolve late (KIP-909)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, Producer
from aiokafka_lead.errors import BootstrapResolutionError
from aiokafka_lead.testing import EmbeddedCluster

from ..names import Names, resolving

pytestmark = pytest.mark.anyio


@pytest.fixture
def names() -> Iterator[Names]:
    with resolving() as names:
        names["kafka.test"] = []
        yield names


async def test_kip_909_a_name_without_an_address_fails_at_once(names: Names) -> None:
    producer = Producer("kafka.test:9092")
    with anyio.fail_after(5), pytest.raises(BootstrapResolutionError, match=r"kafka\.test:9092.*no address"):
        await producer.start()


async def test_kip_909_or_when_it_has_been_waited_for(names: Names) -> None:
    consumer = Consumer(bootstrap_servers="kafka.test:9092,kafka.test:9093", bootstrap_resolve_timeout_ms=300)
    began = time.monotonic()
    with anyio.fail_after(20), pytest.raises(BootstrapResolutionError, match=r"9092.*9093"):
        await consumer.start()
    assert time.monotonic() - began >= 0.3


async def test_kip_909_a_name_that_resolves_in_time_is_used(names: Names) -> None:
    async with EmbeddedCluster(brokers=1) as cluster:
        port = cluster.address(1).rpartition(":")[2]

        async def come() -> None:
            await anyio.sleep(0.2)
            names["kafka.test"] = ["127.0.0.1"]

        async with anyio.create_task_group() as later:
            later.start_soon(come)
            with anyio.fail_after(20):
                async with AdminClient(f"kafka.test:{port}", bootstrap_resolve_timeout_ms=10_000) as admin:
                    assert await admin.list_topics() is not None

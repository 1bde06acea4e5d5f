"""Rule 25: names are resolved on every connect, so that all brokers behind the bootstrap name may be replaced."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead.testing import EmbeddedCluster

from ..names import STRANGE, needs_loopbacks, resolving
from .support import consumer_of, next_number, producer_of, values

pytestmark = [pytest.mark.anyio, needs_loopbacks]

QUICK: dict[str, Any] = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100}

NAME = "kafka.test"


async def test_rule_25_a_name_that_leads_elsewhere_after_a_rebootstrap() -> None:
    """Another set of brokers, with the same cluster id, serves the topic at the new address."""
    with resolving({NAME: ["127.0.0.1"]}) as addresses:
        async with EmbeddedCluster(brokers=1, cluster_id="same") as old:
            old.create_topic("t")
            port = int(old.bootstrap_servers.rpartition(":")[2])
            servers = f"{NAME}:{port}"
            async with (
                EmbeddedCluster(brokers=1, host=STRANGE, ports=[port], cluster_id="same") as new,
                producer_of(servers, **QUICK) as producer,
                consumer_of(servers, "t", **QUICK) as consumer,
            ):
                new.create_topic("t")
                await producer.send_and_wait("t", b"0", partition=0)
                assert await next_number(consumer) == 0
                assert not new.requests.count()
                addresses[NAME] = [STRANGE]
                await old.kill_broker(1)
                await producer.send_and_wait("t", b"1", partition=0)
                assert await next_number(consumer) == 1
                for client in (producer, consumer):
                    assert client.metrics().metadata.rebootstraps_unavailable >= 1
                assert (values(old), values(new)) == ([0], [1])

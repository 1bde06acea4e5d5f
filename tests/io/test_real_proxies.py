"""Traffic through third-party proxies while leaders move, brokers stop and the proxy is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from aiokafka_lead import Client, Producer
from aiokafka_lead.errors import KafkaConnectionError
from aiokafka_lead.testing import EmbeddedCluster

from ..proxies import PROXIES, real_proxy
from .script import Certificates

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

KINDS = pytest.mark.parametrize("kind", PROXIES)
USER, PASSWORD = "user", "s3cret"
RECORDS = 200


@KINDS
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_records_go_through_while_everything_moves(kind: str, tls: bool, tmp_path: Path) -> None:
    certificates = Certificates()
    options: dict[str, Any] = {"reconnect_backoff_max_ms": 200, "retry_backoff_max_ms": 200}
    if tls:
        options |= {"security_protocol": "SSL", "ssl_context": certificates.client()}
    context = certificates.server() if tls else None
    async with (
        EmbeddedCluster(brokers=3, ssl_context=context) as cluster,
        real_proxy(kind, tmp_path, USER, PASSWORD) as way,
    ):
        cluster.create_topic("t", partitions=3, replication_factor=3)
        async with Client(cluster.bootstrap_servers, proxy_url=way.url, **options) as client:
            async with client.producer(linger_ms=0) as producer:
                deliveries = []
                for number in range(RECORDS):
                    deliveries.append(await producer.send("t", b"%d" % number, partition=number % 3))
                    if number % 50 == 10:
                        cluster.move_all_leaders()
                    elif number % 100 == 30:
                        way.kill()
                        await way.start()
                    elif number == 90:
                        await cluster.kill_broker(1, failover_delay_ms=0)
                    elif number == 150:
                        await cluster.start_broker(1)
                    await anyio.lowlevel.checkpoint()
                with anyio.fail_after(60):
                    for delivery in deliveries:
                        await delivery
            async with client.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
                seen: list[int] = []
                with anyio.fail_after(60):
                    while len(seen) < RECORDS:
                        for records in (await consumer.getmany(timeout_ms=500)).values():
                            seen += [int(record.value or b"") for record in records]
    assert sorted(seen) == list(range(RECORDS))


@KINDS
async def test_errors_name_the_proxy_that_is_away_or_refuses(kind: str, tmp_path: Path) -> None:
    async with EmbeddedCluster(brokers=1) as cluster, real_proxy(kind, tmp_path, USER, PASSWORD) as way:
        where = rf"through the proxy 127\.0\.0\.1:{way.port}"
        if way.has_login:
            with pytest.raises(KafkaConnectionError, match=where) as refused:
                await Producer(cluster.bootstrap_servers, proxy_url=way.url.replace(PASSWORD, "another")).start()
            assert "another" not in str(refused.value)
        with pytest.raises(KafkaConnectionError, match=where):
            await Producer("127.0.0.1:1", proxy_url=way.url).start()  # no listener at that port
        way.kill()
        with pytest.raises(KafkaConnectionError, match=where):
            await Producer(cluster.bootstrap_servers, proxy_url=way.url).start()
        await way.start()

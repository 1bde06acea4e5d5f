"""Metrics pushed to a real broker, whose plugin logs them (KIP-714), beside Java's own."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, Producer
from aiokafka_lead._core.telemetry.otlp import Metric, Point, ResourceMetrics, build_payload
from aiokafka_lead._io.client import Client
from aiokafka_lead._records.layout import CODEC_IDS
from aiokafka_lead._wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from aiokafka_lead._wire.messages.push_telemetry import PushTelemetryRequest
from aiokafka_lead.admin import ConfigChange, ConfigResource, ConfigResourceType, NewTopic
from aiokafka_lead.config import ClientConfig
from tests.leadership.support import until
from tests.telemetry.support import Pushed, read, totals

from .harness import KafkaCluster
from .support import in_thread
from .support import read as read_records

pytestmark = pytest.mark.anyio

_TOOL = "org.apache.kafka.tools.ClientMetricsCommand"
Asking = tuple[KafkaCluster, Path]


class Line(NamedTuple):
    """A push, as logged by the plugin."""

    client_id: str
    client_instance_id: str
    terminating: bool
    metrics: bytes


def pushes(asking: Asking, client_id: str) -> list[Line]:
    found = []
    written, _, _ = asking[1].read_text().rpartition("\n") if asking[1].exists() else ("", "", "")
    for line in written.splitlines():  # the plugin may be in the middle of the next one
        name, instance, terminating, content_type, _, metrics = line.split("\t")
        assert content_type == "OTLP"
        if name == client_id:
            found.append(Line(name, instance, terminating == "true", base64.b64decode(metrics)))
    return found


def values(lines: Iterable[Line], *, of_java: bool = False) -> list[Pushed]:
    return [each for line in lines for each in read(line.metrics, of_java=of_java)]


@pytest.fixture
def kafka_that_asks(kafka_alone: KafkaCluster, telemetry_file: Path) -> Asking:
    return kafka_alone, telemetry_file


@pytest.fixture(name="admin")
async def admin_of_the_broker(kafka_that_asks: Asking) -> AsyncIterator[AdminClient]:
    async with AdminClient(kafka_that_asks[0].bootstrap()) as admin:
        yield admin


async def subscribe(admin: AdminClient, name: str, **options: str) -> None:
    resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, name)
    changes = [ConfigChange(option.replace("_", "."), value) for option, value in options.items()]
    await admin.incremental_alter_configs({resource: changes})


async def tool(asking: Asking, *arguments: str) -> str:
    """Return the output of kafka-client-metrics, whose exit status is no error."""
    given = ("--bootstrap-server", asking[0].bootstrap(), *arguments)
    return (await in_thread(asking[0].tools.call, _TOOL, *given)).stdout


async def test_a_broker_s_plugin_gets_what_clients_count(kafka_that_asks: Asking, admin: AdminClient) -> None:
    kafka = kafka_that_asks[0]
    topic = client_id = f"counting-{uuid4().hex[:8]}"
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await subscribe(admin, client_id, metrics="*", interval_ms="100", match=f"client_id={client_id}")
    with anyio.fail_after(60):  # a broker hears of it from the controller
        while "interval.ms=100" not in await tool(kafka_that_asks, "--describe", "--name", client_id):
            pass
    options: dict[str, Any] = {"bootstrap_servers": kafka.bootstrap(), "client_id": client_id}
    reading: dict[str, Any] = {
        "group_id": client_id,
        "group_instance_id": "i",
        "client_rack": "r",
        "auto_offset_reset": "earliest",
    }
    async with Producer(**options) as producer, Consumer(topic, **options, **reading) as consumer:
        instances = [str(await each.client_instance_id()) for each in (producer, consumer)]
        producer.register_metric_for_subscription("orders.open", lambda: 17, attributes={"shop": "a"})
        for n in range(20):
            await producer.send_and_wait(topic, b"%d" % n)
        await read_records(consumer, 20)
        await consumer.commit()
        before = len(pushes(kafka_that_asks, client_id))
        await until(lambda: len(pushes(kafka_that_asks, client_id)) > before + 4, 60)
    found = pushes(kafka_that_asks, client_id)
    # Kafka writes an id in its own way: the same 16 bytes in base64.
    by_instance = {key: [line for line in found if line.client_instance_id == key] for key in map(short, instances)}
    assert sum(map(len, by_instance.values())) == len(found)
    written, taken_in = by_instance.values()
    for lines in (written, taken_in):
        assert [line.terminating for line in lines] == [False] * (len(lines) - 1) + [True]
    sums, metrics = totals(written), producer.metrics()
    assert sums["producer.record.send.total"] == metrics.records_acked == 20
    assert sums["producer.connection.creation.total"] == metrics.connections
    requests = [each for each in values(written) if each.name == "producer.node.request.latency.max"]
    assert {each.attributes["node_id"] for each in requests} == {1}
    assert max(each.value for each in requests) <= metrics.request_latency[1].sum_ms
    registered = [each for each in values(written) if each.name == "orders.open"]
    assert {(each.value, each.attributes["shop"], each.is_sum) for each in registered} == {(17, "a", False)}
    assert totals(taken_in)["consumer.fetch.manager.records.consumed.total"] == 20
    labels = values(taken_in[-2:-1])[0].resource
    assert {**labels, "group_member_id": ""} == {
        "client_rack": "r",
        "group_id": client_id,
        "group_instance_id": "i",
        "group_member_id": "",
    }


def short(instance_id: str) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(instance_id.replace("-", ""))).decode().rstrip("=")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_names_and_kinds_are_those_of_the_java_client(kafka_that_asks: Asking, admin: AdminClient) -> None:
    kafka, topic = kafka_that_asks[0], f"compared-{uuid4().hex[:8]}"
    servers = kafka.bootstrap()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await tool(kafka_that_asks, "--alter", "--name", "both", "--metrics", "*", "--interval", "100")
    assert "both" in await admin.list_client_metrics_resources()
    given = ("--bootstrap-server", servers, "--topic", topic)
    records = b"a\n" * 20_000
    for _ in range(3):  # on a busy machine one may have sent everything before it reports the first time
        await in_thread(kafka.tools.run, "org.apache.kafka.tools.ConsoleProducer", *given, stdin=records)
        reported = values(pushes(kafka_that_asks, "console-producer"), of_java=True)
        if any(each.name == "producer.topic.record.send.total" for each in reported):
            break
    more = (*given, "--from-beginning", "--group", "java", "--timeout-ms", "8000")
    await in_thread(kafka.tools.run, "org.apache.kafka.tools.consumer.ConsoleConsumer", *more)
    options: dict[str, Any] = {"bootstrap_servers": servers, "client_id": "lead"}
    async with Producer(**options) as producer, Consumer(topic, **options, group_id="lead") as consumer:
        await consumer.wait_ready()
        await producer.send_and_wait(topic, b"1")
        await consumer.getmany(timeout_ms=10_000)
        await consumer.commit()
        before = len(pushes(kafka_that_asks, "lead"))
        await until(lambda: len(pushes(kafka_that_asks, "lead")) > before + 4, 60)
    java = values(
        (line for name in ("console-producer", "console-consumer") for line in pushes(kafka_that_asks, name)),
        of_java=True,
    )
    ours = values(pushes(kafka_that_asks, "lead"))
    assert {(each.name, each.is_sum, each.delta) for each in ours} <= {
        (each.name, each.is_sum, each.delta) for each in java
    }
    assert len({each.name for each in ours}) > 30
    for attribute in ("node_id", "topic"):
        named, theirs = (
            {each.name for each in found if each.attributes.keys() == {attribute}} for found in (ours, java)
        )
        assert named
        assert named <= theirs


async def test_a_real_broker_reads_each_codec(kafka_that_asks: Asking, admin: AdminClient) -> None:
    await subscribe(admin, "codecs", metrics="*", interval_ms="3600000", match="client_id=codec-.*")
    metrics = [
        ResourceMetrics((("group_id", "g"),), [Metric(f"org.apache.kafka.{n}", [Point(n, 1)]) for n in range(99)])
    ]
    for codec, number in CODEC_IDS.items():
        client_id = f"codec-{codec}-{uuid4().hex[:8]}"
        client = Client(ClientConfig.from_options(kafka_that_asks[0].bootstrap(), {"client_id": client_id}))
        await client.start()
        given = await client.request_any(GetTelemetrySubscriptionsRequest())
        push = PushTelemetryRequest(
            client_instance_id=given.client_instance_id,
            subscription_id=given.subscription_id,
            compression_type=number,
            metrics=build_payload(metrics, codec, given.telemetry_max_bytes).data,
        )
        answer = await client.request_any(push)
        await client.stop()
        assert answer.error_code == 0
        (line,) = pushes(kafka_that_asks, client_id)
        assert [each.value for each in read(line.metrics)] == list(range(99))
    with anyio.fail_after(60):
        await tool(kafka_that_asks, "--delete", "--name", "codecs")

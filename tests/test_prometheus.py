"""The collector for Prometheus, as a scrape sees it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import anyio
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from aiokafka_lead import Consumer, Producer, ShareConsumer, TransactionPipeline
from aiokafka_lead._scrapes import Scrapes
from aiokafka_lead.errors import ConfigTypeError
from aiokafka_lead.prometheus import METRICS, KafkaCollector
from tests.embedded import cluster_with
from tests.share.support import configure, fill, take
from tools import monitoring

pytestmark = pytest.mark.anyio

cluster = cluster_with(brokers=1, events=2)

Sample = tuple[str, frozenset[tuple[str, str]]]


async def scrape(registry: CollectorRegistry) -> dict[Sample, float]:
    """Collect the metrics in a thread, as a server does."""
    text = (await anyio.to_thread.run_sync(generate_latest, registry)).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def key(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


async def test_a_scrape(cluster: Any) -> None:
    servers = cluster.bootstrap_servers
    options: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "client_id": "reader"}
    async with (
        Producer(servers, client_id="writer") as producer,
        Consumer("events", bootstrap_servers=servers, **options) as consumer,
    ):
        registry = CollectorRegistry()
        collector = KafkaCollector(producer, consumer)
        registry.register(collector)
        await (await producer.send_many("events", [b"1", b"2", b"3"], partition=1))
        for _ in range(3):
            await consumer.getone()
        await consumer.commit()
        found = await scrape(registry)
        assert found[key("kafka_producer_records_acked_total", client_id="writer", topic="events")] == 3
        assert found[key("kafka_producer_send_latency_seconds_count", client_id="writer")] == 1
        assert found[key("kafka_producer_send_latency_seconds_bucket", client_id="writer", le="+Inf")] == 1
        assert found[key("kafka_producer_healthy", client_id="writer")] == 1
        assert found[key("kafka_consumer_records_total", client_id="reader", topic="events")] == 3
        assert found[key("kafka_consumer_lag", client_id="reader", topic="events", partition="1")] == 0
        assert found[key("kafka_consumer_position", client_id="reader", topic="events", partition="1")] == 3
        assert found[key("kafka_consumer_commit_latency_seconds_count", client_id="reader")] == 1
        assert found[key("kafka_consumer_rebalance_latency_seconds_count", client_id="reader")] >= 1
        assert found[key("kafka_consumer_fetch_latency_seconds_count", client_id="reader")] >= 1
        collector.remove(producer)
        collector.remove(producer)
        assert not any(name.startswith("kafka_producer") for name, _ in await scrape(registry))
    assert (await scrape(registry))[key("kafka_consumer_healthy", client_id="reader")] == 0


async def test_a_scrape_of_a_share_consumer(cluster: Any) -> None:
    servers = cluster.bootstrap_servers
    await configure(servers, "workers")
    await fill(servers, "events", 3, partition=0)
    options: dict[str, Any] = {"group_id": "workers", "client_id": "worker"}
    async with ShareConsumer("events", bootstrap_servers=servers, **options) as jobs:
        registry = CollectorRegistry()
        registry.register(KafkaCollector(jobs))
        assert len(await take(jobs, 3)) == 3
        await jobs.commit()
        found = await scrape(registry)
    for name in ("records", "records_accepted"):
        assert found[key(f"kafka_share_consumer_{name}_total", client_id="worker", topic="events")] == 3
    assert found[key("kafka_share_consumer_records_lost_total", client_id="worker", topic="events")] == 0
    assert found[key("kafka_share_consumer_acknowledge_latency_seconds_count", client_id="worker")] >= 1
    assert found[key("kafka_share_consumer_buffered_records", client_id="worker")] == 0
    assert found[key("kafka_share_consumer_healthy", client_id="worker")] == 1


async def test_a_scrape_of_a_pipeline_tells_its_producers_apart(cluster: Any) -> None:
    options: dict[str, Any] = {"client_id": "copier", "transactional_id": "copier"}
    async with TransactionPipeline(cluster.bootstrap_servers, **options) as pipeline:
        for number in range(3):
            async with pipeline.transaction() as txn:
                await txn.send_many("events", [b"%d" % number] * 10, partition=1)
        registry = CollectorRegistry()
        collector = KafkaCollector(pipeline)
        registry.register(collector)
        found = await scrape(registry)
        acked = [
            found[key("kafka_producer_records_acked_total", client_id=f"copier-{n}", topic="events")] for n in (0, 1)
        ]
        assert acked == [20, 10]
        assert found[key("kafka_producer_healthy", client_id="copier-1")] == 1
        collector.remove(pipeline)
        assert await scrape(registry) == {}


def test_docs_dashboard_and_alerts_are_those_of_the_table() -> None:
    for path, text in monitoring.made().items():
        assert path.read_text() == text, "python -m tools.monitoring"


def test_dashboard_and_alerts_ask_for_what_a_scrape_shows() -> None:
    described = KafkaCollector().describe()
    known = {metric.name: metric.type for metric in described}
    texts = [monitoring.ALERTS.read_text(), monitoring.DASHBOARD.read_text()]
    for name in re.findall(r"\bkafka_(?!lead)\w+", "".join(texts)):
        base, _, suffix = name.rpartition("_")
        if suffix in ("total", "bucket", "count"):
            assert known[base] == ("counter" if suffix == "total" else "histogram")
        else:
            assert known[name] == "gauge"
    panels = json.loads(texts[1])["panels"]
    shown = {panel["description"] for panel in panels if panel["type"] == "timeseries"}
    assert shown >= {metric.text for metrics in METRICS.values() for metric in metrics}
    assert len({panel["id"] for panel in panels}) == len(panels)


async def test_a_registry_takes_one_collector(cluster: Any) -> None:
    registry = CollectorRegistry()
    first = KafkaCollector(Producer(cluster.bootstrap_servers))
    registry.register(first)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry.register(KafkaCollector(Consumer(bootstrap_servers=cluster.bootstrap_servers)))
    registry.unregister(first)
    registry.register(KafkaCollector())


async def test_openmetrics_takes_every_page(cluster: Any) -> None:
    strange = 'a"b\\c\nd {e="f"} \u00e9'
    async with (
        Producer(cluster.bootstrap_servers, client_id=strange) as producer,
        Consumer("events", bootstrap_servers=cluster.bootstrap_servers, client_id=strange) as consumer,
    ):
        await producer.send_and_wait("events", b"1")
        collector = KafkaCollector(producer, consumer, ShareConsumer(bootstrap_servers="a", group_id="g"))
        registry = CollectorRegistry()
        registry.register(collector)
        text = openmetrics.generate_latest(registry).decode()  # type: ignore[no-untyped-call]
    samples = [sample for family in openmetrics_families(text) for sample in family.samples]  # type: ignore[no-untyped-call]
    assert {sample.labels["client_id"] for sample in samples} == {strange, "aiokafka-lead"}


def test_a_program_without_files() -> None:
    program = "import aiokafka_lead.metrics; del aiokafka_lead.metrics.__file__; import aiokafka_lead.prometheus"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_only_clients_are_collected_from() -> None:
    with pytest.raises(ConfigTypeError, match=r"must be a Producer, .* or a Relay, not str"):
        KafkaCollector("localhost:9092")  # type: ignore[arg-type]


async def test_clients_of_one_client_id_have_series_of_their_own(cluster: Any) -> None:
    servers = cluster.bootstrap_servers
    async with (
        Producer(servers, client_id="app") as first,
        Producer(servers, client_id="app") as second,
        Producer(servers, client_id="app-2") as third,
        Consumer("events", bootstrap_servers=servers, client_id="app") as reader,
        Consumer("events", bootstrap_servers=servers, client_id="app") as another,
        TransactionPipeline(servers, transactional_id="t", in_flight=2, client_id="app") as pipeline,
        ShareConsumer("events", bootstrap_servers=servers, group_id="w", client_id="app") as jobs,
        ShareConsumer("events", bootstrap_servers=servers, group_id="w", client_id="app") as more_jobs,
    ):
        collector = KafkaCollector(first, second, third, reader, another, pipeline, jobs, more_jobs, second)
        registry = CollectorRegistry()
        registry.register(collector)
        await (await first.send_many("events", [b"1"] * 3, partition=0))
        await (await second.send_many("events", [b"1"] * 5, partition=0))
        text = (await anyio.to_thread.run_sync(generate_latest, registry)).decode()
        series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
        assert len(series) == len(set(series))
        found = await scrape(registry)
        assert found[key("kafka_producer_records_acked_total", client_id="app", topic="events")] == 3
        assert found[key("kafka_producer_records_acked_total", client_id="app-2", topic="events")] == 5
        healthy = {labels for name, labels in found if name == "kafka_producer_healthy"}
        assert len(healthy) == 5
        assert key("kafka_producer_healthy", client_id="app-2-2") in found
        assert key("kafka_consumer_healthy", client_id="app-2") in found
        assert key("kafka_share_consumer_healthy", client_id="app-2") in found
        collector.remove(first)
        found = await scrape(registry)
        assert key("kafka_producer_records_acked_total", client_id="app", topic="events") not in found
        assert found[key("kafka_producer_records_acked_total", client_id="app-2", topic="events")] == 5
        collector.add(first)
        found = await scrape(registry)
        assert found[key("kafka_producer_records_acked_total", client_id="app", topic="events")] == 3


async def test_a_page_that_is_cut_short_is_left_out() -> None:
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket has at most 107 bytes
        here = Scrapes(folder, "app", lambda: "# TYPE kafka_consumer_lag gauge\nkafka_consumer_lag 1\n")
        whole, short = (f"{folder}/{here._stem}{pid}.sock" for pid in (1, 2))

        async def answer(page: bytes, stream: Any) -> None:
            async with stream:
                await stream.send(page)

        found: list[Any] = []
        pages = {whole: b"kafka_consumer_lag 12\n# EOF\n", short: b"kafka_consumer_lag 1"}
        async with AsyncExitStack() as listeners, anyio.create_task_group() as tasks:
            for path, page in pages.items():
                listener = await listeners.enter_async_context(await anyio.create_unix_listener(path))
                tasks.start_soon(listener.serve, partial(answer, page))
            found += [sample for metric in (await here.workers()).collect() for sample in metric.samples]
            tasks.cancel_scope.cancel()
    assert {sample.labels["pid"]: sample.value for sample in found} == {"1": 12, str(os.getpid()): 1}

"""An app and the service behind it, as in the documentation, while brokers die and processes are stopped."""

from __future__ import annotations

import signal
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from aiokafka_lead import AdminClient, Producer, TopicPartition
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from ..otlp import Collector
from ..ports import PortPool
from ..programs import Program
from ..suites import crossed

AT_ONCE = 40
DEADLINE_S = 25
PATIENT = {"UVICORN_TIMEOUT_WORKER_HEALTHCHECK": "60"}
"""Otherwise uvicorn kills a worker that a busy machine keeps from answering for 5 s."""


@contextmanager
def three_brokers() -> Iterator[ClusterThread]:
    with ClusterThread(EmbeddedCluster(3)) as cluster:
        cluster.create_topic("orders", 6, replication_factor=3)
        cluster.create_topic("orders.failed", 1, replication_factor=3)
        yield cluster


def billed(ledger: Path) -> Counter[tuple[str, str, int]]:
    with closing(sqlite3.connect(ledger, timeout=30)) as opened:
        return Counter(opened.execute("SELECT order_id, customer, cents FROM bills").fetchall())


class Orders:
    """Customers, each repeating an order with the same id until it is accepted."""

    def __init__(self) -> None:
        self.slowest_s = 0.0
        self.refused = 0
        self.accepted: dict[str, tuple[int, int]] = {}
        """Positions of the records, by the order's id."""

    async def order(self, http: httpx.AsyncClient, number: int) -> None:
        order_id = f"order-{number}"
        while order_id not in self.accepted:
            began = time.monotonic()
            answer = await http.post("/orders", json=order(number), headers={"idempotency-key": order_id})
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            if answer.status_code == 202:
                self.accepted[order_id] = (answer.json()["partition"], answer.json()["offset"])
            else:
                assert answer.status_code == 503
                self.refused += 1
                await anyio.sleep(0.1)


def order(number: int) -> dict[str, Any]:
    return {"customer": f"c{number % 50}", "cents": number + 1}


@pytest.mark.parametrize("count", crossed([160, 400]))
def test_every_order_is_billed_once_though_brokers_die_and_processes_end(
    ports: PortPool, tmp_path: Path, count: int
) -> None:
    port, ledger, orders = ports.take(), tmp_path / "ledger.db", Orders()
    with three_brokers() as cluster, Collector() as collector, ExitStack() as programs:
        traced = {"OTLP_ENDPOINT": collector.endpoint}

        def start_service() -> Program:
            arguments = ("-m", "tests.service.traced_billing", cluster.bootstrap_servers)
            return programs.enter_context(Program(*arguments, LEDGER=str(ledger), **traced))

        server = programs.enter_context(
            Program(
                *("-m", "uvicorn", "tests.service.traced_orders:app", "--port", str(port), "--workers", "2"),
                BOOTSTRAP_SERVERS=cluster.bootstrap_servers,
                **traced,
                **PATIENT,
            )
        )
        services = [start_service() for _ in range(2)]
        for _ in range(2):
            server.read_until("Application startup complete")
        for service in services:
            service.read_until("handling orders")

        async def go_wrong(number: int) -> None:
            if number == count // 4:
                await anyio.to_thread.run_sync(cluster.kill_broker, 1)
            elif number == count // 2:
                services[0].send_signal()
                services.append(start_service())
            elif number == count * 3 // 5:
                await anyio.to_thread.run_sync(cluster.start_broker, 1)
            elif number == count * 3 // 4:
                await anyio.to_thread.run_sync(cluster.kill_broker, 2)

        async def order_all() -> None:
            async def order_some(http: httpx.AsyncClient) -> None:
                for number in numbers:
                    await orders.order(http, number)
                    await go_wrong(number)

            numbers = iter(range(count))
            async with (
                httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as http,
                anyio.create_task_group() as tasks,
            ):
                assert (await http.get("/health/live")).status_code == 200
                assert (await http.get("/health/ready")).json() == {"healthy": True, "problems": []}
                for _ in range(AT_ONCE):
                    tasks.start_soon(order_some, http)

        anyio.run(order_all)
        assert len(orders.accepted) == count
        assert orders.slowest_s < DEADLINE_S
        assert server.end() in (0, -signal.SIGTERM)  # a server with one process ends by the signal that it has handled
        until = time.monotonic() + 60
        while len(billed(ledger)) < count and time.monotonic() < until:
            time.sleep(0.05)
        for service in services:
            if service.is_running:
                service.send_signal()
            assert service.wait() == 0
            assert "stopped\n" in service.lines
        assert cluster.records("orders.failed") == []
    assert billed(ledger) == Counter((f"order-{number}", *order(number).values()) for number in range(count))
    paths = collector.paths()
    for place in orders.accepted.values():
        work, sent, *_, request = paths[place]
        assert (work.service, work.name) == ("billing", "process orders")
        assert (sent.service, sent.name) == ("orders-api", "send orders")
        assert request.name == "POST /orders"
        assert work.trace_id == sent.trace_id == request.trace_id


def test_an_app_starts_though_kafka_is_down_and_is_ready_when_it_is_up(ports: PortPool) -> None:
    port, broker = ports.take(), ports.take()
    arguments = ("-m", "uvicorn", "examples.fastapi_orders:app", "--port", str(port))
    with (
        Program(*arguments, BOOTSTRAP_SERVERS=f"127.0.0.1:{broker}") as server,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http,
    ):
        server.read_until("Uvicorn running on")
        assert http.get("/health/live").status_code == 200
        assert http.get("/health/ready").json()["problems"] == ["no broker has been reached yet"]
        assert http.post("/orders", json={"customer": "ann", "cents": 1}).status_code == 503
        with ClusterThread(EmbeddedCluster(1, ports=[broker])) as cluster:
            cluster.create_topic("orders")
            cluster.wait_for_requests("Metadata")
            assert http.post("/orders", json={"customer": "ann", "cents": 1}).status_code == 202
            assert http.get("/health/ready").status_code == 200
            assert len(cluster.records("orders")) == 1
        assert server.end() in (0, -signal.SIGTERM)  # a server with one process ends by the signal that it has handled


@pytest.mark.parametrize("workers", [1, 2])
def test_a_signal_lets_handlers_end_and_workers_show_their_metrics_together(ports: PortPool, workers: int) -> None:
    port = ports.take()
    arguments = ("-m", "uvicorn", "tests.service.slow_app:app", "--port", str(port), "--workers", str(workers))
    with (
        tempfile.TemporaryDirectory() as folder,  # the path of a socket has at most 107 bytes, which tmp_path may pass
        ClusterThread(EmbeddedCluster(1)) as cluster,
        Program(
            *arguments, BOOTSTRAP_SERVERS=cluster.bootstrap_servers, PROMETHEUS_MULTIPROC_DIR=folder, **PATIENT
        ) as server,
    ):
        cluster.create_topic("orders")
        cluster.create_topic("jobs", 2)
        for _ in range(workers):
            server.read_until("Application startup complete")
        by_worker: Counter[str] = Counter()
        while len(by_worker) < workers:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:  # a separate connection
                by_worker[http.post("/orders", content=b"1").text] += 1
        for accept in ("", "application/openmetrics-text; version=1.0.0"):
            page = httpx.get(f"http://127.0.0.1:{port}/metrics", headers={"accept": accept}).text
            parse = openmetrics_families if accept else text_families
            samples = [sample for family in parse(page) for sample in family.samples]
            assert by_worker == {
                sample.labels["pid"]: sample.value
                for sample in samples
                if sample.name == "kafka_producer_records_acked_total"
            }
            series = [(sample.name, *sorted(sample.labels.items())) for sample in samples]
            assert len(series) == len(set(series))
        anyio.run(publish, cluster.bootstrap_servers)
        server.read_until("begun")
        assert server.end() in (0, -signal.SIGTERM)
        assert "done\n" in server.lines
        assert anyio.run(committed, cluster.bootstrap_servers) == 1
        assert list(Path(folder).glob("*.sock")) == []


async def publish(servers: str) -> None:
    async with Producer(servers) as producer:
        await producer.send_and_wait("jobs", b"1", partition=0)


async def committed(servers: str) -> int:
    async with AdminClient(servers) as admin:
        found = (await admin.list_consumer_group_offsets("g"))[TopicPartition("jobs", 0)]
    assert found is not None
    return found.offset

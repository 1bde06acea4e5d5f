"""Traces at Apache Kafka: from a request through a topic into the handler, in an OpenTelemetry collector."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.otlp import Collector
from tests.ports import PortPool
from tests.programs import Program

from .harness import KafkaCluster


def test_one_trace_from_a_request_into_the_handler(kafka: KafkaCluster, ports: PortPool, tmp_path: Path) -> None:
    port, servers = ports.take(), kafka.bootstrap()
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    kafka.create_topic("orders")
    kafka.create_topic("orders.failed")
    with Collector() as collector:
        traced = {"OTLP_ENDPOINT": collector.endpoint}
        with (
            Program(
                *("-m", "uvicorn", "tests.service.traced_orders:app", "--port", str(port)),
                BOOTSTRAP_SERVERS=servers,
                **traced,
            ) as server,
            Program(
                "-m", "tests.service.traced_billing", servers, LEDGER=str(tmp_path / "ledger.db"), **traced
            ) as billing,
        ):
            server.read_until("Uvicorn running on")
            answer = httpx.post(
                f"http://127.0.0.1:{port}/orders",
                json={"customer": "ann", "cents": 5},
                headers={"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"},
                timeout=30,
            )
            assert answer.status_code == 202
            billing.read_until("ann owes 5 cents")
            billing.send_signal()
            assert billing.wait() == 0
            server.end()
        path = collector.paths()[answer.json()["partition"], answer.json()["offset"]]
    assert [path[at].name for at in (0, 1, -1)] == ["process orders", "send orders", "POST /orders"]
    assert {span.trace_id.hex() for span in path} == {trace_id}
    assert path[-1].parent_id.hex() == "b7ad6b7169203331"

"""The examples run as their first lines say: as programs of their own, talked to over HTTP, pipes and signals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest
from rich.cells import cell_len

from aiokafka_lead import Producer
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

SERVER = ("-m", "uvicorn", "examples.fastapi_orders:app", "--port", "0")


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    with ClusterThread(EmbeddedCluster(3)) as running:
        running.create_topic("orders", 3)
        yield running


@contextmanager
def program(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program, killed if it has not ended by itself; its output and its errors in one pipe."""
    process = subprocess.Popen(
        [sys.executable, "-u", *arguments],
        env={**os.environ, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """Read lines until one has what is looked for."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"no {pattern!r} in:\n{''.join(seen)}")


def test_the_fastapi_app_publishes_what_it_accepts_and_says_when_it_cannot(cluster: ClusterThread) -> None:
    with (
        program(*SERVER, BOOTSTRAP_SERVERS=cluster.bootstrap_servers) as server,
        httpx.Client(base_url=read_until(server, r"running on (http://\S+)")[1], timeout=30) as http,
    ):
        answers = [http.post("/orders", json={"customer": f"c{n % 4}", "cents": n + 1}) for n in range(12)]
        assert [answer.status_code for answer in answers] == [202] * 12
        assert http.post("/orders", json={"customer": "", "cents": 1}).status_code == 422
        stored = {}
        for partition in range(3):
            for record in cluster.records("orders", partition):
                order_id = (dict(record.headers)["order-id"] or b"").decode()
                stored[order_id] = (record.partition, record.offset, json.loads(record.value or b""))
        assert stored == {
            body["order_id"]: (body["partition"], body["offset"], {"customer": f"c{n % 4}", "cents": n + 1, "note": ""})
            for n, body in enumerate(answer.json() for answer in answers)
        }
        assert http.post("/orders", json={"customer": "ann", "cents": 1, "note": "x" * 2_000_000}).status_code == 413
        assert http.get("/ready").json() == {"ready": True}
        for broker in range(1, 4):
            cluster.kill_broker(broker)
        refused = http.post("/orders", json={"customer": "ann", "cents": 1})
        assert (refused.status_code, refused.json()) == (503, {"detail": "try again later"})
        assert refused.headers["retry-after"] == "5"
        server.send_signal(signal.SIGTERM)
        read_until(server, "Finished server process")


def test_the_consumer_service_bills_every_order_once_and_sets_aside_what_is_none(cluster: ClusterThread) -> None:
    async def order(*values: bytes) -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            for value in values:
                await producer.send_and_wait("orders", value, key=b"ann", partition=1)

    def bill(cents: int) -> bytes:
        return json.dumps({"customer": "ann", "cents": cents}).encode()

    anyio.run(order, bill(100), b"no order", bill(250))
    for expected in (350, 7):
        with program("examples/consumer_service.py", cluster.bootstrap_servers) as service:
            read_until(service, f"ann owes {expected} cents")
            service.send_signal(signal.SIGTERM)
            read_until(service, "stopped")
            assert service.wait(10) == 0
        anyio.run(order, bill(7))
    (failed,) = cluster.records("orders.failed")
    assert failed.value == b"no order"


DEMO = ("-m", "examples.demo", "--seconds", "4", "--partitions", "10")


@pytest.mark.parametrize(
    "arguments", [("-m", "examples.trio_program"), (*DEMO, "--backend", "asyncio"), (*DEMO, "--backend", "trio")]
)
def test_programs_with_a_cluster_of_their_own_end_well(arguments: tuple[str, ...]) -> None:
    with program(*arguments) as process:
        output, _ = process.communicate(timeout=50)
        assert process.returncode == 0, output
    if arguments[:2] == DEMO[:2]:
        assert "killed" in output
        assert "acknowledged and consumed exactly once, through 40 leader moves and a broker's death" in one_line(
            output
        )
        assert len(output.splitlines()) < 20


@pytest.mark.parametrize("columns", [80, 120])
def test_the_demo_fits_a_terminal(columns: int) -> None:
    with program(*DEMO, FORCE_COLOR="1", COLUMNS=str(columns), LINES="24") as process:
        output, _ = process.communicate(timeout=50)
        assert process.returncode == 0, output
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", line) for line in output.splitlines()]
    assert max(map(cell_len, lines)) <= columns
    frames = "\n".join(lines).split("3 brokers in this process")[1:]
    assert len(frames) > 8
    assert max(frame.rpartition("hints off, consumed")[0].count("\n") for frame in frames) < 23
    assert any(re.search(r"broker (\d) killed\s.*^\1 .* killed ", frame, re.MULTILINE | re.DOTALL) for frame in frames)
    assert all("with hints" in frame and "hints off" in frame for frame in frames)


def test_the_demo_on_a_cluster_that_runs_already(cluster: ClusterThread) -> None:
    with program(*DEMO, "--bootstrap", cluster.bootstrap_servers) as process:
        output, _ = process.communicate(timeout=50)
        assert process.returncode == 0, output
    assert "exactly once, through 40 leader moves; while" in one_line(output)
    assert cluster.topic_names() == ["orders"]


def test_the_outbox_is_published_once_in_order(cluster: ClusterThread) -> None:
    with program("examples/outbox.py", cluster.bootstrap_servers) as process:
        output, _ = process.communicate(timeout=30)
        assert (process.returncode, output) == (0, "published 500 orders\n" * 2)
    cents = [
        [json.loads(record.value or b"")["cents"] for record in cluster.records("orders", partition)]
        for partition in range(3)
    ]
    assert cents == [sorted(part) for part in cents]
    assert sorted(one for part in cents for one in part) == [100 + number for number in range(1000)]


def test_what_is_published_reaches_those_that_listen(cluster: ClusterThread) -> None:
    async def order() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"one\ntwo", partition=1)

    arguments = ("-m", "uvicorn", "examples.sse_orders:app", "--port", "0", "--timeout-graceful-shutdown", "1")
    with (
        program(*arguments, BOOTSTRAP_SERVERS=cluster.bootstrap_servers) as server,
        httpx.Client(base_url=read_until(server, r"running on (http://\S+)")[1], timeout=30) as http,
    ):
        assert http.get("/live").json() == {"problems": []}
        with http.stream("GET", "/orders") as first, http.stream("GET", "/orders") as second:
            streams = [first.iter_lines(), second.iter_lines()]
            assert [next(lines) for lines in streams] == [": welcome"] * 2
            anyio.run(order)
            for lines in streams:
                assert [next(lines) for _ in range(4)] == ["", "id: 1-0", "data: one", "data: two"]
        server.send_signal(signal.SIGTERM)
        read_until(server, "Finished server process")


def test_the_ten_lines_of_the_readme_end_by_themselves(cluster: ClusterThread) -> None:
    (code,) = re.findall(r"```python\n(import asyncio\n.*?)```", Path("README.md").read_text(), re.DOTALL)
    for _ in range(2):
        with program("-c", code.replace("localhost:9092", cluster.bootstrap_servers)) as process:
            output, _ = process.communicate(timeout=30)
            assert process.returncode == 0, output
        assert output == "b'k' b'hello'\n"


def one_line(output: str) -> str:
    """The output without its line breaks."""
    return " ".join(output.split())

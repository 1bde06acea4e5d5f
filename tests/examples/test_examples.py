"""The examples run as their first lines say: as separate programs, controlled by HTTP, pipes and signals."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest
from rich.cells import cell_len

from aiokafka_lead import Producer
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster
from tests.ports import PortPool
from tests.programs import Program
from tests.suites import ALL, crossed

SERVER = ("-m", "uvicorn", "examples.fastapi_orders:app", "--port", "0")


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    with ClusterThread(EmbeddedCluster(3)) as running:
        running.create_topic("orders", 3)
        yield running


def test_the_fastapi_app_publishes_what_it_accepts_and_says_when_it_cannot(cluster: ClusterThread) -> None:
    with (
        Program(*SERVER, BOOTSTRAP_SERVERS=cluster.bootstrap_servers) as server,
        httpx.Client(base_url=server.read_until(r"running on (http://\S+)")[1], timeout=30) as http,
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
        assert http.get("/health/ready").json() == {"healthy": True, "problems": []}
        for broker in range(1, 4):
            cluster.kill_broker(broker)
        refused = http.post("/orders", json={"customer": "ann", "cents": 1})
        assert (refused.status_code, refused.json()) == (503, {"detail": "try again later"})
        assert refused.headers["retry-after"] == "5"
        server.send_signal()
        server.read_until("Finished server process")


def test_the_consumer_service_bills_every_order_once_and_sets_aside_what_is_none(
    cluster: ClusterThread, tmp_path: Path
) -> None:
    async def order(*values: bytes, order_id: bytes | None = None) -> None:
        headers = [] if order_id is None else [("order-id", order_id)]
        async with Producer(cluster.bootstrap_servers) as producer:
            for value in values:
                await producer.send_and_wait("orders", value, key=b"ann", headers=headers, partition=1)

    def bill(cents: int) -> bytes:
        return json.dumps({"customer": "ann", "cents": cents}).encode()

    anyio.run(order, bill(100), b"no order", bill(250))
    for expected in ("ann owes 350 cents", "a7 was billed before"):
        with Program(
            "examples/consumer_service.py", cluster.bootstrap_servers, LEDGER=str(tmp_path / "ledger.db")
        ) as service:
            service.read_until(expected)
            service.send_signal()
            service.read_until("stopped")
            assert service.wait() == 0
        for _ in range(2):
            anyio.run(partial(order, bill(7), order_id=b"a7"))
    assert "ann owes 357 cents" in service.output
    (failed,) = cluster.records("orders.failed")
    assert failed.value == b"no order"


def test_jobs_that_requests_enqueue_are_done(cluster: ClusterThread) -> None:
    with (
        Program(
            "-m", "uvicorn", "examples.fastapi_jobs:app", "--port", "0", BOOTSTRAP_SERVERS=cluster.bootstrap_servers
        ) as server,
        httpx.Client(base_url=server.read_until(r"running on (http://\S+)")[1], timeout=30) as http,
    ):
        assert http.post("/thumbnails", json={"image": "cat.png"}).status_code == 202
        assert http.post("/thumbnails", json={"image": ""}).status_code == 422
        server.read_until(r"thumbnail of cat\.png, 200 wide \(delivery 1\)")
        server.send_signal()
        server.read_until("Finished server process")


def test_a_worker_does_jobs_tries_again_and_sets_aside_what_is_none(cluster: ClusterThread, ports: PortPool) -> None:
    async def enqueue(*values: bytes) -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            for value in values:
                await producer.send_and_wait("images", value)

    def job(image: str, seconds: float) -> bytes:
        return json.dumps({"image": image, "width": 200, "seconds": seconds}).encode()

    port = ports.take()
    anyio.run(enqueue, job("cat.png", 0), job("dog.png", 1), b"no job")
    with Program("examples/worker.py", cluster.bootstrap_servers, HEALTH_PORT=str(port)) as worker:
        worker.read_until(r"cat\.png resized to 200 \(delivery 1\)")
        assert httpx.get(f"http://127.0.0.1:{port}/health/ready").json()["healthy"] is True
        worker.send_signal()
        worker.read_until(r"dog\.png resized to 200 \(delivery 1\)")  # it was in progress, and is finished
        worker.read_until("stopped")
        assert worker.wait() == 0
    with Program("examples/worker.py", cluster.bootstrap_servers) as worker:
        until = time.monotonic() + 60
        while not cluster.records("images.failed"):
            assert time.monotonic() < until
            time.sleep(0.05)
        worker.send_signal()
        worker.read_until("stopped")
    (failed,) = cluster.records("images.failed")
    assert failed.value == b"no job"
    assert dict(failed.headers)["dead_letter.attempts"] == b"4"


DEMO = ("-m", "examples.demo", "--seconds", "2", "--partitions", "10")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-m", "examples.trio_program"),
        (*DEMO, "--backend", "asyncio"),
        pytest.param((*DEMO, "--backend", "trio"), marks=ALL),
    ],
)
def test_programs_with_a_cluster_of_their_own_end_well(arguments: tuple[str, ...]) -> None:
    with Program(*arguments) as process:
        assert process.wait() == 0
        if arguments[:2] == DEMO[:2]:
            verdict = "acknowledged and consumed exactly once, through 40 leader moves and a broker's death"
            assert verdict in one_line(process.output)
            assert len([line for line in process.lines if " s  sent " not in line]) < 15


@pytest.mark.usefixtures("handler_of_python")
@pytest.mark.parametrize("backend", crossed(["asyncio", "trio"]))
def test_ctrl_c_ends_the_demo_without_a_traceback(backend: str) -> None:
    with Program("-m", "examples.demo", "--backend", backend) as process:
        process.read_until("sent +[1-9]")
        assert process.end(signal.SIGINT) == 130
        assert "Traceback" not in process.output


@pytest.mark.parametrize("columns", crossed([80, 120]))
def test_the_demo_fits_a_terminal(columns: int) -> None:
    with Program(*DEMO, FORCE_COLOR="1", COLUMNS=str(columns), LINES="24") as process:
        assert process.wait() == 0
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", line) for line in process.output.splitlines()]
    assert max(map(cell_len, lines)) <= columns
    frames = "\n".join(lines).split("3 brokers in this process")[1:]
    assert len(frames) > 2  # on a busy machine, too
    assert max(frame.rpartition("hints off, consumed")[0].count("\n") for frame in frames) < 23
    assert any(re.search(r"broker (\d) killed\s.*^\1 .* killed ", frame, re.MULTILINE | re.DOTALL) for frame in frames)
    assert all("with hints" in frame and "hints off" in frame for frame in frames)


def test_the_demo_on_a_cluster_that_runs_already(cluster: ClusterThread) -> None:
    with Program(*DEMO, "--bootstrap", cluster.bootstrap_servers) as process:
        assert process.wait() == 0
        assert "exactly once, through 40 leader moves; while" in one_line(process.output)
    assert cluster.topic_names() == ["orders"]


def test_the_outbox_is_published_once_in_order(cluster: ClusterThread) -> None:
    with Program("examples/outbox.py", cluster.bootstrap_servers) as process:
        assert process.wait() == 0, process.output
        assert "published 200 orders" in process.output
    by_customer: dict[bytes | None, list[int]] = defaultdict(list)
    for record in cluster.records("orders"):
        if record.value is not None:
            by_customer[record.key].append(json.loads(record.value)["cents"])
    assert by_customer == {
        b"customer-%d" % customer: [100 + number for number in range(customer, 200, 7)] for customer in range(7)
    }


def test_what_is_published_reaches_those_that_listen(cluster: ClusterThread) -> None:
    async def order() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"one\ntwo", partition=1)

    arguments = ("-m", "uvicorn", "examples.sse_orders:app", "--port", "0", "--timeout-graceful-shutdown", "1")
    with (
        Program(*arguments, BOOTSTRAP_SERVERS=cluster.bootstrap_servers) as server,
        httpx.Client(base_url=server.read_until(r"running on (http://\S+)")[1], timeout=30) as http,
    ):
        assert http.get("/health/live").json() == {"healthy": True, "problems": []}
        with http.stream("GET", "/orders") as first, http.stream("GET", "/orders") as second:
            streams = [first.iter_lines(), second.iter_lines()]
            assert [next(lines) for lines in streams] == [": welcome"] * 2
            cluster.wait_for_requests("Fetch", broker=cluster.leader("orders", 1))  # it reads on from here
            anyio.run(order)
            for lines in streams:
                assert [next(lines) for _ in range(4)] == ["", "id: 1-0", "data: one", "data: two"]
        server.send_signal()
        server.read_until("Finished server process")


def test_the_ten_lines_of_the_readme_end_by_themselves(cluster: ClusterThread) -> None:
    (code,) = re.findall(r"```python\n(import asyncio\n.*?)```", Path("README.md").read_text(), re.DOTALL)
    for _ in range(2):
        with Program("-c", code.replace("localhost:9092", cluster.bootstrap_servers)) as process:
            assert (process.wait(), process.output) == (0, "b'k' b'hello'\n")


def one_line(output: str) -> str:
    """Return the output without its line breaks."""
    return " ".join(output.split())

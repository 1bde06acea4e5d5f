"""`Consumer.run` and `ShareConsumer.run` in separate processes: signals, and the probes of an orchestrator."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Iterator

import anyio
import pytest

from aiokafka_lead import Producer
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster
from tests.share.support import configure

from ..ports import PortPool
from ..programs import Program

PROGRAM = """
import logging, sys
import anyio
from aiokafka_lead import Consumer, ShareConsumer

servers, port, backend, how, kind = sys.argv[1:]
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)

async def handle(record):
    print("handling", record.offset, flush=True)
    if record.value == b"stuck" and how == "stuck":
        await anyio.sleep_forever()
    await anyio.sleep(0.3)
    print("handled", record.offset, flush=True)

async def main():
    options = {"bootstrap_servers": servers, "group_id": "g", "close_timeout_ms": 60000}
    if kind == "log":
        consumer = Consumer("orders", auto_offset_reset="earliest", **options)
    else:
        consumer = ShareConsumer("orders", **options)
    async with consumer:
        await consumer.run(handle, stop_on_signals=True, health_port=int(port), health_host="127.0.0.1")
        print("returned", flush=True)

anyio.run(main, backend=backend)
print("ended", flush=True)
"""


def service(cluster: ClusterThread, port: int, backend: str, how: str, kind: str = "log") -> Program:
    return Program("-c", PROGRAM, cluster.bootstrap_servers, str(port), backend, how, kind)


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        cluster.create_topic("orders")
        anyio.run(configure, cluster.bootstrap_servers, "g")
        yield cluster


def order(cluster: ClusterThread, value: bytes) -> None:
    async def send() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", value)

    anyio.run(send)


def ask(port: int, path: str, method: str = "GET") -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else {}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_when_the_work_in_hand_is_done(
    cluster: ClusterThread, ports: PortPool, backend: str, number: signal.Signals
) -> None:
    port = ports.take()
    order(cluster, b"1")
    with service(cluster, port, backend, "slow") as process:
        process.read_until("^handling 0$")
        assert ask(port, "/health/live")[0] == 200
        status, said = ask(port, "/health/ready")
        assert (status, said["healthy"], said["problems"]) == (200, True, [])
        assert ask(port, "/health/ready", "HEAD") == (200, {})
        assert ask(port, "/health/ready", "POST")[0] == 405
        assert ask(port, "/")[0] == 404
        process.send_signal(number)
        for line in ("handled 0", "returned", "ended"):
            process.read_until(f"^{line}$")
        assert process.wait() == 0
    order(cluster, b"2")
    with service(cluster, port, backend, "slow") as process:
        process.read_until("^handling 1$")  # handled records are committed


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_second_signal_gives_up_what_is_in_hand(cluster: ClusterThread, ports: PortPool, backend: str) -> None:
    port = ports.take()
    order(cluster, b"1")
    order(cluster, b"stuck")
    with service(cluster, port, backend, "stuck") as process:
        process.read_until("^handling 1$")
        process.send_signal(signal.SIGTERM)
        process.read_until("aiokafka-lead: SIGTERM: stopping the consumer")
        assert ask(port, "/health/ready")[0] == 503
        assert ask(port, "/health/live")[0] == 200  # not to be killed before it has finished
        process.send_signal(signal.SIGTERM)
        process.read_until("^ended$")
        assert process.wait() == 0
    with service(cluster, port, backend, "again") as process:
        process.read_until("^handling 1$")


def test_a_share_consumer_gives_back_what_it_had_not_begun(cluster: ClusterThread, ports: PortPool) -> None:
    port = ports.take()
    for value in (b"1", b"stuck", b"3"):
        order(cluster, value)
    with service(cluster, port, "trio", "stuck", "queue") as process:
        process.read_until("^handled 2$")
        status, said = ask(port, "/health/ready")
        assert (status, said["healthy"]) == (200, True)
        assert isinstance(said["since_heartbeat_ms"], float)
        process.send_signal(signal.SIGTERM)
        process.read_until("aiokafka-lead: SIGTERM: stopping the consumer")
        assert ask(port, "/health/ready")[0] == 503
        assert ask(port, "/health/live")[0] == 200
        process.send_signal(signal.SIGTERM)
        process.read_until("^ended$")
        assert process.wait() == 0
    with service(cluster, port, "asyncio", "again", "queue") as process:
        process.read_until("^handling 1$")
        process.send_signal(signal.SIGTERM)
        for line in ("handled 1", "returned", "ended"):
            process.read_until(f"^{line}$")


TWO = """
import asyncio, logging, signal, sys
import anyio
from aiokafka_lead import Client

servers, loop = sys.argv[1:]
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)

class AsOnWindows(asyncio.SelectorEventLoop):
    def add_signal_handler(self, *arguments):
        raise NotImplementedError

begun = []

async def handle(record):
    print("handling", flush=True)
    begun.append(record)
    while len(begun) < 2:
        await anyio.sleep(0.01)
    await anyio.sleep(0.3)
    print("handled", flush=True)

def its_own(number, frame):
    print("the application's", flush=True)

async def main():
    options = {"auto_offset_reset": "earliest", "close_timeout_ms": 60000}
    async with Client(servers) as client:
        async with client.consumer("orders", group_id="one", **options) as one:
            async with client.consumer("orders", group_id="two", **options) as two:
                async with anyio.create_task_group() as tasks:
                    for each in one, two:
                        tasks.start_soon(lambda each=each: each.run(handle, stop_on_signals=True))
        print("returned", flush=True)

before = signal.signal(signal.SIGTERM, its_own)
options = {"uvloop": {"use_uvloop": True}, "windows": {"loop_factory": AsOnWindows}}.get(loop, {})
anyio.run(main, backend="trio" if loop == "trio" else "asyncio", backend_options=options)
signal.raise_signal(signal.SIGTERM)
print("ended", flush=True)
"""


@pytest.mark.parametrize("loop", ["asyncio", "windows", "uvloop", "trio"])
def test_a_signal_ends_all_runs_of_a_process(cluster: ClusterThread, loop: str) -> None:
    order(cluster, b"1")
    with Program("-c", TWO, cluster.bootstrap_servers, loop) as process:
        for _ in range(2):
            process.read_until("^handling$")
        process.send_signal(signal.SIGTERM)
        for line in ("handled", "handled", "returned", "the application's", "ended"):
            process.read_until(f"^{line}$")
        assert process.wait() == 0

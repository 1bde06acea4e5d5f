"""Names of bootstrap servers that do not resolve, or resolve late (KIP-909)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, Producer
from aiokafka_lead._io.connection.transport import resolve
from aiokafka_lead.errors import BootstrapResolutionError, KafkaError, UnresolvedHostError
from aiokafka_lead.testing import EmbeddedCluster

from ..names import Names, resolving
from .late_names import KINDS, LateNames, prepare, run

pytestmark = pytest.mark.anyio


@pytest.fixture
def names() -> Iterator[Names]:
    with resolving() as names:
        names["kafka.test"] = []
        yield names


async def test_kip_909_a_name_without_an_address_fails_at_once(names: Names) -> None:
    producer = Producer("kafka.test:9092")
    with anyio.fail_after(20), pytest.raises(BootstrapResolutionError, match=r"kafka\.test:9092.*no address"):
        await producer.start()


async def test_kip_909_or_when_it_has_been_waited_for(names: Names) -> None:
    consumer = Consumer(bootstrap_servers="kafka.test:9092,kafka.test:9093", bootstrap_resolve_timeout_ms=300)
    began = time.monotonic()
    with anyio.fail_after(20), pytest.raises(BootstrapResolutionError, match=r"9092.*9093"):
        await consumer.start()
    assert time.monotonic() - began >= 0.3


async def test_kip_909_or_within_the_time_of_the_call(names: Names) -> None:
    consumer = Consumer(bootstrap_servers="kafka.test:9092", bootstrap_resolve_timeout_ms=3_600_000)
    with anyio.fail_after(60), pytest.raises(BootstrapResolutionError, match="9092"):
        await consumer.start(timeout_ms=300)


@pytest.mark.parametrize("wait", [True, False], ids=["waits", "started"])
@pytest.mark.parametrize("kind", KINDS)
async def test_kip_909_clients_of_every_kind_use_a_name_that_resolves_late(kind: str, wait: bool) -> None:
    names = LateNames()

    async def come() -> None:
        while names.lookups["kafka.test"] < 3:  # noqa: ASYNC110 - it has no event
            await anyio.sleep(0.01)
        names.come()

    async with EmbeddedCluster(brokers=1) as cluster:
        port = await prepare(cluster)
        with resolving(names), anyio.fail_after(30):
            async with anyio.create_task_group() as later:
                later.start_soon(come)
                await run(kind, f"kafka.test:{port}", wait=wait)
    assert names.lookups["kafka.test"] < 40  # once for each try, and then for each connection


async def test_kip_909_a_name_server_that_does_not_answer_is_waited_for(names: Names) -> None:
    silent = LateNames(silent=True)
    quick: dict[str, Any] = {"socket_connection_setup_timeout_ms": 100, "socket_connection_setup_timeout_max_ms": 100}
    async with EmbeddedCluster(brokers=1) as cluster:
        port = cluster.address(1).rpartition(":")[2]
        with resolving(silent):
            try:
                text = "no answer within 100 ms during the look-up of the host's name"
                with anyio.fail_after(20), pytest.raises(BootstrapResolutionError, match=text):
                    await Producer(f"kafka.test:{port}", **quick).start()
                admin = AdminClient(f"kafka.test:{port}", **quick, bootstrap_resolve_timeout_ms=20_000)
                async with anyio.create_task_group() as starting:
                    starting.start_soon(admin.start)
                    with anyio.fail_after(20):
                        while silent.lookups["kafka.test"] < 4:  # noqa: ASYNC110 - as above
                            await anyio.sleep(0.01)
                    silent.come()
                assert await admin.list_topics() is not None
                await admin.stop()
            finally:
                silent.come()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_ends_while_name_servers_are_silent(backend: str) -> None:
    silent = LateNames(silent=True)

    async def main() -> None:
        for kind in (Producer, Consumer, AdminClient):
            with pytest.raises(KafkaError):
                await kind(bootstrap_servers="kafka.test:9092").start(timeout_ms=50)
            begun = silent.lookups["kafka.test"]
            client = kind(bootstrap_servers="kafka.test:9092")
            await client.start(wait=False)
            while silent.lookups["kafka.test"] == begun:  # noqa: ASYNC110 - it has no event
                await anyio.sleep(0.01)
            await client.stop()

    with resolving(silent):
        try:
            anyio.run(main, backend=backend)
            # A start with a timeout may end before its look-up begins.
            assert silent.answered == 0
            assert 3 <= silent.lookups["kafka.test"] <= 6
        finally:
            silent.come()


async def test_a_name_is_looked_up_again_when_there_were_too_many_threads(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = anyio.Event()

    def refuse(_: threading.Thread) -> None:
        refused.set()
        raise RuntimeError("can't start new thread")

    names["kafka.test"] = ["127.0.0.1"]
    async with EmbeddedCluster(brokers=1) as cluster:
        port = await prepare(cluster)
        producer = Producer(f"kafka.test:{port}", reconnect_backoff_ms=1, reconnect_backoff_max_ms=1)
        with monkeypatch.context() as limited:
            limited.setattr(threading.Thread, "start", refuse)
            with pytest.raises(UnresolvedHostError, match="no thread can be started: look-ups of names"):
                await resolve("kafka.test", port)
            await producer.start(wait=False)
            await refused.wait()
        await producer.send_and_wait("first", b"x")
        await producer.stop()

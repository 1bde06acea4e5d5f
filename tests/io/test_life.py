"""Clients of all kinds behave alike in start, stop, errors, cancellation, and on other event loops."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import pytest

from aiokafka_lead import AdminClient, Client, Consumer, Producer, ShareConsumer, TransactionPipeline
from aiokafka_lead.errors import (
    BackgroundTaskError,
    ClientClosedError,
    ConfigTypeError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    NotStartedError,
    WrongEventLoopError,
)
from aiokafka_lead.testing import EmbeddedCluster
from tests.embedded import cluster_with
from tests.ports import PortPool

pytestmark = pytest.mark.anyio
cluster = cluster_with(brokers=1, events=1)

WITHIN_S = 20
"""Limit for calls that take a few hundred milliseconds; without the tested behaviour, they take `LONG_MS`."""
LONG_MS = 120_000


async def _no_work(admin: AdminClient) -> None:
    """An admin client has no work to end."""
    await admin.list_topics()


async def _send(producer: Producer) -> None:
    await producer.send("events", b"v")


async def _open_transaction(producer: Producer) -> None:
    await producer.begin_transaction()
    await producer.send_and_wait("events", b"v")


async def _leave_transaction(pipeline: TransactionPipeline) -> None:
    async with pipeline.transaction() as txn:
        await txn.send("events", b"v")


async def _join(consumer: Consumer | ShareConsumer) -> None:
    consumer.subscribe(["events"])
    await consumer.wait_ready()


async def _send_by_child(client: Client) -> None:
    producer = client.producer(linger_ms=0)
    await producer.start()
    await producer.send("events", b"v")


class Case(NamedTuple):
    """A kind of client."""

    make: Callable[[str, dict[str, Any]], Any]
    call: Callable[[Any], Any]
    """Raises unless the client can be used."""
    work: Callable[[Any], Awaitable[None]]
    """Begins work that an orderly stop ends."""
    hangs: tuple[str, ...] = ()
    """Requests that an orderly end of `work` needs answers to."""


def _consumer(servers: str, options: dict[str, Any]) -> Consumer:
    return Consumer(bootstrap_servers=servers, group_id="g", **options)


def _share_consumer(servers: str, options: dict[str, Any]) -> ShareConsumer:
    return ShareConsumer(bootstrap_servers=servers, group_id="s", **options)


def _transactional(servers: str, options: dict[str, Any]) -> Producer:
    return Producer(servers, transactional_id="t", **options)


def _pipeline(servers: str, options: dict[str, Any]) -> TransactionPipeline:
    return TransactionPipeline(servers, transactional_id="p", max_block_ms=LONG_MS, **options)


KINDS = {
    "consumer": Case(_consumer, lambda consumer: consumer.topics(), _join, ("ConsumerGroupHeartbeat", "LeaveGroup")),
    "share consumer": Case(_share_consumer, lambda jobs: jobs.getmany(), _join, ("ShareGroupHeartbeat",)),
    "producer": Case(
        lambda servers, options: Producer(servers, **options), lambda producer: producer.flush(), _send, ("Produce",)
    ),
    "transactional producer": Case(_transactional, lambda producer: producer.flush(), _open_transaction, ("EndTxn",)),
    "pipeline": Case(_pipeline, lambda pipeline: pipeline.settle(), _leave_transaction, ("EndTxn",)),
    "admin client": Case(
        lambda servers, options: AdminClient(servers, **options), lambda admin: admin.list_topics(), _no_work
    ),
    "shared client": Case(
        lambda servers, options: Client(servers, **options),
        lambda client: client.client_instance_id(1),
        _send_by_child,
        ("Produce",),
    ),
}
each_kind = pytest.mark.parametrize("case", KINDS.values(), ids=KINDS)


@pytest.fixture
async def servers(cluster: EmbeddedCluster) -> str:
    return cluster.bootstrap_servers


async def usable(case: Case, client: Any) -> None:
    """Raise `NotStartedError`, `ClientClosedError` or `WrongEventLoopError` unless the client can be used."""
    if isinstance(client, ShareConsumer):
        client.__aiter__()
    elif isinstance(client, Client):
        client._client.check()
    else:
        await case.call(client)


async def gone(cluster: EmbeddedCluster) -> None:
    """Wait for the broker, which notices the end of a connection a moment after the client."""
    with anyio.fail_after(WITHIN_S):
        while cluster.connection_count(1):  # noqa: ASYNC110
            await anyio.sleep(0.005)


@pytest.fixture
async def hanging(cluster: EmbeddedCluster, case: Case) -> AsyncIterator[Any]:
    """Yield a client whose orderly end takes all the time it is given."""
    client = case.make(cluster.bootstrap_servers, {"request_timeout_ms": LONG_MS})
    await client.start()
    if case.hangs == ("EndTxn",) and not isinstance(client, Producer):
        cluster.faults.add("EndTxn", count=None, drop=True)  # a pipeline commits when a block ends
    elif case.hangs == ("Produce",):
        cluster.faults.add("Produce", count=None, drop=True)
    await case.work(client)
    for request in case.hangs:
        cluster.faults.add(request, count=None, drop=True)
    yield client
    with anyio.fail_after(WITHIN_S):
        try:
            await client.stop(0)
        except KafkaError:
            pass  # a pipeline reports uncommitted transactions


async def stop(client: Any, timeout_ms: float | None) -> None:
    try:
        await client.stop(timeout_ms)
    except KafkaError:
        assert isinstance(client, TransactionPipeline)  # which reports its uncommitted transactions


# --- start -----------------------------------------------------------------------------------------------------------


@each_kind
async def test_use_before_start_and_after_stop(servers: str, cluster: EmbeddedCluster, case: Case) -> None:
    client = case.make(servers, {})
    with pytest.raises(NotStartedError):
        await usable(case, client)
    await client.start()
    await client.stop()
    await client.stop(0)
    with pytest.raises(ClientClosedError):
        await usable(case, client)
    with pytest.raises(ClientClosedError):
        await client.start()
    await gone(cluster)


@each_kind
async def test_a_second_start_changes_nothing(servers: str, case: Case) -> None:
    async with case.make(servers, {}) as client:
        with pytest.raises(IllegalStateError, match="already been called"):
            await client.start()
        with pytest.raises(ConfigTypeError, match="wait"):
            await client.start(wait=1)
        await case.work(client)


@each_kind
async def test_a_stop_before_the_start(servers: str, case: Case) -> None:
    client = case.make(servers, {})
    await client.stop()
    with pytest.raises(ClientClosedError):
        await client.start()
    with pytest.raises(ClientClosedError):
        await usable(case, client)


@each_kind
async def test_a_stop_during_the_start(servers: str, cluster: EmbeddedCluster, case: Case) -> None:
    cluster.faults.add("Metadata", count=None, drop=True)
    client = case.make(servers, {"request_timeout_ms": LONG_MS})
    closed = []

    async def start() -> None:
        with pytest.raises(ClientClosedError):
            await client.start()
        closed.append(True)

    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            await cluster.requests.wait_for("Metadata")
            await client.stop()
    assert closed
    await gone(cluster)


@each_kind
async def test_a_start_that_fails(ports: PortPool, case: Case) -> None:
    client = case.make(f"127.0.0.1:{ports.take()}", {"request_timeout_ms": 700})
    with anyio.fail_after(WITHIN_S), pytest.raises(KafkaConnectionError):
        await client.start()
    with pytest.raises(ClientClosedError):
        await usable(case, client)
    await client.stop()


@each_kind
async def test_a_start_that_is_cancelled(servers: str, cluster: EmbeddedCluster, case: Case) -> None:
    cluster.faults.add("Metadata", count=None, drop=True)
    client = case.make(servers, {"request_timeout_ms": LONG_MS})
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.start)
            await cluster.requests.wait_for("Metadata")
            tasks.cancel_scope.cancel()
    await gone(cluster)
    with pytest.raises(ClientClosedError):
        await usable(case, client)


async def test_a_start_that_is_cancelled_at_once_leaves_the_shared_client(servers: str) -> None:
    async with Client(servers) as client:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await client.producer().start()
        assert repr(client).endswith("clients=0>")


# --- stop ------------------------------------------------------------------------------------------------------------


@each_kind
async def test_a_cancelled_stop_closes_everything(hanging: Any, cluster: EmbeddedCluster, case: Case) -> None:
    with anyio.fail_after(WITHIN_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop, hanging, LONG_MS)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    await gone(cluster)
    with pytest.raises(ClientClosedError):
        await usable(case, hanging)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@each_kind
async def test_a_stop_that_is_cancelled_by_asyncio(hanging: Any, cluster: EmbeddedCluster, case: Case) -> None:
    task = asyncio.create_task(stop(hanging, LONG_MS))
    await anyio.wait_all_tasks_blocked()
    with anyio.fail_after(WITHIN_S):
        if task.cancel():  # False for an admin client's, which has ended
            with pytest.raises(asyncio.CancelledError):
                await task
    await gone(cluster)


@each_kind
async def test_a_stop_without_time(hanging: Any, cluster: EmbeddedCluster, case: Case) -> None:
    with anyio.fail_after(WITHIN_S):
        await stop(hanging, 0)
    await gone(cluster)


@each_kind
async def test_a_stop_on_another_event_loop(
    servers: str, case: Case, anyio_backend: tuple[str, dict[str, Any]] | str
) -> None:
    backend = anyio_backend if isinstance(anyio_backend, str) else anyio_backend[0]

    def elsewhere() -> None:
        anyio.run(client.stop, backend=backend)

    async with case.make(servers, {}) as client:
        with pytest.raises(WrongEventLoopError):
            await anyio.to_thread.run_sync(elsewhere)
        await case.work(client)


@each_kind
async def test_a_stop_after_an_error_of_the_background(hanging: Any, cluster: EmbeddedCluster, case: Case) -> None:
    """A failed background task leaves no work that could be ended in an orderly way."""

    async def fail() -> None:
        raise RuntimeError("broken")

    hanging._client.spawn(fail, name="test")
    await anyio.wait_all_tasks_blocked()
    with pytest.raises(BackgroundTaskError, match="broken"):
        hanging._client.check()
    with anyio.fail_after(WITHIN_S):
        await stop(hanging, LONG_MS)
    await gone(cluster)


@pytest.mark.parametrize("kind", ["producer", "transactional producer", "pipeline", "consumer", "share consumer"])
async def test_a_stopped_client_says_nothing_of_the_one_that_it_shared(servers: str, kind: str) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        async with Client(servers) as client:
            children: dict[str, Callable[[], Any]] = {
                "producer": client.producer,
                "transactional producer": lambda: client.producer(transactional_id="t"),
                "pipeline": lambda: client.transaction_pipeline(transactional_id="p"),
                "consumer": lambda: client.consumer("events", group_id="g"),
                "share consumer": lambda: client.share_consumer("events", group_id="s"),
            }
            async with children[kind]():
                pass
    assert not [each for each in warned if issubclass(each.category, ResourceWarning)]

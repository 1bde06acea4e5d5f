"""Helpers of tests about leaders: backoffs longer than any test, and queries of the log of requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anyio
import anyio.abc

from aiokafka_lead import Client, Consumer, Delivery, Producer, TopicPartition
from aiokafka_lead.config import ClientOptions
from aiokafka_lead.errors import NotLeaderOrFollowerError
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.testing.request_log import RequestRecord, partitions_of

NOT_LEADER = NotLeaderOrFollowerError.code

NEVER: dict[str, Any] = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
"""A backoff that outlasts every test: a test that waits for it fails."""

ALWAYS = 1_000_000
"""Count of faults that no test exhausts: no Metadata answer ever brings news."""

TOGETHER = [[1, 2, 3]]
"""Replicas of a partition that broker 1 leads."""


OF_CLIENTS = ClientOptions.__annotations__.keys() - {"client_id"}
"""Options common to clients that share connections."""


@asynccontextmanager
async def client_of(cluster: EmbeddedCluster | str, options: dict[str, Any]) -> AsyncIterator[Client]:
    """Return a client to share, moving its part of the options into it."""
    common = {name: options.pop(name) for name in OF_CLIENTS & options.keys()}
    servers = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
    client = Client(servers, **common)
    await client.start()
    try:
        yield client
    except BaseException:
        with anyio.CancelScope(shield=True):
            await client.stop(timeout_ms=0)
        raise
    await client.stop()


@asynccontextmanager
async def producer_of(cluster: EmbeddedCluster | str, shared: bool = False, **options: Any) -> AsyncIterator[Producer]:
    """Yield a producer whose records go out at once; after a failure it does not wait for pending records.

    ``shared``: on the connections of a `Client`.
    """
    options.setdefault("linger_ms", 0)
    if shared:
        async with (
            client_of(cluster, options) as client,
            _ended_after(client.producer(**options)) as made,
        ):
            yield made
        return
    servers = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
    async with _ended_after(Producer(servers, **options)) as producer:
        yield producer


@asynccontextmanager
async def _ended_after(producer: Producer) -> AsyncIterator[Producer]:
    await producer.start()
    try:
        yield producer
    except BaseException:
        with anyio.CancelScope(shield=True):
            await producer.stop(timeout_ms=0)
        raise
    await producer.stop()


@asynccontextmanager
async def consumer_of(
    cluster: EmbeddedCluster | str, *topics: str, shared: bool = False, **options: Any
) -> AsyncIterator[Consumer[Any, Any]]:
    """Yield a consumer that reads from the beginning; ``shared``: on the connections of a `Client`."""
    options.setdefault("auto_offset_reset", "earliest")
    if shared:
        async with client_of(cluster, options) as client, client.consumer(*topics, **options) as consumer:
            yield consumer
        return
    servers = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
    async with Consumer(*topics, bootstrap_servers=servers, **options) as consumer:
        yield consumer


def values(cluster: EmbeddedCluster, topic: str = "t", partition: int = 0) -> list[int]:
    """Return the values in the log, as numbers."""
    return [int(record.value or b"-1") for record in cluster.records(topic, partition)]


async def fill(cluster: EmbeddedCluster, count: int, topic: str = "t", partition: int = 0, first: int = 0) -> None:
    """Write numbers."""
    async with producer_of(cluster) as producer:
        outcomes = await (
            await producer.send_many(topic, [b"%d" % n for n in range(first, first + count)], partition=partition)
        )
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]


async def next_number(consumer: Consumer[Any, Any], timeout_s: float = 20) -> int:
    """Return the next record's value."""
    with anyio.fail_after(timeout_s):
        return int((await consumer.getone()).value)


async def until(met: Callable[[], object], timeout_s: float = 20) -> None:
    """Poll until the condition holds."""
    with anyio.fail_after(timeout_s):
        while not met():  # noqa: ASYNC110 - no event
            await anyio.sleep(0.002)


async def all_of(deliveries: Sequence[Delivery], timeout_s: float = 30) -> list[int]:
    """Return the offsets of records, in the order of sending."""
    with anyio.fail_after(timeout_s):
        return [(await delivery).offset for delivery in deliveries]


def asked(
    cluster: EmbeddedCluster, api: str, *, broker: int | None = None, topic: str = "t", partition: int = 0
) -> list[RequestRecord]:
    """Return the requests that name a partition. Later requests of a fetch session do not, unless something changed."""
    names = {cluster.topic_id(name): name for name in cluster.topic_names()}
    return [
        record
        for record in cluster.requests.select(api, broker=broker)
        if (topic, partition) in partitions_of(record.request, names.get)
    ]


def assert_spaced(requests: Sequence[RequestRecord], first_ms: float, longest_ms: float) -> None:
    """Check that each request followed an exponential backoff, with a fifth of jitter; slow machines wait longer."""
    for number, (earlier, later) in enumerate(pairwise(requests)):
        least_ms = 0.8 * min(longest_ms, first_ms * 2**number)
        assert (later.time - earlier.time) * 1000 >= least_ms, (number, later.time - earlier.time)


@asynccontextmanager
async def garbage_server(answer: bytes) -> AsyncIterator[tuple[str, int]]:
    """Run a server that is not a broker: it sends the same bytes to every client, and closes the connection."""

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            try:
                await stream.receive()
                await stream.send(answer)
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                pass

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield "127.0.0.1", port
        tasks.cancel_scope.cancel()


T0 = TopicPartition("t", 0)

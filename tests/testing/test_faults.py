"""Faults by rule."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from aiokafka_lead import errors
from aiokafka_lead._wire.messages.heartbeat import HeartbeatRequest
from aiokafka_lead._wire.messages.metadata import MetadataRequest
from aiokafka_lead._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokafka_lead.errors import (
    CoordinatorLoadInProgressError,
    FetchSessionIdNotFoundError,
    RebootstrapRequiredError,
    RequestTimedOutError,
)
from aiokafka_lead.testing import HTTP_ANSWER, EmbeddedCluster

from .raw import RawClient, batch, connected
from .test_fetch import fetch_request, partitions_of, wanted
from .test_produce import produce

pytestmark = pytest.mark.anyio


async def produce_two(client: RawClient, version: int = 12, **fields: bytes) -> list[int]:
    """Produce to partitions 0 and 1; return their error codes."""
    data = [PartitionProduceData(index=index, records=batch(b"a")) for index in (0, 1)]
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    response = await client.call(request, version)
    return [part.error_code for part in response.responses[0].partition_responses]


async def test_an_error_for_each_partition_or_for_one() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t", 2)
        rule = cluster.faults.add("Produce", error_code=errors.NotEnoughReplicasError, count=1)
        assert await produce_two(client) == [19, 19]
        assert await produce_two(client) == [0, 0]
        assert rule.struck == 1
        cluster.faults.add("Produce", topic="t", partition=1, error_code=RequestTimedOutError.code, skip=1)
        assert [await produce_two(client) for _ in range(3)] == [[0, 0], [0, 7], [0, 7]]
        cluster.faults.clear()
        assert await produce_two(client) == [0, 0]
        assert (cluster.end_offset("t", 0), cluster.end_offset("t", 1)) == (5, 3)


async def test_an_error_after_the_request_took_effect() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t", 2)
        cluster.faults.add("Produce", topic="t", partition=0, error_code=RequestTimedOutError.code, after=True, count=1)
        assert await produce_two(client) == [7, 0]
        assert (cluster.end_offset("t", 0), cluster.end_offset("t", 1)) == (1, 1)


async def test_an_error_for_the_whole_request() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        cluster.faults.add("Fetch", error_code=errors.FetchSessionIdNotFoundError, whole=True, count=1)
        assert (await client.call(fetch_request(wanted(0)), 12)).error_code == FetchSessionIdNotFoundError.code
        assert partitions_of(await client.call(fetch_request(wanted(0)), 12))[0].error_code == 0
        cluster.faults.add(HeartbeatRequest, error_code=errors.CoordinatorLoadInProgressError, count=1)
        assert (await client.call(HeartbeatRequest(group_id="g"))).error_code == CoordinatorLoadInProgressError.code
        cluster.faults.add("Metadata", error_code=errors.RebootstrapRequiredError, whole=True, count=1)
        assert (await client.call(MetadataRequest(topics=None), 13)).error_code == RebootstrapRequiredError.code


async def test_a_delay_before_and_after() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        for after in (False, True):
            cluster.faults.add("Produce", delay_ms=100, after=after, count=1)
            began = time.monotonic()
            assert (await produce(client, batch(b"a"))).error_code == 0
            assert 0.09 < time.monotonic() - began < 20


async def asked_in_vain(cluster: EmbeddedCluster, client: RawClient) -> None:
    """Send a broker a record that it does not answer."""
    answers: list[Any] = []

    async def ask() -> None:
        answers.append(await produce(client, batch(b"a")))

    asked = cluster.requests.count("Produce")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await cluster.wait_for_requests("Produce", count=asked + 1)
        await anyio.wait_all_tasks_blocked()
        assert not answers
        tasks.cancel_scope.cancel()


async def test_an_answer_that_never_comes() -> None:
    async with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("t")
        rule = cluster.faults.add("Produce", drop=True, count=1)
        async with connected(cluster.address(1)) as client, connected(cluster.address(1)) as other:
            await asked_in_vain(cluster, client)
            assert rule.spent
            assert cluster.end_offset("t") == 0
            assert (await produce(other, batch(b"a"))).error_code == 0
        cluster.faults.add("Produce", drop=True, after=True, count=1)
        async with connected(cluster.address(1)) as client:
            await asked_in_vain(cluster, client)
            assert cluster.end_offset("t") == 2


@pytest.mark.parametrize(("after", "stored"), [(False, 0), (True, 1)])
async def test_a_connection_that_breaks(after: bool, stored: int) -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.create_topic("t")
        cluster.faults.add("Produce", disconnect=True, after=after, count=1)
        with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            await produce(client, batch(b"a"))
        assert cluster.end_offset("t") == stored


async def test_garbage_instead_of_an_answer() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.faults.add("Metadata", garbage=HTTP_ANSWER, count=1)
        await client.send(MetadataRequest(topics=None), 12)
        assert (await client.stream.receive()).startswith(b"HTTP/1.1")
        cluster.faults.add("Metadata", garbage=lambda answer: answer[:-1] + b"\xff", after=True, count=1)
        await client.send(MetadataRequest(topics=None), 12)
        assert (await client.receive_frame())[-1] == 0xFF


@pytest.mark.parametrize("function", ["when", "garbage"])
@pytest.mark.both_loops
async def test_an_error_of_a_test_s_function_is_raised(function: str) -> None:
    def fail(given: Any) -> Any:
        raise ZeroDivisionError

    cluster = EmbeddedCluster(brokers=1)
    await cluster.__aenter__()
    fault: dict[str, Any] = {function: fail}
    cluster.faults.add("Metadata", delay_ms=1, **fault)
    async with connected(cluster.address(1)) as client:
        await client.send(MetadataRequest(topics=None))
        assert await client.is_closed()
    cluster.faults.clear()
    async with connected(cluster.address(1)) as client:  # the brokers still serve
        assert (await client.call(MetadataRequest(topics=None))).brokers
    with pytest.raises(ExceptionGroup) as caught:
        await cluster.__aexit__(None, None, None)
    (error,) = caught.value.exceptions
    assert isinstance(error, ZeroDivisionError)
    assert error.__notes__ == [f"raised by the function `{function}` of a fault, for a request Metadata"]


async def test_a_client_that_is_throttled_is_muted() -> None:
    """KIP-219: the answer comes at once, the next request is served later."""
    async with EmbeddedCluster(brokers=1) as cluster, connected(cluster.address(1)) as client:
        cluster.faults.add("Metadata", throttle_time_ms=150, count=1)
        began = time.monotonic()
        assert (await client.call(MetadataRequest(topics=None), 12)).throttle_time_ms == 150
        assert (await client.call(MetadataRequest(topics=None), 12)).throttle_time_ms == 0
        assert 0.14 < time.monotonic() - began < 20


async def test_rules_choose_their_requests() -> None:
    async with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("t", 2, assignments=[[1], [2]])
        cluster.create_topic("u")
        async with connected(cluster.address(1)) as one, connected(cluster.address(2)) as two:
            rule = cluster.faults.add("Produce", broker=2, error_code=RequestTimedOutError.code)
            assert (await produce(one, batch(b"a"))).error_code == 0
            assert (await produce(two, batch(b"a"), partition=1)).error_code == RequestTimedOutError.code
            rule.remove()
            assert (await produce(two, batch(b"a"), partition=1)).error_code == 0
            cluster.faults.add(error_code=RequestTimedOutError.code, when=lambda record: record.version == 11)
            assert (await produce(one, batch(b"a"), version=11)).error_code == RequestTimedOutError.code
            assert (await produce(one, batch(b"a"), version=12)).error_code == 0
            cluster.faults.clear()
            cluster.faults.add("Produce", topic="u", disconnect=True)
            assert (await produce(one, batch(b"a"))).error_code == 0
            with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                await produce(one, batch(b"a"), topic="u")
        with pytest.raises(errors.ConfigError, match="name of an API"):
            cluster.faults.add("Produces")
        with pytest.raises(errors.ConfigError, match="partition"):
            cluster.faults.add("Produce", partition=1)


async def test_requests_are_logged() -> None:
    async with EmbeddedCluster(brokers=2) as cluster, connected(cluster.address(2)) as client:
        cluster.create_topic("t", assignments=[[2]])
        await client.call(MetadataRequest(topics=None), 9)
        await produce(client, batch(b"a"))
        first, second = cluster.requests
        assert (first.broker, first.api, first.version, first.client_id) == (2, "Metadata", 9, "raw")
        assert (second.api, second.request.topic_data[0].name) == ("Produce", "t")
        assert second.request.topic_data[0].partition_data[0].records is None
        assert second.answered is not None
        assert first.time <= second.time <= second.answered
        assert cluster.requests.select("Produce", broker=2) == [second]
        assert cluster.requests.select(broker=1) == []
        assert (cluster.requests.count(), cluster.requests.count("Produce", broker=2)) == (2, 1)
        cluster.requests.clear()
        assert len(cluster.requests) == 0
        with pytest.raises(TimeoutError):
            await cluster.wait_for_requests("Produce", timeout_ms=10)

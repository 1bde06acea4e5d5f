"""Flow control of one connection: limits, throttling, idleness, peers that do not read."""

from __future__ import annotations

import time
from itertools import count

import anyio
import pytest
from anyio.lowlevel import checkpoint

from aiokafka_lead._core.metadata.reachability import NodeState
from aiokafka_lead._wire.messages.heartbeat import HeartbeatResponse
from aiokafka_lead._wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from aiokafka_lead.errors import (
    KafkaConnectionError,
    RequestTimedOutError,
)

from ..patience import again_if_late
from .script import Changes, Outcome, Peer, client, connected, heartbeat, serve, submit

pytestmark = pytest.mark.anyio


async def test_the_bound_of_requests_in_flight_queues_and_reports_room() -> None:
    release = anyio.Event()

    async def handle(peer: Peer) -> None:
        await peer.shake_hands()
        waiting = [await peer.read() for _ in range(2)]
        await release.wait()
        for number in count():
            request = waiting.pop(0) if waiting else await peer.read()
            await peer.answer(request, HeartbeatResponse(error_code=number))

    async with serve(handle) as port, client(port, max_in_flight_requests_per_connection=2) as brokers:
        connection = await brokers.get(1)
        changes = Changes(brokers)
        codes: list[int] = []

        async def ask() -> None:
            codes.append((await connection.request(heartbeat())).error_code)
            assert connection.in_flight <= 2

        async with anyio.create_task_group() as group:
            for _ in range(7):
                group.start_soon(ask)
            while connection.in_flight < 2:
                await checkpoint()
            assert not connection.can_send()
            changes.nodes.clear()
            release.set()
            await changes.until(connection.can_send)
        assert sorted(codes) == [0, 1, 2, 3, 4, 5, 6]
        assert changes.nodes[0] == 1


async def test_waiting_for_room_times_out_and_lets_the_others_go_on() -> None:
    release = anyio.Event()

    async def handler(peer: Peer) -> None:
        first = await peer.read()
        await release.wait()
        await peer.answer(first, HeartbeatResponse())
        await peer.serve_heartbeats()

    async with connected(handler, max_in_flight_requests_per_connection=1) as connection:
        first = submit(connection)[0]
        with pytest.raises(RequestTimedOutError, match="Heartbeat was not sent within 30 ms"):
            await connection.request(heartbeat(), timeout_ms=30)
        assert connection.ready
        release.set()
        await first.wait(10)
        await connection.request(heartbeat())


@again_if_late(500, 5_000)
async def test_a_request_that_waited_for_room_keeps_its_own_deadline(timeout_ms: int) -> None:
    release = anyio.Event()

    async def handler(peer: Peer) -> None:
        first = await peer.read()
        await release.wait()
        await peer.answer(first, HeartbeatResponse())
        await peer.drain()

    async with connected(handler, max_in_flight_requests_per_connection=1) as connection:
        submit(connection)
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                with pytest.raises(RequestTimedOutError, match="no answer to Heartbeat"):
                    await connection.request(heartbeat(), timeout_ms=timeout_ms)

            group.start_soon(ask)
            await checkpoint()
            release.set()


async def test_a_request_in_a_hurry_leaves_the_connection_to_others() -> None:
    release = anyio.Event()

    async def handler(peer: Peer) -> None:
        requests = [await peer.read() for _ in range(2)]
        await release.wait()
        for number, request in enumerate(requests):
            await peer.answer(request, HeartbeatResponse(error_code=number))
        await peer.drain()

    async with connected(handler) as connection:
        with pytest.raises(RequestTimedOutError, match="no answer to Heartbeat within 20 ms"):
            await connection.request(heartbeat(), timeout_ms=20)
        assert connection.ready
        patient = submit(connection)[0]
        release.set()
        assert (await patient.wait(10)).error_code == 1


async def test_a_throttled_connection_is_silent_until_the_time_is_over() -> None:
    times: list[float] = []

    async def handle(peer: Peer) -> None:
        await peer.shake_hands()
        first = await peer.read()
        times.append(time.monotonic())
        await peer.answer(first, HeartbeatResponse(throttle_time_ms=150))
        second = await peer.read()
        times.append(time.monotonic())
        await peer.answer(second, HeartbeatResponse())
        await peer.drain()

    async with serve(handle) as port, client(port) as brokers:
        connection = await brokers.get(1)
        changes = Changes(brokers)
        response = await connection.request(heartbeat())
        assert response.throttle_time_ms == 150
        assert connection.ready
        await connection.request(heartbeat())
        muted_at, heard_at = times
        assert heard_at - muted_at >= 0.14
        assert connection.can_send()
        assert changes.nodes == [1]


async def test_a_throttled_connection_cannot_send() -> None:
    async def handler(peer: Peer) -> None:
        await peer.answer(await peer.read(), HeartbeatResponse(throttle_time_ms=2**31 - 1))
        await peer.drain()

    async with connected(handler) as connection:
        await connection.request(heartbeat())
        assert connection.ready
        assert not connection.can_send()
        with pytest.raises(RequestTimedOutError, match="was not sent within 20 ms"):
            await connection.request(heartbeat(), timeout_ms=20)


async def test_a_throttle_time_is_believed_for_the_time_of_a_request() -> None:
    async def handler(peer: Peer) -> None:
        await peer.answer(await peer.read(), HeartbeatResponse(throttle_time_ms=2**31 - 1))
        await peer.drain()

    async with connected(handler, request_timeout_ms=20_000) as connection:
        await connection.request(heartbeat())
        assert 0 < connection.muted_s <= 20


async def test_an_idle_connection_closes_without_backoff() -> None:
    closed = anyio.Event()

    async def handle(peer: Peer) -> None:
        await peer.shake_hands()
        await peer.answer(await peer.read(), HeartbeatResponse())
        await peer.drain()
        closed.set()

    async with serve(handle) as port, client(port, connections_max_idle_ms=200) as brokers:
        changes = Changes(brokers)
        connection = await brokers.get(1)
        await connection.request(heartbeat())
        await changes.until(lambda: not connection.ready)
        await closed.wait()
        assert brokers.state(1) is NodeState.CONNECTABLE
        assert brokers.last_error(1) is None
        assert (await brokers.get(1)) is not connection


async def test_a_request_in_flight_is_not_idle() -> None:
    async def handler(peer: Peer) -> None:
        request = await peer.read()
        await anyio.sleep(0.2)
        await peer.answer(request, HeartbeatResponse())
        await peer.drain()

    async with connected(handler, connections_max_idle_ms=50) as connection:
        await connection.request(heartbeat())


async def test_a_request_without_answer_is_done_when_it_is_sent() -> None:
    async def handler(peer: Peer) -> None:
        assert (await peer.read()).correlation_id == 1
        await peer.answer(await peer.read(), HeartbeatResponse(error_code=5))
        await peer.drain()

    async with connected(handler) as connection:
        outcome = Outcome()
        version = connection.submit(ProduceRequest(acks=0), outcome.on_done, expect_response=False)
        assert version == ProduceRequest.MAX_VERSION
        assert outcome.done
        assert outcome.result() is None
        assert connection.in_flight == 0
        assert (await connection.request(heartbeat())).error_code == 5


async def test_an_answer_to_a_request_that_expects_none_is_ignored() -> None:
    """Azure Event Hubs answers Produce with ``acks=0``."""

    async def handler(peer: Peer) -> None:
        await peer.answer(await peer.read(), ProduceResponse())
        produce, request = await peer.read(), await peer.read()
        await peer.answer(produce, ProduceResponse())
        await peer.answer(request, HeartbeatResponse(error_code=5))
        await peer.drain()

    async with connected(handler) as connection:
        for _ in range(2):
            connection.submit(ProduceRequest(acks=0), Outcome().on_done, expect_response=False)
        assert (await connection.request(heartbeat())).error_code == 5


def large_produce() -> ProduceRequest:
    partition = PartitionProduceData(records=b"x" * 4_000_000)
    return ProduceRequest(acks=0, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


async def test_a_peer_that_does_not_read_stops_the_sender() -> None:
    read_on = anyio.Event()

    async def handle(peer: Peer) -> None:
        await peer.shake_hands()
        await read_on.wait()
        await peer.drain()

    async with serve(handle) as port, client(port) as brokers:
        connection = await brokers.get(1)
        changes = Changes(brokers)
        outcomes = []
        while connection.can_send():
            outcome = Outcome()
            connection.submit(large_produce(), outcome.on_done, version=9, expect_response=False)
            outcomes.append(outcome)
            assert len(outcomes) < 100
        assert not outcomes[-1].done
        read_on.set()
        await changes.until(connection.can_send)
        for outcome in outcomes:
            await outcome.wait(10)
            assert outcome.calls == 1


@again_if_late(100, 3000)
async def test_a_peer_that_never_reads_times_out(request_timeout_ms: int) -> None:
    forever = anyio.Event()

    async def handler(peer: Peer) -> None:
        await forever.wait()

    async with connected(handler, request_timeout_ms=request_timeout_ms) as connection:
        outcome = Outcome()
        while connection.can_send():
            outcome = Outcome()
            connection.submit(large_produce(), outcome.on_done, version=9, expect_response=False)
        with pytest.raises(KafkaConnectionError, match="accepts no more data"):
            await outcome.wait(10)
        forever.set()

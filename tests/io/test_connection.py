"""Requests in a pipeline over one connection, against misbehaving servers."""

from __future__ import annotations

import gc
import struct
import time
import tracemalloc

import anyio
import pytest
from anyio.lowlevel import checkpoint

from aiokafka_lead._core.metadata.reachability import NodeState
from aiokafka_lead._io.connection.transport import dial, resolve
from aiokafka_lead._io.loop import Waiter
from aiokafka_lead._options.addresses import Addresses, Search
from aiokafka_lead._wire import RequestFrame
from aiokafka_lead._wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from aiokafka_lead._wire.messages.heartbeat import HeartbeatResponse
from aiokafka_lead._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokafka_lead.errors import (
    FrameTooLargeError,
    KafkaConnectionError,
    KafkaError,
    NotKafkaError,
    RequestTimedOutError,
    UnsupportedVersionError,
)

from .script import (
    HOST,
    LONG_BACKOFF,
    Changes,
    Outcome,
    Peer,
    answer_bytes,
    client,
    connected,
    heartbeat,
    serve,
    submit,
)

pytestmark = pytest.mark.anyio


async def test_answers_reach_their_requests_in_order() -> None:
    async def handler(peer: Peer) -> None:
        requests = [await peer.read() for _ in range(5)]
        for number, request in enumerate(requests):
            await peer.answer(request, HeartbeatResponse(error_code=number))
        await peer.drain()

    async with connected(handler) as connection:
        outcomes = submit(connection, 5)
        assert connection.in_flight == 5
        assert [(await outcome.wait()).error_code for outcome in outcomes] == [0, 1, 2, 3, 4]
        assert connection.in_flight == 0
        assert [outcome.calls for outcome in outcomes] == [1] * 5


async def test_frames_byte_by_byte_and_many_at_once() -> None:
    async def handler(peer: Peer) -> None:
        for byte in answer_bytes(await peer.read(), HeartbeatResponse(error_code=1)):
            await peer.send(bytes([byte]))
        requests = [await peer.read() for _ in range(4)]
        await peer.send(b"".join(answer_bytes(request, HeartbeatResponse(error_code=2)) for request in requests))
        await peer.drain()

    async with connected(handler) as connection:
        assert (await connection.request(heartbeat())).error_code == 1
        outcomes = submit(connection, 4)
        assert [(await outcome.wait()).error_code for outcome in outcomes] == [2] * 4


async def test_large_answers_arrive_whole_and_stay_valid() -> None:
    async def handler(peer: Peer) -> None:
        for letter in (b"a", b"b"):
            request = await peer.read()
            partition = PartitionData(partition_index=0, records=letter * 3_000_000)
            topic = FetchableTopicResponse(partitions=[partition])
            await peer.answer(request, FetchResponse(responses=[topic]))
        await peer.drain()

    async with connected(handler) as connection:
        first = await connection.request(FetchRequest())
        second = await connection.request(FetchRequest())
        for letter, response in ((b"a", first), (b"b", second)):
            records = response.responses[0].partitions[0].records
            assert isinstance(records, memoryview)
            assert records == letter * 3_000_000


async def test_large_requests_arrive_whole() -> None:
    arrived: Waiter[RequestFrame] = Waiter()

    async def handler(peer: Peer) -> None:
        arrived.set_result(await peer.read())
        await peer.drain()

    parts = [b"x" * 10, b"y" * 3_000_000, b"z" * 100, b"w" * 200_000]
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=i, records=p)])
            for i, p in enumerate(parts)
        ],
    )
    async with connected(handler) as connection:
        connection.submit(request, Outcome().on_done, version=9)
        got = (await arrived.wait(10)).request
    assert isinstance(got, ProduceRequest)
    assert [bytes(topic.partition_data[0].records or b"") for topic in got.topic_data] == parts


@pytest.mark.parametrize("cut", [0, 2, 4, 7])
async def test_a_broker_that_dies_in_mid_frame_fails_everything_in_flight_retriably(cut: int) -> None:
    async def handler(peer: Peer) -> None:
        request = await peer.read()
        await peer.answer(request, HeartbeatResponse())
        request = await peer.read()
        await peer.send(answer_bytes(request, HeartbeatResponse())[:cut])

    async with connected(handler) as connection:
        await connection.request(heartbeat())
        outcomes = submit(connection, 3)
        for outcome in outcomes:
            with pytest.raises(KafkaConnectionError, match=r"Heartbeat was in flight.*1 \(127.0.0.1:") as caught:
                await outcome.wait(10)
            assert caught.value.retriable
        assert len({id(error) for error in (outcome._error for outcome in outcomes)}) == 3
        assert not connection.ready
        with pytest.raises(KafkaConnectionError):
            connection.submit(heartbeat(), Outcome().on_done)
        with pytest.raises(KafkaConnectionError):
            await connection.request(heartbeat())


async def test_a_frame_that_cannot_be_read_is_not_kept_with_its_error() -> None:
    body = bytes(16_000_000)

    async def handler(peer: Peer) -> None:
        await peer.shake_hands()
        await peer.read()
        await peer.send(struct.pack(">ii", 4 + len(body), 4711))
        await peer.send(body)
        await peer.drain()

    async with serve(handler) as port, client(port, **LONG_BACKOFF) as brokers:
        connection = await brokers.get(1)
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            with pytest.raises(KafkaConnectionError, match="correlation id 4711"):
                await connection.request(heartbeat())
            with anyio.fail_after(20):
                while tracemalloc.get_traced_memory()[0] > len(body) // 2:
                    await checkpoint()
            assert tracemalloc.get_traced_memory()[1] > len(body)
        finally:
            tracemalloc.stop()
            gc.enable()
        assert type(brokers.last_error(1)) is KafkaConnectionError


@pytest.mark.parametrize(
    ("garbage", "says", "last_error"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP server", NotKafkaError),
        (bytes.fromhex("15030300020228"), "TLS alert", NotKafkaError),
        (b"\xff\xff\xff\xff", "length -1", KafkaConnectionError),
        (b"\x00\x00\x00\x02\x00\x00", "correlation id", KafkaConnectionError),
        (b"\x00\x00\x00\x05\x00\x00\x00\x01\x00", "HeartbeatResponse", KafkaConnectionError),
    ],
)
async def test_garbage_ends_the_connection_and_is_retriable(
    garbage: bytes, says: str, last_error: type[KafkaError]
) -> None:
    async def handle(peer: Peer) -> None:
        await peer.shake_hands()
        await peer.read()
        await peer.send(garbage)
        await peer.drain()

    async with serve(handle) as port, client(port, **LONG_BACKOFF) as brokers:
        outcomes = submit(await brokers.get(1), 2)
        for outcome in outcomes:
            with pytest.raises(KafkaConnectionError, match=says) as caught:
                await outcome.wait(10)
            assert caught.value.retriable
        assert type(brokers.last_error(1)) is last_error
        assert brokers.state(1) is NodeState.BACKOFF


async def test_a_frame_beyond_the_limit_is_told_to_its_request_alone() -> None:
    async def handler(peer: Peer) -> None:
        await peer.read()
        await peer.send(struct.pack(">i", 2_000_001))
        await peer.drain()

    async with connected(handler, receive_max_bytes=2_000_000) as connection:
        first, second = submit(connection, 2)
        with pytest.raises(FrameTooLargeError, match=r"2000001.*receive_max_bytes"):
            await first.wait(10)
        with pytest.raises(KafkaConnectionError, match="in flight"):
            await second.wait(10)


@pytest.mark.parametrize("shift", [1, -1, 1000])
async def test_an_answer_with_another_correlation_id_ends_the_connection(shift: int) -> None:
    async def handler(peer: Peer) -> None:
        request = await peer.read()
        await peer.answer(request, HeartbeatResponse(), request.correlation_id + shift)
        await peer.drain()

    async with connected(handler) as connection:
        for outcome in submit(connection, 2):
            with pytest.raises(KafkaConnectionError, match="correlation id"):
                await outcome.wait(10)


async def test_an_answer_to_no_request_ends_the_connection() -> None:
    go = anyio.Event()

    async def handle(peer: Peer) -> None:
        await peer.shake_hands()
        await go.wait()
        await peer.send(struct.pack(">ii", 4, 7))
        await peer.drain()

    async with serve(handle) as port, client(port, **LONG_BACKOFF) as brokers:
        changes = Changes(brokers)
        await brokers.get(1)
        go.set()
        await changes.until(lambda: brokers.state(1) is NodeState.BACKOFF)
        assert "no request is in flight" in str(brokers.last_error(1))


async def test_a_silent_broker_times_out_one_request_and_loses_the_others() -> None:
    async def handler(peer: Peer) -> None:
        await peer.drain()

    async with connected(handler) as connection:
        patient = submit(connection)[0]
        hasty = submit(connection, timeout_ms=50)[0]
        started = time.monotonic()
        with pytest.raises(RequestTimedOutError, match="Heartbeat") as caught:
            await hasty.wait(10)
        assert 0.04 < time.monotonic() - started < 20
        assert caught.value.retriable
        with pytest.raises(KafkaConnectionError, match="in flight"):
            await patient.wait(10)
        assert not connection.ready


async def test_request_times_out_by_the_option() -> None:
    async def handler(peer: Peer) -> None:
        await peer.drain()

    async with connected(handler, request_timeout_ms=1000) as connection:
        with pytest.raises(RequestTimedOutError):
            await connection.request(heartbeat())


async def test_an_api_or_version_that_the_broker_lacks_sends_nothing() -> None:
    async def handler(peer: Peer) -> None:
        await peer.serve_heartbeats()

    async with connected(handler) as connection:
        from aiokafka_lead._wire.messages.create_topics import CreateTopicsRequest

        with pytest.raises(UnsupportedVersionError, match="CreateTopics"):
            connection.submit(CreateTopicsRequest(), Outcome().on_done)
        assert connection.in_flight == 0
        await connection.request(heartbeat())


async def test_a_cancelled_request_harms_nobody_wherever_it_was() -> None:
    async def handler(peer: Peer) -> None:
        number = 0
        while True:
            await peer.answer(await peer.read(), HeartbeatResponse(error_code=number))
            number += 1

    async with connected(handler, max_in_flight_requests_per_connection=1) as connection:
        finished = 0
        for steps in range(12):
            codes: list[int] = []

            async def ask(codes: list[int] = codes) -> None:
                codes.append((await connection.request(heartbeat())).error_code)

            async with anyio.create_task_group() as group:
                group.start_soon(ask)  # takes the only slot
                group.start_soon(ask)  # waits for room
                for _ in range(steps):
                    await checkpoint()
                group.cancel_scope.cancel()
            finished += len(codes)
            assert codes == sorted(codes)
            # Answers to abandoned requests are dropped; this request gets its own.
            await connection.request(heartbeat())
            assert connection.in_flight == 0
        assert connection.ready


async def test_a_callback_that_raises_ends_the_client_and_not_silently() -> None:
    class Bug(Exception):
        pass

    def on_done(response: object, error: KafkaError | None) -> None:
        raise Bug

    async def handler(peer: Peer) -> None:
        await peer.serve_heartbeats()

    async def use() -> None:
        async with connected(handler) as connection:
            connection.submit(heartbeat(), on_done)
            await anyio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await use()
    assert caught.value.subgroup(Bug) is not None


async def test_a_callback_may_send_the_next_request() -> None:
    async def handler(peer: Peer) -> None:
        await peer.serve_heartbeats()

    async with connected(handler) as connection:
        done: Waiter[None] = Waiter()
        left = 200

        def on_done(response: object, error: KafkaError | None) -> None:
            nonlocal left
            assert error is None
            left -= 1
            if left:
                connection.submit(heartbeat(), on_done)
            else:
                done.set_result(None)

        connection.submit(heartbeat(), on_done)
        await done.wait(20)


async def test_a_callback_may_close_while_more_answers_wait() -> None:
    async def handler(peer: Peer) -> None:
        requests = [await peer.read() for _ in range(3)]
        await peer.send(b"".join(answer_bytes(request, HeartbeatResponse()) for request in requests))
        await peer.drain()

    async with connected(handler) as connection:
        outcomes = [Outcome(), Outcome()]

        def close(response: object, error: KafkaError | None) -> None:
            connection.close(KafkaConnectionError("enough"))

        connection.submit(heartbeat(), close)
        for outcome in outcomes:
            connection.submit(heartbeat(), outcome.on_done)
        for outcome in outcomes:
            with pytest.raises(KafkaConnectionError, match="enough"):
                await outcome.wait(10)
            assert outcome.calls == 1


async def test_repr_says_where_and_how_it_stands() -> None:
    async def handler(peer: Peer) -> None:
        await peer.drain()

    async with connected(handler) as connection:
        submit(connection, 2)
        text = repr(connection)
        assert "ready" in text
        assert "2 in flight" in text
        assert "1 (127.0.0.1:" in text


async def test_a_transport_that_opens_after_its_connection_was_closed_is_closed() -> None:
    """Only its task can close it; otherwise waiting for the end of the task would never return."""
    async with serve(Peer.drain) as port, connected(Peer.drain) as connection:
        connection.close(KafkaConnectionError("no longer wanted"), expected=True)
        dialled = await dial(await resolve(HOST, port), Search(Addresses()))
        transport = await dialled.open(HOST, ssl_context=None, handler=connection, max_frame_bytes=100)
        with pytest.raises(KafkaConnectionError, match="no longer wanted"):
            connection.opened(transport)
        with anyio.fail_after(30):
            await transport.run()

"""The pool of connections: who is connected, when, and how it ends."""

from __future__ import annotations

import math
import time

import anyio
import pytest
from anyio.lowlevel import checkpoint

from aiokafka_lead._core.metadata.types import Broker
from aiokafka_lead._io.connection.brokers import Brokers, Lane, NodeState
from aiokafka_lead._io.loop import sleep_until
from aiokafka_lead._wire.messages.heartbeat import HeartbeatResponse
from aiokafka_lead._wire.messages.sasl_handshake import SaslHandshakeResponse
from aiokafka_lead.config import ClientConfig, ConsumerConfig
from aiokafka_lead.errors import (
    ClientClosedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    RebootstrapError,
    UnknownTopicOrPartitionError,
)

from .script import HOST, LONG_BACKOFF, Changes, Outcome, Peer, client, free_port, full_backlog, heartbeat, serve

pytestmark = pytest.mark.anyio


async def answer_all(peer: Peer) -> None:
    await peer.shake_hands()
    await peer.serve_heartbeats()


async def answer_nothing(peer: Peer) -> None:
    await peer.shake_hands()
    await peer.drain()


async def test_one_connection_per_node_and_lane() -> None:
    accepted = 0

    async def handler(peer: Peer) -> None:
        nonlocal accepted
        accepted += 1
        await answer_all(peer)

    async with serve(handler) as port, client(port) as brokers:
        lanes = list(Lane) * 3
        found = []

        async def get(lane: Lane) -> None:
            found.append(await brokers.get(1, lane))

        async with anyio.create_task_group() as group:
            for lane in lanes:
                group.start_soon(get, lane)
        assert len({id(connection) for connection in found}) == len(Lane)
        assert accepted == len(Lane)
        assert {id(brokers.ready(1, lane)) for lane in Lane} == {id(connection) for connection in found}


async def test_ready_connects_and_tells_listeners() -> None:
    async with serve(answer_all) as port, client(port) as brokers:
        changes = Changes(brokers)
        assert brokers.state(1) is NodeState.CONNECTABLE
        assert brokers.ready(1) is None
        await changes.until(lambda: brokers.state(1) is NodeState.CONNECTING)
        await changes.until(lambda: brokers.ready(1) is not None)
        assert brokers.state(1) is NodeState.READY
        assert set(changes.nodes) == {1}


async def test_a_refused_connection_fails_at_once_and_backs_off() -> None:
    async with client(free_port(), **LONG_BACKOFF) as brokers:
        changes = Changes(brokers)
        started = time.monotonic()
        with pytest.raises(KafkaConnectionError, match="connection refused"):
            await brokers.get(1)
        assert brokers.state(1) is NodeState.BACKOFF
        assert 16 <= brokers.retry_at(1) - started < 30
        assert changes.nodes
        assert "refused" in str(brokers.last_error(1))


async def test_the_backoff_doubles_and_get_waits_it_out() -> None:
    async with client(free_port(), reconnect_backoff_ms=25, reconnect_backoff_max_ms=200) as brokers:
        started = time.monotonic()
        for _ in range(4):
            with pytest.raises(KafkaConnectionError):
                await brokers.get(1)
        # 25, 50 and 100 ms, each less a fifth at most, lie between the tries.
        assert time.monotonic() - started >= 0.8 * 0.175
        assert brokers.retry_at(1) > time.monotonic()


async def test_a_name_that_does_not_resolve() -> None:
    async with client(1) as brokers:
        brokers.add_node(Broker(2, "nowhere.invalid", 9092))
        with pytest.raises(KafkaConnectionError, match="does not resolve") as caught:
            await brokers.get(2)
        assert "2 (nowhere.invalid:9092)" in str(caught.value)


async def test_bootstrap_servers_are_named_by_address() -> None:
    async with client() as brokers:
        port = free_port()
        brokers.set_nodes({-1: Broker(-1, HOST, port)})
        with pytest.raises(KafkaConnectionError) as caught:
            await brokers.get(-1)
        assert f"[broker {HOST}:{port}]" in str(caught.value)


async def test_wanting_a_broker_again_connects_as_soon_as_the_backoff_allows() -> None:
    async with client(free_port()) as brokers:
        changes = Changes(brokers)
        with pytest.raises(KafkaConnectionError):
            await brokers.get(1)
        failed_before = brokers.last_error(1)
        assert brokers.ready(1) is None
        await changes.until(lambda: brokers.last_error(1) is not failed_before)
        # Nobody has asked since then: it stays down.
        await sleep_until(brokers.retry_at(1))
        assert brokers.state(1) is NodeState.CONNECTABLE


async def test_an_unknown_node() -> None:
    async with client() as brokers:
        assert brokers.ready(7) is None
        assert brokers.state(7) is NodeState.BACKOFF
        assert brokers.retry_at(7) == math.inf
        assert brokers.last_error(7) is None
        with pytest.raises(KafkaConnectionError, match="node 7"):
            await brokers.get(7)


async def test_authentication_errors_reach_the_caller_as_they_are() -> None:
    async def handler(peer: Peer) -> None:
        await peer.shake_hands()
        await peer.answer(await peer.read(), SaslHandshakeResponse(error_code=IllegalSaslStateError.code))
        await peer.drain()

    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_plain_username": "a",
        "sasl_plain_password": "b",
    }
    async with serve(handler) as port, client(port, **options) as brokers:
        for _ in range(2):
            with pytest.raises(IllegalSaslStateError):
                await brokers.get(1, timeout_ms=20_000)
        assert isinstance(brokers.last_error(1), IllegalSaslStateError)


async def test_get_has_a_deadline_and_says_what_went_wrong() -> None:
    async with client(free_port(), **LONG_BACKOFF) as brokers:
        with pytest.raises(KafkaConnectionError, match="refused"):
            await brokers.get(1)
        with pytest.raises(KafkaConnectionError, match=r"within 40 ms.*connection refused"):
            await brokers.get(1, timeout_ms=40)


async def test_a_cancelled_get_leaves_the_connect_to_others() -> None:
    async with serve(answer_all) as port, client(port) as brokers:
        for steps in range(12):
            brokers.set_nodes({steps: Broker(steps, HOST, port)})
            async with anyio.create_task_group() as group:
                group.start_soon(brokers.get, steps)
                for _ in range(steps):
                    await checkpoint()
                group.cancel_scope.cancel()
            await (await brokers.get(steps)).request(heartbeat())


async def test_the_same_address_keeps_its_connection() -> None:
    async with serve(answer_all) as port, client(port) as brokers:
        connection = await brokers.get(1)
        brokers.set_nodes({1: Broker(1, HOST, port, rack="elsewhere"), 2: Broker(2, HOST, free_port())})
        brokers.add_node(Broker(1, HOST, port))
        assert await brokers.get(1) is connection
        assert set(brokers.nodes) == {1, 2}


async def test_another_address_replaces_the_connection_at_once() -> None:
    async with serve(answer_nothing) as port, serve(answer_all) as new_port, client(port) as brokers:
        old = await brokers.get(1)
        outcome = Outcome()
        old.submit(heartbeat(), outcome.on_done)
        brokers.add_node(Broker(1, HOST, new_port))
        assert not old.ready
        with pytest.raises(KafkaConnectionError, match="another address"):
            await outcome.wait(10)
        new = await brokers.get(1)
        assert new.endpoint == (HOST, new_port)
        await new.request(heartbeat())
        assert brokers.last_error(1) is None


async def test_a_connect_that_races_an_address_change_cannot_finish() -> None:
    half_way, go_on, over = anyio.Event(), anyio.Event(), anyio.Event()

    async def slow(peer: Peer) -> None:
        request = await peer.read()
        half_way.set()
        await go_on.wait()
        try:
            await peer.answer(request, HeartbeatResponse())
            await peer.drain()
        finally:
            over.set()

    async with serve(slow) as port, serve(answer_all) as new_port, client(port) as brokers:
        got = []

        async def get() -> None:
            got.append(await brokers.get(1))

        async with anyio.create_task_group() as group:
            group.start_soon(get)
            await half_way.wait()
            brokers.set_nodes({1: Broker(1, HOST, new_port)})
            go_on.set()
        assert [connection.endpoint for connection in got] == [(HOST, new_port)]
        with anyio.fail_after(10):
            await over.wait()
        assert brokers.last_error(1) is None


async def test_a_node_that_is_gone_answers_what_is_in_flight_and_closes() -> None:
    answer, closed = anyio.Event(), anyio.Event()

    async def handler(peer: Peer) -> None:
        await peer.shake_hands()
        request = await peer.read()
        await answer.wait()
        await peer.answer(request, HeartbeatResponse(error_code=UnknownTopicOrPartitionError.code))
        await peer.drain()
        closed.set()

    async with serve(handler) as port, client(port) as brokers:
        connection = await brokers.get(1)
        outcome = Outcome()
        connection.submit(heartbeat(), outcome.on_done)
        brokers.set_nodes({})
        assert not connection.ready
        assert brokers.ready(1, Lane.CONTROL) is None
        with pytest.raises(KafkaConnectionError):
            await connection.request(heartbeat())
        answer.set()
        assert (await outcome.wait(10)).error_code == UnknownTopicOrPartitionError.code
        with anyio.fail_after(10):
            await closed.wait()


async def test_an_idle_node_that_is_gone_closes_at_once() -> None:
    async with serve(answer_all) as port, client(port) as brokers:
        connection = await brokers.get(1)
        brokers.set_nodes({})
        assert connection.closed_by is not None


async def test_a_node_that_comes_back_keeps_the_connection_with_requests_in_flight() -> None:
    answer = anyio.Event()

    async def handler(peer: Peer) -> None:
        await peer.shake_hands()
        request = await peer.read()
        await answer.wait()
        await peer.answer(request, HeartbeatResponse())
        await peer.serve_heartbeats()

    async with serve(handler) as port, client(port) as brokers:
        connection = await brokers.get(1)
        outcome = Outcome()
        connection.submit(heartbeat(), outcome.on_done)
        brokers.set_nodes({})
        brokers.set_nodes({1: Broker(1, HOST, port)})
        assert await brokers.get(1) is connection
        answer.set()
        await outcome.wait(10)
        await connection.request(heartbeat())


async def test_close_all_fails_everything_with_the_error_and_lets_new_connections_be_made() -> None:
    async with serve(answer_nothing) as port, client(port) as brokers, full_backlog() as hole:
        brokers.add_node(Broker(2, HOST, hole))
        connections = [await brokers.get(1, lane) for lane in Lane]
        outcomes = [Outcome() for _ in connections]
        for connection, outcome in zip(connections, outcomes, strict=True):
            connection.submit(heartbeat(), outcome.on_done)
        failed: list[KafkaError] = []

        async def get_from_the_hole() -> None:
            try:
                await brokers.get(2)
            except KafkaError as error:
                failed.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(get_from_the_hole)
            await checkpoint()
            await checkpoint()
            brokers.close_all(RebootstrapError("bootstrapping anew"))
        for outcome in outcomes:
            with pytest.raises(RebootstrapError, match="bootstrapping anew") as caught:
                await outcome.wait(10)
            assert caught.value.retriable
        assert [type(error) for error in failed] == [RebootstrapError]
        assert brokers.state(1) is NodeState.CONNECTABLE
        assert await brokers.get(1) not in connections


async def test_the_backoff_survives_a_rebootstrap() -> None:
    port = free_port()
    async with client(port, **LONG_BACKOFF) as brokers:
        with pytest.raises(KafkaConnectionError):
            await brokers.get(1)
        brokers.close_all(RebootstrapError())
        brokers.set_nodes({-1: Broker(-1, HOST, port)})
        assert brokers.state(-1) is NodeState.BACKOFF
        assert brokers.least_loaded() is None


@pytest.mark.parametrize("by", ["stop", "cancellation"])
async def test_everything_ends_at_once_with_every_broker_out_of_reach(by: str) -> None:
    async with serve(answer_nothing) as port, full_backlog() as hole:
        config = ClientConfig.from_options(f"{HOST}:{port}", {})
        outcome = Outcome()
        group = anyio.create_task_group()
        brokers = Brokers(config, group)
        started = time.monotonic()
        async with group:
            silent, refusing = Broker(1, HOST, port), Broker(3, HOST, free_port())
            brokers.set_nodes({1: silent, 2: Broker(2, HOST, hole), 3: refusing})
            connection = await brokers.get(1)
            connection.submit(heartbeat(), outcome.on_done)
            brokers.ready(2)
            with pytest.raises(KafkaConnectionError):
                await brokers.get(3)
            brokers.ready(3)
            started = time.monotonic()
            if by == "stop":
                brokers.stop(ClientClosedError())
            else:
                group.cancel_scope.cancel()
        assert time.monotonic() - started < 1
        with pytest.raises((ClientClosedError, KafkaConnectionError)):
            await outcome.wait(1)
        if by == "stop":
            with pytest.raises(ClientClosedError):
                await brokers.get(1)
            assert brokers.ready(1) is None


async def test_a_connect_without_an_answer_is_given_up_and_gets_more_time() -> None:
    async with full_backlog() as hole, client(hole, socket_connection_setup_timeout_ms=50) as brokers:
        with pytest.raises(KafkaConnectionError, match="50 ms during connecting"):
            await brokers.get(1)
        with pytest.raises(KafkaConnectionError, match=r"(8|9|10|11|12)\d ms during connecting"):
            await brokers.get(1)


async def test_least_loaded_prefers_ready_then_few_in_flight() -> None:
    async with (
        serve(answer_nothing) as one,
        serve(answer_nothing) as two,
        client(one, max_in_flight_requests_per_connection=2) as brokers,
    ):
        assert brokers.least_loaded() == 1  # merely connectable
        brokers.add_node(Broker(2, HOST, two))
        first = await brokers.get(1)
        assert {brokers.least_loaded() for _ in range(20)} == {1}
        second = await brokers.get(2)
        assert {brokers.least_loaded() for _ in range(50)} == {1, 2}
        second.submit(heartbeat(), Outcome().on_done)
        assert {brokers.least_loaded() for _ in range(20)} == {1}
        first.submit(heartbeat(), Outcome().on_done)
        first.submit(heartbeat(), Outcome().on_done)
        assert {brokers.least_loaded() for _ in range(20)} == {2}
        second.submit(heartbeat(), Outcome().on_done)
        assert brokers.least_loaded() in (1, 2)  # busy is not unavailable
        brokers.add_node(Broker(3, HOST, one))
        assert {brokers.least_loaded() for _ in range(20)} == {3}


async def test_rule_24_a_busy_broker_is_not_unavailable() -> None:
    async with serve(answer_nothing) as port, client(port, max_in_flight_requests_per_connection=1) as brokers:
        connection = await brokers.get(1)
        connection.submit(heartbeat(), Outcome().on_done)
        assert not connection.can_send()
        assert brokers.state(1) is NodeState.READY
        assert brokers.ready(1, Lane.CONTROL) is connection


async def test_a_lost_connection_backs_off_and_comes_back() -> None:
    accepted = 0

    async def handler(peer: Peer) -> None:
        nonlocal accepted
        accepted += 1
        await peer.shake_hands()
        await peer.answer(await peer.read(), HeartbeatResponse())
        if accepted == 1:
            await peer.read()
        else:
            await peer.serve_heartbeats()

    backoff = {"reconnect_backoff_ms": 400, "reconnect_backoff_max_ms": 400}
    async with serve(handler) as port, client(port, **backoff) as brokers:
        connection = await brokers.get(1)
        await connection.request(heartbeat())
        with pytest.raises(KafkaConnectionError, match="Heartbeat was in flight: the broker closed the connection"):
            await connection.request(heartbeat())
        assert brokers.state(1) is NodeState.BACKOFF
        assert "closed the connection" in str(brokers.last_error(1))
        again = await brokers.get(1)
        await again.request(heartbeat())
        assert brokers.last_error(1) is None


async def test_the_frame_limit_leaves_room_for_the_largest_fetch() -> None:
    options = {"fetch_max_bytes": 200_000_000, "receive_max_bytes": 1_000_000}
    config = ConsumerConfig.from_options(f"{HOST}:1", options)
    async with anyio.create_task_group() as group:
        brokers = Brokers(config, group)
        assert brokers._context.settings.receive_max_bytes > 200_000_000


async def test_a_listener_that_raises_harms_no_connection_and_is_not_lost() -> None:
    async def use() -> None:
        async with serve(answer_all) as port, client(port) as brokers:

            def listener(node_id: int) -> None:
                raise LookupError(node_id)

            brokers.add_listener(listener)
            await brokers.get(1)
            await anyio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await use()
    assert caught.value.subgroup(LookupError) is not None


async def test_listeners_can_leave() -> None:
    async with client(free_port()) as brokers:
        heard: list[int] = []
        brokers.add_listener(heard.append)
        brokers.remove_listener(heard.append)
        with pytest.raises(KafkaConnectionError):
            await brokers.get(1)
        assert heard == []

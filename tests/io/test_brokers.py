"""The pool of connections: connecting, reconnecting and closing."""

from __future__ import annotations

import math
import time

import anyio
import pytest
from anyio.lowlevel import checkpoint

from aiokafka_lead._core.metadata.reachability import NodeState
from aiokafka_lead._core.metadata.types import Broker
from aiokafka_lead._core.trust import DOUBT_AFTER
from aiokafka_lead._io.connection.brokers import Brokers
from aiokafka_lead._io.connection.settings import COORDINATOR_IN_FLIGHT, CoordinatorLane, Lane
from aiokafka_lead._io.loop import sleep_until
from aiokafka_lead._wire.messages.heartbeat import HeartbeatResponse
from aiokafka_lead._wire.messages.sasl_handshake import SaslHandshakeResponse
from aiokafka_lead.config import ConsumerConfig
from aiokafka_lead.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
)

from ..ports import PortPool
from .script import (
    HOST,
    LONG_BACKOFF,
    Changes,
    Outcome,
    Peer,
    answer_all,
    answer_nothing,
    client,
    heartbeat,
    serve,
)

pytestmark = pytest.mark.anyio


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


async def test_a_refused_connection_fails_at_once_and_backs_off(ports: PortPool) -> None:
    async with client(ports.take(), **LONG_BACKOFF) as brokers:
        changes = Changes(brokers)
        started = time.monotonic()
        with pytest.raises(KafkaConnectionError, match="connection refused"):
            await brokers.get(1)
        assert brokers.state(1) is NodeState.BACKOFF
        assert 16 <= brokers.retry_at(1) - started < 30
        assert changes.nodes
        assert "refused" in str(brokers.last_error(1))


async def test_the_backoff_doubles_and_get_waits_it_out(ports: PortPool) -> None:
    async with client(ports.take(), reconnect_backoff_ms=25, reconnect_backoff_max_ms=200) as brokers:
        started = time.monotonic()
        for _ in range(4):
            with pytest.raises(KafkaConnectionError):
                await brokers.get(1)
        # Attempts are 25, 50 and 100 ms apart, each less a fifth at most; the next one follows after 200 ms.
        assert time.monotonic() - started >= 0.8 * 0.175
        assert brokers.retry_at(1) - started >= 0.8 * 0.375


async def test_a_name_that_does_not_resolve() -> None:
    async with client(1) as brokers:
        brokers.add_node(Broker(2, "nowhere.invalid", 9092))
        with pytest.raises(KafkaConnectionError, match="does not resolve") as caught:
            await brokers.get(2)
        assert "2 (nowhere.invalid:9092)" in str(caught.value)


async def test_bootstrap_servers_are_named_by_address(ports: PortPool) -> None:
    async with client() as brokers:
        port = ports.take()
        brokers.set_nodes({-1: Broker(-1, HOST, port)})
        with pytest.raises(KafkaConnectionError) as caught:
            await brokers.get(-1)
        assert f"[broker {HOST}:{port}]" in str(caught.value)


async def test_wanting_a_broker_again_connects_as_soon_as_the_backoff_allows(ports: PortPool) -> None:
    async with client(ports.take()) as brokers:
        changes = Changes(brokers)
        with pytest.raises(KafkaConnectionError):
            await brokers.get(1)
        failed_before = brokers.last_error(1)
        assert brokers.ready(1) is None
        await changes.until(lambda: brokers.last_error(1) is not failed_before)
        # Without a request since then, it stays down.
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


async def test_get_has_a_deadline_and_says_what_went_wrong(ports: PortPool) -> None:
    async with client(ports.take(), **LONG_BACKOFF) as brokers:
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


async def test_least_loaded_prefers_ready_then_few_in_flight() -> None:
    async with (
        serve(answer_nothing) as one,
        serve(answer_nothing) as two,
        client(one, max_in_flight_requests_per_connection=2) as brokers,
    ):
        assert brokers.least_loaded() == 1  # merely ready to connect
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
        assert brokers.least_loaded() in (1, 2)  # busy, not unavailable
        brokers.add_node(Broker(3, HOST, one))
        assert {brokers.least_loaded() for _ in range(20)} == {3}


async def test_rule_33_a_broker_in_doubt_comes_before_those_that_were_asked_in_vain() -> None:
    async with serve(answer_all) as one, serve(answer_all) as two, client(one) as brokers:
        brokers.add_node(Broker(2, HOST, two))
        await brokers.get(1)
        await brokers.get(2)
        for _ in range(DOUBT_AFTER):
            brokers.evaded(2, time.monotonic())
        assert {brokers.least_loaded() for _ in range(20)} == {1}
        assert {brokers.least_loaded(avoid={1}) for _ in range(20)} == {2}
        assert {brokers.least_loaded(avoid={1, 2}) for _ in range(20)} == {1}


@pytest.mark.parametrize("lane", [Lane.COORDINATOR, CoordinatorLane(1)])
async def test_many_requests_are_on_their_way_to_a_coordinator(lane: Lane | CoordinatorLane) -> None:
    """All members in a process share one connection to it, and none waits for another's answer."""
    members = COORDINATOR_IN_FLIGHT
    arrived = anyio.Event()

    async def handler(peer: Peer) -> None:
        await peer.shake_hands()
        asked = [await peer.read() for _ in range(members)]
        arrived.set()
        for request in asked:
            await peer.answer(request, HeartbeatResponse())

    async with serve(handler) as port, client(port, max_in_flight_requests_per_connection=1) as brokers:
        connection = await brokers.get(1, lane)
        async with anyio.create_task_group() as group:
            for _ in range(members):
                group.start_soon(connection.request, heartbeat())
            with anyio.fail_after(20):
                await arrived.wait()


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


async def test_listeners_can_leave(ports: PortPool) -> None:
    async with client(ports.take()) as brokers:
        heard: list[int] = []
        brokers.add_listener(heard.append)
        brokers.remove_listener(heard.append)
        with pytest.raises(KafkaConnectionError):
            await brokers.get(1)
        assert heard == []

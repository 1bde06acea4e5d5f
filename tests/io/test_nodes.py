"""Nodes of a cluster that stay, move, leave and return, and their connections."""

from __future__ import annotations

import time

import anyio
import pytest
from anyio.lowlevel import checkpoint

from aiokafka_lead._core.metadata.answer import MetadataReader
from aiokafka_lead._core.metadata.reachability import NodeState
from aiokafka_lead._core.metadata.types import Broker
from aiokafka_lead._io.asking_around import in_order
from aiokafka_lead._io.connection.brokers import Brokers
from aiokafka_lead._io.connection.settings import Lane
from aiokafka_lead._io.metadata.ask import Outcome as AskedOutcome
from aiokafka_lead._io.metadata.ask import ask
from aiokafka_lead._wire.messages.api_versions import ApiVersionsResponse
from aiokafka_lead._wire.messages.heartbeat import HeartbeatResponse
from aiokafka_lead._wire.messages.metadata import MetadataRequest
from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import (
    ClientClosedError,
    KafkaConnectionError,
    KafkaError,
    RebootstrapError,
    UnknownTopicOrPartitionError,
)

from ..names import STRANGE, needs_loopbacks, resolving
from ..ports import PortPool
from .script import (
    HOST,
    LONG_BACKOFF,
    Outcome,
    Peer,
    answer_all,
    answer_nothing,
    client,
    full_backlog,
    heartbeat,
    serve,
)

pytestmark = pytest.mark.anyio


async def test_rule_7_the_same_address_keeps_its_connection(ports: PortPool) -> None:
    async with serve(answer_all) as port, client(port) as brokers:
        connection = await brokers.get(1)
        brokers.set_nodes({1: Broker(1, HOST, port, rack="elsewhere"), 2: Broker(2, HOST, ports.take())})
        brokers.add_node(Broker(1, HOST, port))
        assert await brokers.get(1) is connection
        assert set(brokers.nodes) == {1, 2}


async def test_rule_7_another_address_replaces_the_connection_at_once() -> None:
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


async def test_rule_7_a_connect_that_races_an_address_change_cannot_finish() -> None:
    half_way, go_on, over = anyio.Event(), anyio.Event(), anyio.Event()

    async def slow(peer: Peer) -> None:
        request = await peer.read()
        half_way.set()
        await go_on.wait()
        try:
            await peer.answer(request, ApiVersionsResponse())
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
        with anyio.fail_after(20):
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
        with anyio.fail_after(20):
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
            brokers.close_all(RebootstrapError("bootstrapping again"))
        for outcome in outcomes:
            with pytest.raises(RebootstrapError, match="bootstrapping again") as caught:
                await outcome.wait(10)
            assert caught.value.retriable
        assert [type(error) for error in failed] == [RebootstrapError]
        assert brokers.state(1) is NodeState.CONNECTABLE
        assert await brokers.get(1) not in connections


async def test_the_backoff_survives_a_rebootstrap(ports: PortPool) -> None:
    port = ports.take()
    async with client(port, **LONG_BACKOFF) as brokers:
        with pytest.raises(KafkaConnectionError):
            await brokers.get(1)
        brokers.close_all(RebootstrapError())
        brokers.set_nodes({-1: Broker(-1, HOST, port)})
        assert brokers.state(-1) is NodeState.BACKOFF
        assert brokers.least_loaded() is None


@pytest.mark.parametrize("by", ["stop", "cancellation"])
async def test_everything_ends_at_once_with_every_broker_out_of_reach(ports: PortPool, by: str) -> None:
    async with serve(answer_nothing) as port, full_backlog() as hole:
        config = ClientConfig.from_options(f"{HOST}:{port}", {})
        outcome = Outcome()
        group = anyio.create_task_group()
        brokers = Brokers(config, group)
        started = time.monotonic()
        async with group:
            silent, refusing = Broker(1, HOST, port), Broker(3, HOST, ports.take())
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
        assert time.monotonic() - started < 8  # a silent address takes ten seconds
        with pytest.raises((ClientClosedError, KafkaConnectionError)):
            await outcome.wait(10)
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


@needs_loopbacks
async def test_a_bootstrap_server_may_be_removed_while_it_is_asked() -> None:
    asked = anyio.Event()
    outcomes: list[AskedOutcome] = []

    async def silent(peer: Peer) -> None:
        await peer.shake_hands()
        await peer.read()
        asked.set()
        await peer.drain()

    async with serve(silent) as port, client(port) as brokers:
        with resolving({"kafka.test": [HOST, STRANGE]}):  # with another address, a silent one is left soon
            brokers.set_nodes({-1: Broker(-1, "kafka.test", port)})
            async with anyio.create_task_group() as group:

                async def ask_it() -> None:
                    outcomes.append(await ask(brokers, MetadataReader(), in_order([-1]), MetadataRequest(), 10))

                group.start_soon(ask_it)
                await asked.wait()
                brokers.set_nodes({})
        (outcome,) = outcomes
        assert outcome.answer is None
        assert "is not part of the cluster" in str(outcome.failures[-1])

"""Coordinators that always refuse, and brokers that cannot name the coordinator, or do not answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from aiokafka_lead import (
    AdminClient,
    Consumer,
    OffsetAndMetadata,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from aiokafka_lead.errors import GroupIdNotFoundError, RequestTimedOutError, UnknownServerError
from aiokafka_lead.testing import EmbeddedCluster, RequestRecord
from tests.hostile.answers import changed
from tests.io.script import Peer, serve

from ..patience import again_if_late
from .support import GROUP, fill, reading, starting, until

pytestmark = pytest.mark.anyio

ID = "payments"
FIRST = TopicPartition("events", 0)
QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 100}

OF_COORDINATORS = (
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "ConsumerGroupHeartbeat",
    "EndTxn",
    "Heartbeat",
    "InitProducerId",
    "JoinGroup",
    "OffsetCommit",
    "OffsetFetch",
    "ShareGroupHeartbeat",
    "SyncGroup",
    "TxnOffsetCommit",
)

Use = Callable[[EmbeddedCluster], Awaitable[None]]


# --- requests that need a coordinator, or any broker ------------------------------------------------------------------


async def consume(cluster: EmbeddedCluster, protocol: str) -> None:
    options = {"group_id": GROUP, "group_protocol": protocol, "auto_offset_reset": "earliest", **QUICK}
    async with Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        await consumer.getone()
        await consumer.commit()


async def commit_as_nobody(cluster: EmbeddedCluster) -> None:
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, **QUICK) as consumer:
        consumer.assign([FIRST])
        await consumer.commit({FIRST: 1})
        assert await consumer.committed(FIRST) == OffsetAndMetadata(1)


async def share(cluster: EmbeddedCluster) -> None:
    async with ShareConsumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, **QUICK) as sharer:
        await until(lambda: bool(sharer.assignment()))


async def transact(cluster: EmbeddedCluster) -> None:
    async with (
        Producer(cluster.bootstrap_servers, transactional_id=ID, **QUICK) as producer,
        producer.transaction(),
    ):
        await producer.send("events", b"v", partition=0)
        await producer.send_offsets_to_transaction({FIRST: OffsetAndMetadata(1)}, GROUP)


async def administrate(cluster: EmbeddedCluster) -> None:
    async with AdminClient(cluster.bootstrap_servers, **QUICK) as admin:
        await admin.list_consumer_group_offsets(GROUP)


async def produce(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, **QUICK) as producer:
        await producer.send_and_wait("events", b"v")


USES = pytest.mark.parametrize(
    "use",
    [
        pytest.param(partial(consume, protocol="classic"), id="classic"),
        pytest.param(partial(consume, protocol="consumer"), id="consumer"),
        commit_as_nobody,
        share,
        transact,
        administrate,
    ],
)


# --- faults of brokers ------------------------------------------------------------------------------------------------


class Sick:
    """Keeps the broker that is asked first, and the given brokers, faulty."""

    def __init__(self, *brokers: int) -> None:
        self.brokers = set(brokers)
        self.met: set[int] = set()
        self.asked: list[RequestRecord] = []

    def __call__(self, record: RequestRecord) -> bool:
        if not self.met:
            self.brokers.add(record.broker)
        self.met.add(record.broker)
        self.asked.append(record)
        return record.broker in self.brokers


def name_coordinator(cluster: EmbeddedCluster, sick: Sick, node_id: int, port: int) -> None:
    """Have the faulty brokers name this coordinator, whatever the key."""

    def change(message: Any) -> None:
        for entry in message.coordinators:
            entry.node_id, entry.host, entry.port, entry.error_code = node_id, "127.0.0.1", port, 0

    cluster.faults.add(
        "FindCoordinator", when=sick, after=True, garbage=lambda answer: changed(sick.asked[-1], answer, change)
    )


def port_of(cluster: EmbeddedCluster, broker: int) -> int:
    return int(cluster.address(broker).rpartition(":")[2])


def depose(cluster: EmbeddedCluster, **fault: Any) -> Sick:
    """Make broker 2 a former coordinator that does not know it. Some of the other brokers still name it."""
    cluster.move_coordinator(GROUP, 3)
    cluster.transactions.move_coordinator(ID, 3)
    sick = Sick(2)
    name_coordinator(cluster, sick, 2, port_of(cluster, 2))
    for api in OF_COORDINATORS:
        of_id = (lambda record: record.request.transactional_id is not None) if api == "InitProducerId" else None
        cluster.faults.add(api, broker=2, when=of_id, **fault)
    return sick


# --- lookups of the coordinator ---------------------------------------------------------------------------------------


@USES
async def test_another_broker_is_asked_after_one_that_never_knows(cluster: EmbeddedCluster, use: Use) -> None:
    await fill(cluster, 1)
    sick = Sick()
    fault = cluster.faults.add("FindCoordinator", when=sick, error_code=15)
    with anyio.fail_after(20):
        await use(cluster)
    assert 1 <= fault.struck <= 6, "three for each key, of two"


@pytest.mark.parametrize("fault", [{"error_code": -1}, {"error_code": 7}, {"error_code": 14}, {"disconnect": True}])
async def test_however_it_says_so(cluster: EmbeddedCluster, fault: dict[str, Any]) -> None:
    cluster.faults.add("FindCoordinator", when=Sick(), **fault)
    with anyio.fail_after(20):
        await commit_as_nobody(cluster)


async def test_a_second_broker_is_asked_while_the_first_is_silent(cluster: EmbeddedCluster) -> None:
    """The second request is sent before the first is given up, which takes a minute here."""
    cluster.faults.add("FindCoordinator", when=Sick(), drop=True)
    options = {"group_id": GROUP, "request_timeout_ms": 60_000, **QUICK}
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        consumer.assign([TopicPartition("events", 3)])
        with anyio.fail_after(20):
            await consumer.commit({TopicPartition("events", 3): 1}, timeout_ms=60_000)


@USES
async def test_another_broker_is_asked_after_one_that_names_the_wrong_one(cluster: EmbeddedCluster, use: Use) -> None:
    """The broker always answers NOT_COORDINATOR."""
    await fill(cluster, 1)
    cluster.move_coordinator(GROUP, 3)
    cluster.transactions.move_coordinator(ID, 3)
    name_coordinator(cluster, Sick(), 1, port_of(cluster, 1))
    with anyio.fail_after(20):
        await use(cluster)


async def test_another_broker_is_asked_after_one_that_names_one_that_is_not_there(cluster: EmbeddedCluster) -> None:
    cluster.move_coordinator(GROUP, 3)
    name_coordinator(cluster, Sick(), 99, 1)
    with anyio.fail_after(20):
        await commit_as_nobody(cluster)


async def test_or_one_that_takes_connections_and_says_nothing(cluster: EmbeddedCluster) -> None:
    """Another one is asked while the connection is being made, which may take a minute here."""
    cluster.move_coordinator(GROUP, 3)
    options = {"group_id": GROUP, "socket_connection_setup_timeout_ms": 60_000, **QUICK}
    async with serve(Peer.drain) as port, Consumer(bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        name_coordinator(cluster, Sick(), 99, port)
        consumer.assign([FIRST])
        with anyio.fail_after(20):
            await consumer.commit({FIRST: 1}, timeout_ms=60_000)


async def test_or_one_whose_answer_does_not_mention_the_key(cluster: EmbeddedCluster) -> None:
    sick = Sick()

    def forget(answer: bytes) -> bytes:
        return changed(sick.asked[-1], answer, lambda message: message.coordinators.clear())

    cluster.faults.add("FindCoordinator", when=sick, after=True, garbage=forget)
    with anyio.fail_after(20):
        await commit_as_nobody(cluster)


@USES
async def test_the_address_of_a_known_broker_is_that_of_metadata(cluster: EmbeddedCluster, use: Use) -> None:
    """Whatever address look-ups name, the coordinator's partitions and groups stay within reach."""
    await fill(cluster, 1)
    cluster.move_coordinator(GROUP, 2)
    cluster.transactions.move_coordinator(ID, 2)
    name_coordinator(cluster, Sick(*cluster.broker_ids), 2, 1)
    with anyio.fail_after(20):
        await use(cluster)


async def test_many_keys_are_asked_for_at_another_broker(cluster: EmbeddedCluster) -> None:
    groups = [f"{GROUP}-{number}" for number in range(20)]
    fault = cluster.faults.add("FindCoordinator", when=Sick(), error_code=15)
    async with AdminClient(cluster.bootstrap_servers, **QUICK) as admin:
        with anyio.fail_after(20):
            with pytest.raises(GroupIdNotFoundError):
                await admin.describe_consumer_groups(groups)
    assert fault.struck <= 3 * len(groups)


@pytest.mark.parametrize("fault", [{"error_code": 14}, {"error_code": 15}, {"error_code": -1}, {"drop": True}])
async def test_another_broker_is_asked_for_a_producer_id(cluster: EmbeddedCluster, fault: dict[str, Any]) -> None:
    cluster.faults.add("InitProducerId", when=Sick(), **fault)
    with anyio.fail_after(20):
        await produce(cluster)


async def test_or_instead_of_one_whose_answer_has_none(cluster: EmbeddedCluster) -> None:
    sick = Sick()

    def remove(message: Any) -> None:
        message.producer_id = -1

    fault = cluster.faults.add(
        "InitProducerId", when=sick, after=True, garbage=lambda answer: changed(sick.asked[-1], answer, remove)
    )
    with anyio.fail_after(20):
        await produce(cluster)
    assert fault.struck <= 6


@again_if_late(3_000, 15_000)
async def test_an_error_names_all_who_were_asked(timeout_ms: int, cluster: EmbeddedCluster) -> None:
    cluster.faults.add("FindCoordinator", error_code=15)
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=GROUP, **QUICK) as consumer:
        consumer.assign([FIRST])
        with pytest.raises(RequestTimedOutError) as failed:
            await consumer.commit({FIRST: 1}, timeout_ms=timeout_ms)
    for broker in cluster.broker_ids:
        assert f"broker {broker} ({cluster.address(broker)}): no coordinator of 'g'" in str(failed.value)


# --- coordinators that fail to work -----------------------------------------------------------------------------------


@USES
async def test_a_coordinator_that_loads_for_ever_is_left_for_the_new_one(cluster: EmbeddedCluster, use: Use) -> None:
    await fill(cluster, 1)
    depose(cluster, error_code=14)
    with anyio.fail_after(20):
        await use(cluster)


@pytest.mark.parametrize("code", [7, 15, 16])
@pytest.mark.parametrize("use", [commit_as_nobody, transact])
async def test_however_it_refuses(cluster: EmbeddedCluster, use: Use, code: int) -> None:
    depose(cluster, error_code=code)
    with anyio.fail_after(20):
        await use(cluster)


@pytest.mark.parametrize("use", [partial(consume, protocol="classic"), transact])
async def test_a_coordinator_that_is_silent_is_left_for_the_new_one(cluster: EmbeddedCluster, use: Use) -> None:
    """Even though JoinGroup may legitimately take minutes."""
    await fill(cluster, 1)
    depose(cluster, drop=True)
    with anyio.fail_after(40):
        await use(cluster)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_member_leaves_it_for_the_new_one(cluster: EmbeddedCluster, protocol: str) -> None:
    await fill(cluster, 1)
    cluster.move_coordinator(GROUP, 2)
    options = {"group_id": GROUP, "group_protocol": protocol, "auto_offset_reset": "earliest", **QUICK}
    options |= {"heartbeat_interval_ms": 50} if protocol == "classic" else {}
    async with (
        Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer,
        reading(consumer) as got,
    ):
        await until(lambda: len(got) == 6)
        assert consumer.health().coordinator == 2
        depose(cluster, error_code=14)
        await until(lambda: consumer.health().coordinator == 3)
        with anyio.fail_after(20):
            await consumer.commit()


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(partial(consume, protocol="classic"), id="classic"),
        pytest.param(partial(consume, protocol="consumer"), id="consumer"),
        commit_as_nobody,
        share,
    ],
)
async def test_errors_without_a_reason_are_borne_for_a_while(cluster: EmbeddedCluster, use: Use) -> None:
    await fill(cluster, 1)
    for api in OF_COORDINATORS:
        cluster.faults.add(api, error_code=UnknownServerError, count=2)
    with anyio.fail_after(30):
        await use(cluster)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_errors_without_a_reason_that_last_are_raised(cluster: EmbeddedCluster, protocol: str) -> None:
    for api in OF_COORDINATORS:
        cluster.faults.add(api, error_code=UnknownServerError)
    options = {"group_id": GROUP, "group_protocol": protocol, **QUICK}
    async with starting(Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options)) as consumer:
        with anyio.fail_after(30), pytest.raises(UnknownServerError):
            await consumer.getone()


async def test_a_coordinator_that_loads_is_waited_for(cluster: EmbeddedCluster) -> None:
    """Indefinitely, if other brokers confirm it, at a rate that the backoffs limit."""
    fault = cluster.faults.add("OffsetCommit", count=12, error_code=14)
    with anyio.fail_after(20):
        await commit_as_nobody(cluster)
    assert fault.struck == 12
    assert cluster.requests.count("FindCoordinator") <= 1 + 12


async def test_health_says_since_when_it_is_in_doubt(cluster: EmbeddedCluster) -> None:
    fault = cluster.faults.add("JoinGroup", error_code=14)
    options = {"group_id": GROUP, "request_timeout_ms": 1_000, **QUICK}
    async with starting(Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **options)) as consumer:
        await until(lambda: (consumer.health().coordinator_doubted_ms or 0) > 0)
        await until(lambda: any("acted as group coordinator" in problem for problem in consumer.health().problems))
        [problem] = [problem for problem in consumer.health().problems if "acted as group coordinator" in problem]
        assert f"broker {cluster.coordinator(GROUP)}" in problem
        fault.remove()
        await until(lambda: consumer.health().coordinator_doubted_ms is None)

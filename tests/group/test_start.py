"""`start` of a group's member: the state when it returns, and the work that it leaves to later."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import (
    ClientClosedError,
    CoordinatorNotAvailableError,
    GroupAuthorizationFailedError,
    IllegalStateError,
    RebalanceListenerError,
    RequestTimedOutError,
    UnsupportedVersionError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import ALL, Partitions, Recorder, fill, member, reading, shared, starting, until

pytestmark = pytest.mark.anyio

LATEST: dict[str, Any] = {"auto_offset_reset": "latest"}
AT_ONCE_S = 20
"""Much shorter than ``request_timeout_ms``."""

KINDS = pytest.mark.parametrize(
    "kind",
    [
        {"partition_assignment_strategy": ["cooperative-sticky"]},
        {"partition_assignment_strategy": ["range"]},
        {"group_protocol": "consumer"},
        {"group_instance_id": "i"},
        {"group_protocol": "consumer", "group_instance_id": "i"},
    ],
    ids=["cooperative", "eager", "consumer", "static", "consumer-static"],
)
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


async def send_each(cluster: EmbeddedCluster) -> None:
    """Write one record to each partition."""
    async with Producer(cluster.bootstrap_servers) as producer:
        for tp in sorted(ALL):
            await producer.send_and_wait(tp.topic, b"1", partition=tp.partition)


def impatient(request_timeout_ms: int) -> dict[str, Any]:
    """Return options with which a start waits for no longer than this."""
    return {"request_timeout_ms": request_timeout_ms, "fetch_max_wait_ms": 100}


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return all warnings, except warnings about an event loop that was blocked because the machine stalled."""
    found = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    return [text for text in found if not text.startswith("aiokafka-lead: the event loop was blocked")]


@KINDS
async def test_latest_counts_from_the_end_of_start(cluster: EmbeddedCluster, kind: dict[str, Any]) -> None:
    await fill(cluster, 2)
    async with member(cluster, "events", **LATEST, **kind) as one:
        assert one.assignment() == ALL
        await send_each(cluster)
        async with reading(one) as got:
            await until(lambda: len(got) == len(ALL), AT_ONCE_S)
        assert {record.offset for record in got} == {2}


@KINDS
async def test_members_that_start_one_after_the_other(cluster: EmbeddedCluster, kind: dict[str, Any]) -> None:
    """In one task that does not read meanwhile: members do not wait for later ones, and every record is read."""
    static = "group_instance_id" in kind
    members = [
        member(cluster, "events", **LATEST, **(kind | ({"group_instance_id": f"i{index}"} if static else {})))
        for index in range(3)
    ]
    one, two, three = members
    with anyio.fail_after(20):
        async with one, two, three:
            await send_each(cluster)
            async with reading(*members) as got:
                await until(lambda: len({(record.topic, record.partition) for record in got}) == len(ALL), AT_ONCE_S)


@PROTOCOLS
async def test_a_pattern_and_a_subscription_that_comes_later(cluster: EmbeddedCluster, protocol: str) -> None:
    async with member(cluster, group_protocol=protocol) as consumer:
        consumer.subscribe(pattern="ev.*")
        await consumer.wait_ready()
        assert consumer.assignment() == ALL
        consumer.unsubscribe()
        await consumer.wait_ready()
        consumer.subscribe(["events"])
        await consumer.wait_ready()
        assert consumer.assignment() == ALL
        consumer.assign([TopicPartition("events", 1)])
        await consumer.wait_ready()
        assert consumer.assignment() == {TopicPartition("events", 1)}
    two = member(cluster, group_protocol=protocol)
    two.subscribe(pattern="ev.*")
    async with two:
        assert two.assignment() == ALL


@PROTOCOLS
@pytest.mark.parametrize("how", ["topic", "pattern"])
async def test_topics_that_do_not_exist_yet(cluster: EmbeddedCluster, protocol: str, how: str) -> None:
    consumer = member(cluster, group_protocol=protocol, allow_auto_create_topics=False)
    if how == "topic":
        consumer.subscribe(["nowhere"])
    else:
        consumer.subscribe(pattern="nowhere")
    with anyio.fail_after(AT_ONCE_S):
        async with consumer:
            assert consumer.assignment() == frozenset()


@PROTOCOLS
async def test_a_listener_may_use_the_consumer(cluster: EmbeddedCluster, protocol: str) -> None:
    """Its seeks have taken effect when start returns."""
    await fill(cluster, 5)
    found: list[object] = []

    class Seeking(Recorder):
        async def on_partitions_assigned(self, partitions: Partitions) -> None:
            first, second, *others = sorted(partitions)
            found.append(await consumer.position(first))
            found.append(await consumer.committed(second))
            await consumer.seek_to_end(first)
            for tp in (second, *others):
                consumer.seek(tp, 3)
            await super().on_partitions_assigned(partitions)

    consumer = member(cluster, group_protocol=protocol)
    consumer.subscribe(["events"], listener=(recorder := Seeking()))
    async with consumer:
        assert recorder.heard == [("assigned", ALL)]
        assert found == [0, None]
        with anyio.fail_after(0):
            assert [await consumer.position(tp) for tp in sorted(ALL)] == [5, 3, 3, 3, 3, 3]


async def test_a_listener_that_raises_does_not_keep_it_from_starting(cluster: EmbeddedCluster) -> None:
    class Failing:
        def on_partitions_assigned(self, partitions: Partitions) -> None:
            raise ZeroDivisionError

    consumer = member(cluster)
    consumer.subscribe(["events"], listener=Failing())
    async with consumer:
        assert consumer.assignment() == ALL
        with pytest.raises(RebalanceListenerError):
            await consumer.getone()


async def test_a_listener_cannot_wait_for_what_it_is_part_of(cluster: EmbeddedCluster) -> None:
    class Waiting:
        async def on_partitions_assigned(self, partitions: Partitions) -> None:
            await consumer.wait_ready()

    consumer: Consumer[Any, Any] = member(cluster)
    consumer.subscribe(["events"], listener=Waiting())
    with anyio.fail_after(AT_ONCE_S):
        async with consumer:
            with pytest.raises(RebalanceListenerError) as caught:
                await consumer.getone()
    assert isinstance(caught.value.__cause__, IllegalStateError)


@again_if_late(1_000, 8_000)
async def test_a_listener_that_is_slow_is_left_to_the_background(
    request_timeout_ms: int, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    go_on = anyio.Event()

    class Slow:
        async def on_partitions_assigned(self, partitions: Partitions) -> None:
            await go_on.wait()

    consumer = member(cluster, **impatient(request_timeout_ms))
    consumer.subscribe(["events"], listener=Slow())
    async with consumer:
        (warning,) = warnings(caplog)
        assert "the first assignment of its group (pending: the takeover of the assigned partitions)" in warning
        go_on.set()
        await consumer.wait_ready()


@again_if_late(1_000, 8_000)
async def test_a_leader_that_lacks_a_topic_names_that_and_no_other_member(
    request_timeout_ms: int, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    options = {**impatient(request_timeout_ms), "allow_auto_create_topics": False}
    async with member(cluster, "missing", group_protocol="classic", **options):
        (warning,) = warnings(caplog)
        assert "metadata of the subscribed topics, whose partitions this member assigns as the group leader" in warning


@again_if_late(400, 5_000)
async def test_a_slow_rebalance_does_not_keep_it_from_starting(
    request_timeout_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    async with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("events", partitions=6)
        slow = cluster.faults.add("JoinGroup", hold=True, skip=1, count=1)
        async with member(cluster, "events", **impatient(request_timeout_ms)) as consumer:
            (warning,) = warnings(caplog)
            assert "a response to JoinGroup" in warning
            with pytest.raises(RequestTimedOutError, match="a response to JoinGroup"):
                await consumer.wait_ready(timeout_ms=50)
            slow.release()
            await consumer.wait_ready()
            assert consumer.assignment() == ALL


@again_if_late(1_000, 8_000)
async def test_a_coordinator_that_is_not_found_is_named(
    request_timeout_ms: int, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    cluster.faults.clear()  # from the first attempt
    rule = cluster.faults.add("FindCoordinator", error_code=CoordinatorNotAvailableError.code)
    async with member(cluster, "events", **impatient(request_timeout_ms)) as consumer:
        (warning,) = warnings(caplog)
        assert "the look-up of its coordinator" in warning
        rule.remove()
        await consumer.wait_ready()
        assert consumer.assignment() == ALL


async def test_waiting_in_start_is_progress(caplog: pytest.LogCaptureFixture) -> None:
    """``max_poll_interval_ms`` concerns an application that could read records."""
    async with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("events", partitions=6)
        cluster.faults.add("SyncGroup", delay_ms=800, count=1)
        options: dict[str, Any] = {"max_poll_interval_ms": 300, "rebalance_timeout_ms": 10_000}
        async with member(cluster, "events", **options) as consumer:
            assert consumer.assignment() == ALL
        assert warnings(caplog) == []


@pytest.mark.parametrize(
    ("protocol", "error"), [("classic", GroupAuthorizationFailedError), ("consumer", UnsupportedVersionError)]
)
async def test_what_keeps_it_out_of_the_group_is_raised(
    cluster: EmbeddedCluster, protocol: str, error: type[Exception]
) -> None:
    cluster.faults.add("JoinGroup", error_code=GroupAuthorizationFailedError.code)
    cluster.max_versions = {"ConsumerGroupHeartbeat": -1}
    consumer = member(cluster, "events", group_protocol=protocol)
    with anyio.fail_after(AT_ONCE_S), pytest.raises(error):
        await consumer.start()
    with pytest.raises(ClientClosedError):
        await consumer.getone()
    await until(lambda: not any(map(cluster.connection_count, cluster.broker_ids)))


@PROTOCOLS
async def test_a_cancelled_start_leaves_the_group(cluster: EmbeddedCluster, protocol: str) -> None:
    """Otherwise the next member would wait for its session to end, in 20 s or more."""
    cluster.faults.add("ListOffsets", delay_ms=60_000, client_id="cancelled")
    one = member(cluster, "events", group_protocol=protocol, client_id="cancelled")
    with anyio.fail_after(AT_ONCE_S):
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def cancel() -> None:
                    await cluster.wait_for_requests("ListOffsets")
                    scope.cancel()

                tasks.start_soon(cancel)
                await one.start()
        assert scope.cancelled_caught
        async with member(cluster, "events", group_protocol=protocol) as two:
            await until(lambda: two.assignment() == ALL)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_is_cancelled_in_start_leaves_the_group(cluster: EmbeddedCluster) -> None:
    """With asyncio's own cancellation, which knows no scopes."""
    cluster.faults.add("ListOffsets", delay_ms=60_000, client_id="cancelled")
    one = member(cluster, "events", client_id="cancelled")
    task = asyncio.get_running_loop().create_task(one.start())
    await cluster.wait_for_requests("ListOffsets")
    task.cancel()
    with anyio.fail_after(AT_ONCE_S):
        with pytest.raises(asyncio.CancelledError):
            await task
        async with member(cluster, "events") as two:
            await until(lambda: two.assignment() == ALL)


@pytest.mark.parametrize("wait", [True, False])
async def test_stop_ends_a_wait_for_the_group(cluster: EmbeddedCluster, wait: bool) -> None:
    cluster.faults.add("SyncGroup", delay_ms=60_000)
    consumer = member(cluster, "events")
    with anyio.fail_after(AT_ONCE_S):
        async with anyio.create_task_group() as tasks:

            async def start() -> None:
                if not wait:
                    await consumer.start(wait=False)
                with pytest.raises(ClientClosedError):
                    await (consumer.start() if wait else consumer.wait_ready())

            tasks.start_soon(start)
            await cluster.wait_for_requests("SyncGroup")
            await consumer.stop(timeout_ms=1_000)


async def test_one_waits_in_start_while_another_joins(cluster: EmbeddedCluster) -> None:
    members = [member(cluster, "events", **LATEST) for _ in range(3)]
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for consumer in members:
                tasks.start_soon(consumer.start)
        async with reading(*members):
            await until(lambda: shared(members))
        for consumer in members:
            await consumer.stop()


async def test_without_waiting_it_joins_in_the_background(cluster: EmbeddedCluster) -> None:
    slow = cluster.faults.add("JoinGroup", hold=True, count=1)
    async with starting(member(cluster, "events")) as consumer:
        assert consumer.assignment() == frozenset()
        slow.remove()
        await consumer.wait_ready()
        assert consumer.assignment() == ALL


@PROTOCOLS
async def test_latest_counts_from_the_end_of_wait_ready(cluster: EmbeddedCluster, protocol: str) -> None:
    """A coordinator of KIP-848 assigns the new partitions only once it has heard that the others were given up."""
    cluster.create_topic("other")
    async with (
        Producer(cluster.bootstrap_servers) as producer,
        member(cluster, "other", group_protocol=protocol, **LATEST) as consumer,
    ):
        await producer.send_and_wait("events", b"before", partition=0)
        consumer.subscribe(["events"])
        await consumer.wait_ready()
        assert consumer.assignment() == ALL
        await producer.send_and_wait("events", b"after", partition=0)
        with anyio.fail_after(AT_ONCE_S):
            assert (await consumer.getone()).value == b"after"


@pytest.mark.parametrize(
    ("protocol", "api"),
    [("classic", "FindCoordinator"), ("classic", "JoinGroup"), ("consumer", "ConsumerGroupHeartbeat")],
)
async def test_who_reads_again_after_each_error_does_not_flood_the_brokers(
    cluster: EmbeddedCluster, protocol: str, api: str
) -> None:
    cluster.faults.add(api, error_code=GroupAuthorizationFailedError.code)
    async with starting(member(cluster, "events", group_protocol=protocol, retry_backoff_ms=100)) as consumer:
        for _ in range(4):
            with anyio.fail_after(AT_ONCE_S), pytest.raises(GroupAuthorizationFailedError):
                await consumer.getone()
        asked = [request.time for request in cluster.requests.select(api)]
        assert all(later - earlier > 0.07 for earlier, later in pairwise(asked))  # the jitter is a fifth

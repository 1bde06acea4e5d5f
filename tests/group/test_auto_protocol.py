"""Members with ``group_protocol="auto"``: KIP-848 if the brokers support it, otherwise the classic protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokafka_lead import AdminClient
from aiokafka_lead.config import ConsumerConfig
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import (
    ConfigError,
    GroupIdNotFoundError,
    InvalidSessionTimeoutError,
    RebalanceInProgressError,
    UnsupportedAssignorError,
)
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions

from ..patience import again_if_late
from .support import ALL, GROUP, Recorder, fill, member, reading, shared, until

anyio_only = pytest.mark.anyio

QUICK = GroupOptions(consumer_heartbeat_interval_ms=50)


def auto(cluster: EmbeddedCluster, *topics: str, **options: Any) -> Consumer[Any, Any]:
    return member(cluster, *(topics or ("events",)), group_protocol="auto", **options)


@asynccontextmanager
async def cluster_with(**options: Any) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(brokers=1, **{"groups": QUICK, **options}) as cluster:
        cluster.create_topic("events", partitions=6)
        yield cluster


async def group_type(cluster: EmbeddedCluster) -> str:
    async with AdminClient(cluster.bootstrap_servers) as admin:
        (found,) = [group.type async for group in admin.list_groups() if group.group_id == GROUP]
        return found


def asked(cluster: EmbeddedCluster) -> set[str]:
    """Return the requests that members have joined with."""
    return {record.api for record in cluster.requests} & {"JoinGroup", "ConsumerGroupHeartbeat"}


@anyio_only
async def test_the_new_protocol_where_brokers_serve_it() -> None:
    async with cluster_with() as cluster, auto(cluster) as one, auto(cluster) as two, reading(one, two) as got:
        await fill(cluster, 2)
        await until(lambda: shared([one, two]) and len(got) >= 12)
        assert asked(cluster) == {"ConsumerGroupHeartbeat"}
        await one.commit()


@anyio_only
@pytest.mark.parametrize(
    "options", [{"max_versions": {"ConsumerGroupHeartbeat": -1}}, {"features": {"group.version": 0}}], ids=str
)
async def test_the_classic_one_elsewhere(options: dict[str, Any]) -> None:
    async with cluster_with(**options) as cluster, auto(cluster) as one, auto(cluster) as two:
        async with reading(one, two) as got:
            await fill(cluster, 2)
            await until(lambda: shared([one, two]) and len(got) >= 12)
        assert await group_type(cluster) == "classic"
        cluster.faults.add("OffsetCommit", error_code=RebalanceInProgressError, count=1)
        await one.commit()


@anyio_only
async def test_a_pattern_is_matched_wherever_it_can_be() -> None:
    async with cluster_with(features={"group.version": 0}) as cluster:
        consumer = member(cluster, group_protocol="auto")
        consumer.subscribe(pattern="ev.*")
        async with consumer, reading(consumer):
            await until(lambda: consumer.assignment() == ALL)


@anyio_only
async def test_a_live_group_that_cannot_be_converted_keeps_its_protocol() -> None:
    async with cluster_with() as cluster:
        cluster.faults.add("ConsumerGroupHeartbeat", error_code=GroupIdNotFoundError)
        async with member(cluster, "events") as old, auto(cluster) as new, reading(old, new):
            await until(lambda: shared([old, new]))
            assert await group_type(cluster) == "classic"


@anyio_only
@pytest.mark.parametrize(("before", "after"), [("classic", "auto"), ("auto", "classic")])
async def test_a_live_group_is_converted_member_by_member(before: str, after: str) -> None:
    async with cluster_with() as cluster:
        consumers = [member(cluster, "events", group_protocol=before) for _ in range(2)]
        following = [member(cluster, "events", group_protocol=after) for _ in range(2)]
        got: list[Any] = []
        for consumer in consumers:
            await consumer.start()
        async with reading(*consumers) as first:
            await fill(cluster, 5)
            await until(lambda: shared(consumers) and len(first) >= 30)
        got += first
        for leaving, coming in zip(consumers, following, strict=True):
            await coming.start()
            others = [each for each in (*consumers, *following) if each is not coming and each.assignment()]
            async with reading(*others, coming) as more:
                await until(lambda others=others, coming=coming: shared([*others, coming]))  # type: ignore[misc]
            got += more
            await leaving.stop()
        async with reading(*following) as last:
            await fill(cluster, 5)
            # A late member lost its partitions: uncommitted records come again.
            await until(lambda: shared(following) and len({(r.partition, r.offset) for r in [*got, *last]}) == 60)
        assert await group_type(cluster) == ("consumer" if after == "auto" else "classic")
        for consumer in following:
            await consumer.stop()


@anyio_only
@again_if_late(300, 5_000)
async def test_a_member_goes_on_when_the_protocol_is_taken_away(session_ms: int) -> None:
    """Other members may own its partitions by then: they are lost, and return by the classic protocol."""
    async with cluster_with(groups=QUICK._replace(consumer_session_timeout_ms=session_ms)) as cluster:
        heard = Recorder()
        consumer = member(cluster, group_protocol="auto")
        consumer.subscribe(["events"], listener=heard)
        async with consumer, reading(consumer):
            await until(lambda: consumer.assignment() == ALL)
            heard.heard.clear()
            cluster.set_feature("group.version", 0)
            await until(lambda: "JoinGroup" in asked(cluster) and consumer.assignment() == ALL)
            assert heard.named("lost") == [ALL]
        cluster.set_feature("group.version", 1)


@anyio_only
async def test_an_unsubscribed_consumer_joins_by_the_protocol_that_is_left() -> None:
    async with cluster_with(features={"group.version": 0}) as cluster, auto(cluster) as consumer:
        assert consumer.assignment() == ALL
        consumer.unsubscribe()
        await until(lambda: not consumer.assignment())
        consumer.subscribe(["events"])
        async with reading(consumer):
            await until(lambda: consumer.assignment() == ALL)


@anyio_only
async def test_other_errors_reach_the_application() -> None:
    async with cluster_with() as cluster:
        with pytest.raises(UnsupportedAssignorError):
            await auto(cluster, group_remote_assignor="mine").start()
    async with cluster_with(features={"group.version": 0}) as cluster:
        cluster.faults.add("JoinGroup", error_code=InvalidSessionTimeoutError)
        with pytest.raises(InvalidSessionTimeoutError):
            await auto(cluster).start()


class Own:
    """An assignor of the application."""

    name = "own"
    cooperative = False

    def user_data(self, *_: object) -> bytes:
        return b""

    def assign(self, *_: object) -> dict[str, object]:
        return {}


def config(**options: Any) -> ConsumerConfig:
    return ConsumerConfig.from_options("b:1", {"group_id": "g", **options})


def test_an_assignor_of_the_application_has_no_place_in_both_protocols() -> None:
    config(group_protocol="classic", partition_assignment_strategy=[Own()])
    with pytest.raises(ConfigError, match="must contain names"):
        config(group_protocol="auto", partition_assignment_strategy=["range", Own()])


@pytest.mark.parametrize(
    ("options", "remote"),
    [
        ({}, None),
        ({"partition_assignment_strategy": "sticky,range"}, None),
        ({"partition_assignment_strategy": "range,sticky"}, "range"),
        ({"partition_assignment_strategy": "range", "group_remote_assignor": "uniform"}, "uniform"),
    ],
    ids=str,
)
def test_the_broker_assigns_as_the_members_would(options: dict[str, Any], remote: str | None) -> None:
    assert config(group_protocol="auto", **options).remote_assignor == remote

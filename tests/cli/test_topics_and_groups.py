"""``aiokafka-lead topics`` and ``groups``."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, Producer, ShareConsumer
from aiokafka_lead.testing import ClusterThread

from .conftest import CommandLine


def test_topics(cli: CommandLine, cluster: ClusterThread) -> None:
    made = cli.fine("topics", "create", "made", "-p", "2", "-r", "3", "-c", "retention.ms=1000", "--json")
    assert made.json == {"topic": "made", "partitions": 2, "replication_factor": 3, "created": True}
    cli.fine("topics", "create", "planned", "--dry-run")
    assert "planned" not in cluster.topic_names()
    cluster.set_isr("made", 0, [1, 2])
    listed = {row["topic"]: row for row in cli.fine("topics", "list", "--json").json}
    assert (listed["made"]["partitions"], listed["made"]["under_replicated"]) == (2, 1)
    cli.fine("topics", "add-partitions", "made", "3")
    cli.fine("produce", "made", "--partition", "2", stdin="1\n2\n")
    described = cli.fine("topics", "describe", "made", "--json").json
    assert [(row["partition"], row["start"], row["end"]) for row in described] == [(0, 0, 0), (1, 0, 0), (2, 0, 2)]
    ran = cli("topics", "create", "made")
    assert (ran.code, "TopicAlreadyExistsError" in ran.err) == (1, True)
    for answer in ("n\n", ""):
        ran = cli("topics", "delete", "made", stdin=answer)
        assert (ran.code, "not confirmed: nothing was changed" in ran.err) == (1, True)
    assert "made" in cluster.topic_names()
    cli.fine("topics", "delete", "made", "-y")
    assert "made" not in cluster.topic_names()
    assert cli("topics", "describe", "made").code == 1


def test_groups(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("read", 2)
    cli.fine("produce", "read", "--partition", "0", stdin="1\n2\n3\n")
    cli.fine("consume", "read", "-g", "readers", "-n", "2")
    listed = {row["group"]: row for row in cli.fine("groups", "list", "--json").json}
    assert (listed["readers"]["type"], listed["readers"]["state"]) == ("classic", "Empty")
    lag = cli.fine("groups", "lag", "readers", "--json").json
    assert next((row["partition"], row["committed"], row["end"], row["lag"]) for row in lag) == (0, 2, 3, 1)
    planned = cli.fine("groups", "reset", "readers", "--to", "-1", "-t", "read", "--dry-run", "--json")
    assert next((row["before"], row["after"]) for row in planned.json) == (2, 1)
    assert cli("groups", "reset", "readers", "--to", "beginning", stdin="n\n").code == 1
    assert cli.fine("groups", "lag", "readers", "--json").json[0]["committed"] == 2
    cli.fine("groups", "reset", "readers", "--to", "@1h", "-y")
    assert cli.fine("groups", "lag", "readers", "--json").json[0]["committed"] == 0
    cli.fine("groups", "delete", "readers", "-y")
    assert "readers" not in {row["group"] for row in cli.fine("groups", "list", "--json").json}
    ran = cli("groups", "lag", "readers")
    assert (ran.code, "there is no group 'readers'" in ran.err) == (1, True)
    ran = cli("groups", "reset", "readers", "--to", "noon")
    assert (ran.code, "--to takes" in ran.err) == (2, True)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_living_group_is_described_watched_and_not_reset(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("live", 1)
    servers = cluster.bootstrap_servers
    async with Consumer("live", bootstrap_servers=servers, group_id="living", client_id="app"):
        described = await anyio.to_thread.run_sync(lambda: cli.fine("groups", "describe", "living", "--json").json)
        assert [(row["state"], row["client"], row["has"]) for row in described] == [("Stable", "app", ["live-0"])]
        watch = ("groups", "lag", "living", "--watch", "--interval", "10ms", "--count", "2")
        looks = await anyio.to_thread.run_sync(lambda: cli.fine(*watch, "--json").lines)
        assert [json.loads(look)[0]["member"] for look in looks] == ["app", "app"]
        seen = await anyio.to_thread.run_sync(lambda: cli.fine(*watch).out)
        assert "total lag: 0 records" in seen
        ran = await anyio.to_thread.run_sync(
            lambda: cli("groups", "reset", "living", "--to", "end", "-t", "live", "-y")
        )
        assert (ran.code, "has members" in ran.err) == (1, True)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_share_groups(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("jobs", 1)
    servers = cluster.bootstrap_servers

    async def fine(*arguments: str) -> Any:
        return await anyio.to_thread.run_sync(lambda: cli.fine(*arguments, "--json").json)

    async def fails(*arguments: str, why: str) -> None:
        ran = await anyio.to_thread.run_sync(lambda: cli(*arguments))
        assert (ran.code, why in ran.err) == (1, True), ran.err

    await fine("configs", "set", "group", "workers", "share.auto.offset.reset=earliest")
    shown = await fine("configs", "show", "group", "workers")
    assert {row["name"]: row["value"] for row in shown}["share.auto.offset.reset"] == "earliest"
    await fails("configs", "set", "group", "workers", "share.isolation.level=serializable", why="InvalidConfigError")
    async with Producer(servers) as producer:
        for number in range(4):
            await producer.send_and_wait("jobs", b"%d" % number)
    async with ShareConsumer("jobs", bootstrap_servers=servers, group_id="workers", client_id="app") as jobs:
        got = 0
        async for record in jobs:
            jobs.acknowledge(record)
            got += 1
            if got == 3:
                break
        await jobs.commit()
        described = await fine("groups", "describe", "workers")
        assert [(row["state"], row["client"], row["has"]) for row in described] == [("Stable", "app", ["jobs-0"])]
        (row,) = await fine("groups", "lag", "workers")
        assert (row["end"], row["lag"], row["member"]) == (4, 1, "app")
        reset = ("groups", "reset", "workers", "-t", "jobs", "-y")
        await fails(*reset, "--to", "beginning", why="NonEmptyGroupError")
        await fails("groups", "forget", "workers", "-t", "jobs", "-y", why="NonEmptyGroupError")
        await fails("groups", "delete", "workers", "-y", why="NonEmptyGroupError")
    assert ("workers", "share") in {(each["group"], each["type"]) for each in await fine("groups", "list")}
    (planned,) = await fine(*reset, "--to", "2", "--dry-run")
    assert planned["after"] == 2
    await fine(*reset, "--to", "2")
    (row,) = [each for each in await fine("groups", "lag") if each["group"] == "workers"]
    assert (row["committed"], row["lag"]) == (2, 2)
    await fine("groups", "forget", "workers", "-t", "jobs", "-y")
    assert await fine("groups", "lag", "workers") == []
    await fails("groups", "forget", "workers", "-t", "jobs", "-y", why="UnknownTopicOrPartitionError")
    await fine("groups", "delete", "workers", "-y")
    await fails("groups", "describe", "workers", why="there is no group 'workers'")


def test_a_group_forgets_a_topic(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("past", 1)
    cli.fine("produce", "past", stdin="1\n")
    cli.fine("consume", "past", "-g", "old", "-n", "1")
    cli.fine("groups", "forget", "old", "-t", "past", "-y")
    ran = cli("groups", "forget", "old", "-t", "past", "-y")
    assert (ran.code, "no offset in past" in ran.err) == (1, True)

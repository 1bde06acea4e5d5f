"""Classic groups, members removed from groups, and topics by pages on real Kafka, beside Java's own tools."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer
from aiokafka_lead._wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from aiokafka_lead._wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from aiokafka_lead.admin import (
    AclOperation,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    GroupState,
    NewTopic,
    StreamsTopologyStatus,
    TopicDescription,
    outcomes_of,
)
from aiokafka_lead.errors import (
    ConfigError,
    GroupIdNotFoundError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)

from .coordinator_probes import Members, coordinator
from .harness import KafkaCluster
from .probes import World
from .support import in_thread, on_asyncio
from .test_admin import eventually

pytestmark = [pytest.mark.anyio, on_asyncio]

_GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_GROUPS_TOOL = "org.apache.kafka.tools.GroupsCommand"
_TOPICS_TOOL = "org.apache.kafka.tools.TopicCommand"


async def rows(kafka: KafkaCluster, tool: str, *arguments: str) -> list[list[str]]:
    """Return the words of each line that one of Java's tools prints."""
    # Not `run`, to which the topics tool's way to end looks like a failure.
    ended = await in_thread(kafka.tools.call, tool, "--bootstrap-server", kafka.bootstrap(), *arguments)
    return [line.split() for line in ended.stdout.splitlines() if line.strip()]


async def test_classic_groups(kafka: KafkaCluster, admin: AdminClient, topic_name: Callable[[], str]) -> None:
    topic, group, new, workers, nobody = (topic_name() for _ in range(5))
    await admin.create_topics([NewTopic(topic, 2, 3)])
    world = World(kafka.bootstrap())
    await world.topic(topic_name())  # the world knows the brokers then
    member = Members(world, workers, topic, await coordinator(world, workers))
    offer: dict[str, Any] = {"protocol_type": "connect", "protocols": ("sessioned",), "metadata": b"where I am"}
    offer["session_timeout_ms"] = 300_000  # it sends no heartbeat while Java's tools run
    asked = await member.join(**offer)
    joined = await member.join(asked.member_id, **offer)
    await member.sync(
        joined.generation_id, joined.member_id, protocol_type="connect", protocol="sessioned", assignment=b"to do"
    )
    servers = kafka.bootstrap()
    async with (
        Consumer(topic, bootstrap_servers=servers, group_id=group, client_id="app", group_instance_id="one"),
        Consumer(topic, bootstrap_servers=servers, group_id=new, group_protocol="consumer"),
    ):
        found = await outcomes_of(
            admin.describe_classic_groups([group, new, workers, nobody], include_authorized_operations=True)
        )
        assert isinstance(found[new], GroupIdNotFoundError)
        assert isinstance(found[nobody], GroupIdNotFoundError)
        mine, theirs = found[group], found[workers]
        assert not isinstance(mine, Exception)
        assert not isinstance(theirs, Exception)
        (worker,) = theirs.members
        assert (theirs.protocol_type, theirs.protocol, theirs.state) == ("connect", "sessioned", GroupState.STABLE)
        assert (worker.member_id, worker.metadata, worker.assignment) == (joined.member_id, b"where I am", b"to do")
        assert AclOperation.DESCRIBE in (theirs.authorized_operations or ())
        listed = {row[0]: row[1:] for row in await rows(kafka, _GROUPS_TOOL, "--list")}
        assert listed[workers] == ["Classic", "connect"]
        assert listed[group] == ["Classic", mine.protocol_type]
        (one,) = mine.members
        assert (mine.protocol, mine.state) == ("cooperative-sticky", GroupState.STABLE)
        said = await rows(kafka, _GROUP_TOOL, "--describe", "--group", group, "--members")
        assert said[-1][:6] == [group, one.member_id, "one", one.host, "app", "2"]
        state = await rows(kafka, _GROUP_TOOL, "--describe", "--group", group, "--state")
        assert str(mine.coordinator_id) == state[-1][2].strip("()")
        assert state[-1][3:5] == [mine.protocol, mine.state.value]
        with pytest.raises(GroupIdNotFoundError, match="describe_classic_groups"):
            await admin.describe_consumer_groups([workers])
    await member.leave((joined.member_id, None))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_are_taken_out(
    kafka: KafkaCluster, admin: AdminClient, topic_name: Callable[[], str], protocol: str
) -> None:
    topic, group = topic_name(), topic_name()
    await admin.create_topics([NewTopic(topic, 2, 3)])

    options: dict[str, Any] = {"group_id": group, "group_protocol": protocol}
    if protocol == "classic":
        options["heartbeat_interval_ms"] = 300  # learns of a rebalance soon
    else:
        # Closed members keep their places for this long: a session of the classic protocol.
        change = ConfigChange("consumer.session.timeout.ms", "45000")
        await admin.incremental_alter_configs({ConfigResource(ConfigResourceType.GROUP, group): [change]})

    def member(**more: Any) -> Consumer[Any, Any]:
        return Consumer(topic, bootstrap_servers=kafka.bootstrap(), **options, **more)

    async def members() -> set[str | None]:
        described = (await admin.describe_consumer_groups([group]))[group]
        return {each.group_instance_id for each in described.members}

    with pytest.raises(GroupIdNotFoundError):
        await admin.remove_members_from_consumer_group(group)
    with pytest.raises((GroupIdNotFoundError, UnknownMemberIdError)):
        await admin.remove_members_from_consumer_group(group, static_members=["one"])
    async with member(group_instance_id="one"), member(group_instance_id="two"):
        pass  # both keep their places when they are closed
    assert await members() == {"one", "two"}
    with pytest.raises(UnknownMemberIdError, match="three"):
        await admin.remove_members_from_consumer_group(group, static_members=["one", "three"])
    assert await members() == {"two"}
    said = await rows(kafka, _GROUP_TOOL, "--describe", "--group", group, "--members")
    assert [row[2] for row in said if row[0] == group] == ["two"]
    with pytest.raises(UnknownMemberIdError, match="no-such-member"):
        await admin.remove_members_from_consumer_group(group, members=["no-such-member"])
    await admin.remove_members_from_consumer_group(group)
    assert await members() == set()
    async with member() as live:
        before = (await admin.describe_consumer_groups([group]))[group].members
        await admin.remove_members_from_consumer_group(group, members=[each.member_id for each in before])

        async def is_back() -> bool:  # a living member rejoins
            await live.getmany(timeout_ms=100)
            now = (await admin.describe_consumer_groups([group]))[group]
            return now.state is GroupState.STABLE and [len(each.assignment) for each in now.members] == [2]

        await eventually(is_back)


async def test_topics_page_by_page(kafka: KafkaCluster, admin: AdminClient, topic_name: Callable[[], str]) -> None:
    one, nowhere, two = (topic_name() for _ in range(3))
    await admin.create_topics([NewTopic(one, 5, 3), NewTopic(two, 2, 2)])
    pages: list[TopicDescription] = []

    async def describe(*topics: str) -> None:
        pages.extend([page async for page in admin.describe_topic_partitions(topics, page_size=2)])

    await describe(two, one)
    assert [(page.name, [each.partition for each in page.partitions]) for page in pages] == [
        (one, [0, 1]),
        (one, [2, 3]),
        (one, [4]),
        (two, [0]),
        (two, [1]),
    ]
    said = [row for topic in (one, two) for row in await rows(kafka, _TOPICS_TOOL, "--describe", "--topic", topic)]
    java = [row for row in said if "Partition:" in row]
    ours = [
        [
            *("Topic:", page.name, "Partition:", str(each.partition), "Leader:", str(each.leader_id)),
            *("Replicas:", ",".join(map(str, each.replicas)), "Isr:", ",".join(map(str, each.isr))),
            *(
                "Elr:",
                *map(str, each.eligible_leader_replicas or ()),
                "LastKnownElr:",
                *map(str, each.last_known_elr or ()),
            ),
        ]
        for page in pages
        for each in page.partitions
    ]
    assert ours == java
    with pytest.raises(UnknownTopicOrPartitionError, match=nowhere):
        await describe(one, nowhere)
    with pytest.raises(ConfigError, match="no topic has this name"):
        await describe("no topic has this name")


async def streams_group(world: World, topic: str, group: str) -> None:
    """Make a streams group of one member, which reads the topic."""
    await world.look([])
    beat = StreamsGroupHeartbeatRequest(group_id=group, member_id="m", rebalance_timeout_ms=10_000, process_id="p")
    beat.topology = Topology(epoch=1, subtopologies=[Subtopology(subtopology_id="0", source_topics=[topic])])
    beat.active_tasks, beat.standby_tasks, beat.warmup_tasks = [], [], []
    response = await world.ask(beat, broker=await coordinator(world, group))
    assert response.error_code == 0, response.error_message


async def test_a_streams_group_says_its_assignor_and_whether_it_has_a_topology(
    kafka: KafkaCluster, topic_name: Callable[[], str]
) -> None:
    """KIP-1357, KIP-1331: without a plugin for them, brokers keep no descriptions."""
    topic, group = await in_thread(kafka.create_topic, topic_name()), topic_name()
    await streams_group(World(kafka.bootstrap()), topic, group)
    async with AdminClient(kafka.bootstrap()) as admin:
        found = (await admin.describe_streams_groups([group], include_topology_description=True))[group]
    assert [member.member_id for member in found.members] == ["m"]
    assert found.assignor
    assert found.topology is None
    assert found.topology_status is StreamsTopologyStatus.NOT_STORED


async def test_a_topology_that_brokers_keep(kafka_alone: KafkaCluster, topic_name: Callable[[], str]) -> None:
    topic, group = await in_thread(kafka_alone.create_topic, topic_name(), replication=1), topic_name()
    world = World(kafka_alone.bootstrap())
    await streams_group(world, topic, group)
    source = TopologyDescriptionNode(name="in", node_type=1, source_topics=[topic], successors=["count"])
    count = TopologyDescriptionNode(name="count", node_type=2, stores=["counts"], successors=["out"])
    sink = TopologyDescriptionNode(name="out", node_type=3, sink_topic="totals")
    update = StreamsGroupTopologyDescriptionUpdateRequest(group_id=group, member_id="m", topology_epoch=1)
    parts = [TopologyDescriptionSubtopology(subtopology_id="0", nodes=[source, count, sink])]
    update.topology_description = TopologyDescription(subtopologies=parts)
    response = await world.ask(update, broker=await coordinator(world, group))
    assert response.error_code == 0, response.error_message
    async with AdminClient(kafka_alone.bootstrap()) as admin:
        found = (await admin.describe_streams_groups([group], include_topology_description=True))[group]
    assert found.topology_status is StreamsTopologyStatus.AVAILABLE
    assert found.topology is not None
    nodes = found.topology.subtopologies["0"]
    assert {(node.name, node.kind) for node in nodes} == {("in", "source"), ("count", "processor"), ("out", "sink")}
    command = [sys.executable, "-m", "aiokafka_lead.cli", "groups", "topology", group, "--json"]
    ran = await anyio.run_process([*command, "-b", kafka_alone.bootstrap()])
    rows = json.loads(ran.stdout)
    assert {(row["node"], *row["topics"], *row["stores"], *row["to"]) for row in rows} == {
        ("in", topic, "count"),
        ("count", "counts", "out"),
        ("out", "totals"),
    }

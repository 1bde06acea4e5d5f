"""Share groups follow their rules; the tests on Apache Kafka compare them with Kafka's share groups."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from aiokafka_lead import Producer, errors
from aiokafka_lead._wire.messages import share_fetch as sf
from aiokafka_lead._wire.messages import share_group_heartbeat as sh
from aiokafka_lead._wire.messages.share_group_describe import ShareGroupDescribeRequest
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions
from aiokafka_lead.testing._state.batch import StoredBatch, store, validate
from aiokafka_lead.testing._state.configs import GroupConfigs, TopicConfigs, TopicDefaults, reset_time_ms
from aiokafka_lead.testing._state.consumer_members import Candidate
from aiokafka_lead.testing._state.share_deliveries import Acquired, RecordState, ShareState
from aiokafka_lead.testing._state.share_group import simple
from aiokafka_lead.testing._state.share_partition import AcknowledgedBatch, SharePartition
from aiokafka_lead.testing._state.topics import Partition, Topic

from .clock import FakeClock
from .raw import RawClient, batch, connected

LOCK_S = 30
TOPIC, OTHER = UUID(int=1), UUID(int=2)


def stored(*sizes: int) -> list[StoredBatch]:
    """Return consecutive batches of this many records."""
    found: list[StoredBatch] = []
    for size in sizes:
        data = memoryview(batch(*[b"v"] * size))
        header = validate(data, max_bytes=1_000_000, produce_version=12)
        found.append(store(data, header, found[-1].last_offset + 1 if found else 0, 0, None))
    return found


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def configs() -> GroupConfigs:
    return GroupConfigs(GroupOptions())


@pytest.fixture
def saved() -> ShareState:
    return ShareState(-1)


def share_partition(clock: FakeClock, configs: GroupConfigs, saved: ShareState, epoch: int = 0) -> SharePartition:
    """Return the state of a broker that begins to lead the partition."""
    partition = Partition(Topic("t", TOPIC, TopicConfigs({}, TopicDefaults({}))), 0, [1])
    partition.leader_epoch = epoch
    return SharePartition(partition, clock, saved, lambda: configs.share("g"), lambda: 0)


@pytest.fixture
def shares(clock: FakeClock, configs: GroupConfigs, saved: ShareState) -> SharePartition:
    return share_partition(clock, configs, saved)


def acquire(
    shares: SharePartition,
    read: Sequence[StoredBatch],
    member: str = "m",
    max_records: int = 500,
    *,
    exact: bool = False,
) -> list[Acquired]:
    offset = shares.next_offset
    ahead = [each for each in read if each.last_offset >= offset]
    return shares.acquire(member, offset, ahead, batch_size=500, max_records=max_records, exact=exact)


def acknowledge(shares: SharePartition, first: int, last: int, *types: int, member: str = "m") -> None:
    shares.acknowledge(member, [AcknowledgedBatch(first, last, types)])


def test_a_lock_ends_and_wakes_those_who_wait(clock: FakeClock, shares: SharePartition) -> None:
    read = stored(3)
    assert acquire(shares, read) == [(0, 2, 1)]
    woken: list[int] = []
    shares.watchers[lambda: woken.append(shares.next_offset)] = None
    clock.advance(LOCK_S - 1)
    assert not woken
    clock.advance(1)
    assert woken == [0]
    with pytest.raises(errors.InvalidRecordStateError):
        acknowledge(shares, 0, 2, 1)
    assert acquire(shares, read, "other") == [(0, 2, 2)]


def test_a_renewed_lock_begins_anew(clock: FakeClock, shares: SharePartition) -> None:
    read = stored(3)
    acquire(shares, read)
    clock.advance(LOCK_S - 1)
    acknowledge(shares, 1, 1, 4)
    clock.advance(LOCK_S - 1)
    assert acquire(shares, read, "other") == [(0, 0, 2), (2, 2, 2)]
    clock.advance(1)
    assert acquire(shares, read, "other") == [(1, 1, 2)]


def test_records_that_were_released_have_the_lock_of_their_next_delivery(
    clock: FakeClock, shares: SharePartition
) -> None:
    read = stored(2)
    acquire(shares, read)
    clock.advance(LOCK_S - 1)
    acknowledge(shares, 0, 1, 2)
    acquire(shares, read, "other")
    clock.advance(LOCK_S - 1)
    acknowledge(shares, 0, 1, 1, member="other")
    assert shares.start_offset == 2


def test_another_leader_goes_on_where_the_one_before_was(
    clock: FakeClock, configs: GroupConfigs, saved: ShareState, shares: SharePartition
) -> None:
    read = stored(4, 4)
    acquire(shares, read)
    shares.acknowledge("m", [AcknowledgedBatch(0, 1, [1]), AcknowledgedBatch(3, 5, [2, 3, 1])])
    shares.fence()
    clock.advance(LOCK_S + 1)
    following = share_partition(clock, configs, saved)
    assert (following.start_offset, following.next_offset) == (2, 2)
    # Records acquired there count as not delivered; 4 and 5 are done; later ones were never saved.
    assert acquire(following, read, "other") == [(2, 2, 1), (3, 3, 2), (6, 7, 1)]


def test_a_former_leader_that_has_not_noticed_releases_nothing(
    clock: FakeClock, configs: GroupConfigs, saved: ShareState, shares: SharePartition
) -> None:
    read = stored(2, 2)
    acquire(shares, read)
    following = share_partition(clock, configs, saved, shares.leader_epoch + 1)
    assert acquire(following, read, "other") == [(0, 3, 1)]
    acknowledge(following, 0, 2, 1, member="other")
    acknowledge(following, 3, 3, 2, member="other")
    shares.release("m")
    assert shares.fenced
    clock.advance(LOCK_S + 1)
    assert (saved.saved(), following.next_offset) == ([(3, 3, RecordState.AVAILABLE, 1)], 3)


def test_a_request_with_a_mistake_changes_nothing(shares: SharePartition) -> None:
    acquire(shares, stored(3))
    with pytest.raises(errors.InvalidRecordStateError):
        shares.acknowledge("m", [AcknowledgedBatch(0, 1, [1]), AcknowledgedBatch(1, 2, [1])])
    acknowledge(shares, 0, 2, 1)
    assert shares.start_offset == 3


def test_no_more_records_are_locked_than_the_group_may(configs: GroupConfigs, shares: SharePartition) -> None:
    configs.replace("g", {"share.partition.max.record.locks": "100"})
    read = stored(60, 60, 60)
    assert acquire(shares, read) == [(0, 119, 1)]
    assert acquire(shares, read, "other") == []
    acknowledge(shares, 0, 59, 2)
    assert acquire(shares, read, "other") == [(0, 59, 2)]


def test_records_before_the_start_of_the_log_are_done_with(shares: SharePartition) -> None:
    acquire(shares, stored(4, 4))
    acknowledge(shares, 0, 3, 2)
    shares.partition.log.start_offset = 6
    shares.reset_to_log_start()
    assert shares.next_offset == 8
    acknowledge(shares, 4, 7, 1)
    assert shares.start_offset == 8


@pytest.mark.parametrize("members", range(1, 8))
@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_partitions_are_shared_evenly(members: int, partitions: int) -> None:
    wanted = {TOPIC: partitions}
    before = simple([Candidate("m0", None, wanted)], {})
    candidates = [Candidate(f"m{number}", None, wanted) for number in range(members)]
    target = simple(candidates, before)
    holders = [sum((TOPIC, index) in slots for slots in target.values()) for index in range(partitions)]
    assert max(holders) - min(holders) <= 1
    assert min(holders) >= 1
    assert all(target.values())
    assert max(map(len, target.values())) - min(map(len, target.values())) <= 1
    assert target["m0"] <= before["m0"]
    assert simple(candidates, target) == target


def test_members_share_only_what_they_want() -> None:
    candidates = [Candidate("a", None, {TOPIC: 2}), Candidate("b", None, {TOPIC: 2, OTHER: 1})]
    target = simple(candidates, {})
    assert {slot for slot in target["a"] if slot[0] == OTHER} == set()
    assert (OTHER, 0) in target["b"]
    assert len(target["a"]) == 1


@pytest.mark.parametrize(
    ("reset", "ago_ms"),
    [("by_duration:PT1H", 3_600_000), ("by_duration:P1DT0.5S", 86_400_500), ("earliest", None), ("latest", None)],
)
def test_where_records_begin(reset: str, ago_ms: int | None) -> None:
    now_ms = 10**12
    assert reset_time_ms(reset, now_ms) == (None if ago_ms is None else now_ms - ago_ms)


def fetch_request(topic_id: UUID, member: str, epoch: int = 0, max_wait_ms: int = 100) -> sf.ShareFetchRequest:
    wanted = sf.FetchTopic(topic_id=topic_id, partitions=[sf.FetchPartition(partition_index=0)])
    return sf.ShareFetchRequest(
        group_id="g",
        member_id=member,
        share_session_epoch=epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_records=10,
        batch_size=10,
        topics=[wanted],
    )


async def join(client: RawClient, member: str, topic: str) -> sh.ShareGroupHeartbeatResponse:
    return await client.call(
        sh.ShareGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=0, subscribed_topic_names=[topic])
    )


@pytest.mark.anyio
async def test_a_broker_has_only_so_many_sessions() -> None:
    async with EmbeddedCluster(brokers=1, groups=GroupOptions(share_max_sessions=1)) as cluster:
        cluster.create_topic("t")
        async with connected(cluster.address(1)) as one, connected(cluster.address(1)) as two:
            await join(one, "m1", "t")
            topic_id = cluster.topic_id("t")
            assert (await one.call(fetch_request(topic_id, "m1"))).error_code == 0
            refused = await two.call(fetch_request(topic_id, "m2"))
            assert refused.error_code == errors.ShareSessionLimitReachedError.code
            assert (await one.call(fetch_request(topic_id, "m1", epoch=-1))).error_code == 0
            assert (await two.call(fetch_request(topic_id, "m2"))).error_code == 0


@pytest.mark.anyio
async def test_a_request_that_is_overtaken_gets_nothing() -> None:
    async with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("t")
        async with connected(cluster.address(1)) as one, connected(cluster.address(1)) as two:
            await join(one, "m1", "t")
            topic_id = cluster.topic_id("t")
            await one.call(fetch_request(topic_id, "m1"))
            sent = await one.send(fetch_request(topic_id, "m1", epoch=1, max_wait_ms=200))
            await cluster.wait_for_requests("ShareFetch", count=2)
            assert (await two.call(fetch_request(topic_id, "m1", epoch=2))).error_code == 0
            received, answer = await one.receive(sf.ShareFetchResponse, 2)
            assert (received, answer.error_code) == (sent, errors.InvalidShareSessionEpochError.code)


@pytest.mark.anyio
async def test_what_a_lost_connection_gives_back_is_not_for_the_fetch_that_waits_on_it() -> None:
    async with EmbeddedCluster(brokers=1) as cluster:
        cluster.create_topic("t")
        cluster.shares.configure("g", {"share.auto.offset.reset": "earliest"})
        async with connected(cluster.address(1)) as two:
            async with connected(cluster.address(1)) as one:
                await join(one, "m1", "t")
                await join(one, "m2", "t")
                topic_id = cluster.topic_id("t")
                async with Producer(cluster.bootstrap_servers) as producer:
                    await (await producer.send_many("t", [b"a", b"b"]))
                await one.call(fetch_request(topic_id, "m1"))
                await one.send(fetch_request(topic_id, "m1", epoch=1, max_wait_ms=60_000))
                await cluster.wait_for_requests("ShareFetch", count=2)
            answer = await two.call(fetch_request(topic_id, "m2", max_wait_ms=60_000))
            ((acquired,),) = [
                partition.acquired_records for topic in answer.responses for partition in topic.partitions
            ]
            assert (acquired.first_offset, acquired.last_offset, acquired.delivery_count) == (0, 1, 2)


@pytest.mark.anyio
async def test_a_cluster_without_share_groups() -> None:
    async with EmbeddedCluster(brokers=1, features={"share.version": 0}) as cluster:
        cluster.create_topic("t")
        async with connected(cluster.address(1)) as client:
            assert (await join(client, "m1", "t")).error_code == errors.UnsupportedVersionError.code
            described = await client.call(ShareGroupDescribeRequest(group_ids=["g"]))
            assert described.groups[0].error_code == errors.UnsupportedVersionError.code
            refused = await client.call(fetch_request(cluster.topic_id("t"), "m1"))
            assert refused.error_code == errors.UnsupportedVersionError.code


@pytest.mark.anyio
async def test_what_a_test_can_do_to_a_group() -> None:
    async with EmbeddedCluster(brokers=3) as cluster:
        cluster.create_topic("t")
        cluster.shares.configure("g", {"share.auto.offset.reset": "earliest"})
        with pytest.raises(errors.InvalidConfigError):
            cluster.shares.configure("g", {"share.isolation.level": "snapshot"})
        leader = cluster.address(cluster.leader("t"))
        async with connected(leader) as one, connected(cluster.address(cluster.coordinator("g"))) as coordinator:
            await join(coordinator, "m1", "t")
            async with Producer(cluster.bootstrap_servers) as producer:
                await (await producer.send_many("t", [b"a", b"b"]))
            await one.call(fetch_request(cluster.topic_id("t"), "m1"))
            assert cluster.shares.deliveries("g", "t") == [(0, "acquired", 1, "m1"), (1, "acquired", 1, "m1")]
            cluster.shares.expire_locks("g")
            assert cluster.shares.deliveries("g", "t") == [(0, "available", 1, ""), (1, "available", 1, "")]
            assert cluster.shares.deliveries("g", "t", 1) == []
            cluster.move_leader("t")
            assert cluster.shares.deliveries("g", "t") == []

"""Groups of the new protocol (KIP-848) follow its rules; the tests on Apache Kafka compare them with Kafka's groups."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from aiokafka_lead import errors
from aiokafka_lead._wire import encode
from aiokafka_lead._wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from aiokafka_lead.testing._state.cluster import BrokerNode, ClusterState
from aiokafka_lead.testing._state.consumer_group import ConsumerGroup
from aiokafka_lead.testing._state.consumer_members import Beat, Slot
from aiokafka_lead.testing._state.group_coordinator import GroupCoordinator
from aiokafka_lead.testing._state.members import GroupOptions, JoinRequest, JoinResult, SyncResult

from .clock import FakeClock

SESSION_S = 45
REBALANCE_MS = 60_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cluster() -> ClusterState:
    node = BrokerNode(1, "127.0.0.1", None, 1000)
    node.registered = True
    cluster = ClusterState([node], None, {})
    cluster.create_topic("t", 4, 1, {})
    return cluster


@pytest.fixture
def groups(clock: FakeClock, cluster: ClusterState) -> GroupCoordinator:
    return GroupCoordinator(clock, GroupOptions(), cluster)


class Member:
    """A member that obeys the coordinator: it revokes partitions at once, and reports that in its next heartbeat."""

    def __init__(self, groups: GroupCoordinator, name: str, *topics: str, instance_id: str | None = None) -> None:
        self._groups = groups
        self.name = name
        self.topics = topics or ("t",)
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: frozenset[Slot] = frozenset()

    @property
    def group(self) -> ConsumerGroup:
        return self._groups.of_consumer("g", joining=self.epoch == 0)

    def beat(
        self, *, epoch: int | None = None, silent: bool = False, pattern: str | None = None, assignor: str | None = None
    ) -> frozenset[Slot] | None:
        """Send one heartbeat; a ``silent`` heartbeat only keeps the member alive."""
        epoch = self.epoch if epoch is None else epoch
        result = self.group.heartbeat(
            Beat(
                member_id=self.name,
                epoch=epoch,
                instance_id=self.instance_id,
                rack=None,
                rebalance_timeout_ms=None if silent else REBALANCE_MS,
                topics=None if silent else frozenset(self.topics),
                pattern=pattern,
                assignor=assignor,
                owned=None if silent else frozenset() if epoch == 0 else self.owned,
                client_id="client",
                client_host="/127.0.0.1",
            )
        )
        self.epoch = result.epoch
        if result.assignment is not None:
            self.owned = result.assignment
        return result.assignment


def settle(*members: Member) -> None:
    """Send heartbeats in turn until the group is stable; no partition may have two owners meanwhile."""
    for _ in range(10):
        before = [(member.epoch, member.owned) for member in members]
        for member in members:
            member.beat()
            owned = [slot for each in members for slot in each.owned]
            assert len(owned) == len(set(owned))
        if before == [(member.epoch, member.owned) for member in members]:
            assert members[0].group.state_name == "Stable"
            return
    raise AssertionError("it does not settle")


def sizes(members: Collection[Member]) -> list[int]:
    return sorted(len(member.owned) for member in members)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_come_and_go(groups: GroupCoordinator, cluster: ClusterState, assignor: str) -> None:
    cluster.create_topic("u", 6, 1, {})
    members = [Member(groups, f"m{number}", "t", "u") for number in range(3)]
    for count in range(1, 4):
        members[count - 1].beat(assignor=assignor)
        settle(*members[:count])
        assert sum(sizes(members)) == 10
    assert sizes(members) == [3, 3, 4]
    members[0].beat(epoch=-1)
    settle(*members[1:])
    assert sizes(members[1:]) == [5, 5]


def test_a_new_member_takes_only_what_it_needs(groups: GroupCoordinator) -> None:
    first, second = Member(groups, "m1"), Member(groups, "m2")
    settle(first)
    had = first.owned
    settle(first, second)
    assert first.owned < had
    assert second.owned == had - first.owned


def test_partitions_and_topics_are_added(groups: GroupCoordinator, cluster: ClusterState) -> None:
    member, matching = Member(groups, "m1"), Member(groups, "m2", "none")
    settle(member)
    matching.beat(pattern="[tu].*")
    settle(member, matching)
    cluster.create_topic("u", 2, 1, {})
    settle(member, matching)
    assert sizes([member, matching]) == [3, 3]
    cluster.delete_topic(cluster.topics["u"])
    settle(member, matching)
    assert sizes([member, matching]) == [2, 2]


def test_a_silent_member_is_out(groups: GroupCoordinator, clock: FakeClock) -> None:
    first, second = Member(groups, "m1"), Member(groups, "m2")
    settle(first, second)
    clock.advance(SESSION_S - 1)
    second.beat()
    clock.advance(2)
    settle(second)
    assert len(second.owned) == 4
    with pytest.raises(errors.UnknownMemberIdError):
        first.beat()


def test_a_member_that_does_not_give_up_is_out(groups: GroupCoordinator, clock: FakeClock) -> None:
    first, second = Member(groups, "m1"), Member(groups, "m2")
    settle(first)
    second.beat()
    first.beat(silent=True)
    for _ in range(REBALANCE_MS // 30_000):
        clock.advance(29)
        for member in (first, second):
            member.beat(silent=True)
    clock.advance(3)
    with pytest.raises(errors.UnknownMemberIdError):
        first.beat(silent=True)
    settle(second)
    assert len(second.owned) == 4


def test_a_lost_answer_does_no_harm(groups: GroupCoordinator) -> None:
    first, second = Member(groups, "m1"), Member(groups, "m2")
    settle(first)
    second.beat()
    first.beat()
    before = first.epoch
    first.beat()
    assert first.epoch > before
    # It missed the new epoch, and repeats its former report.
    first.beat(epoch=before)
    with pytest.raises(errors.FencedMemberEpochError):
        first.beat(epoch=before, silent=True)
    with pytest.raises(errors.FencedMemberEpochError):
        first.beat(epoch=before + 2)
    first.beat(epoch=0)
    settle(first, second)


def test_static_members(groups: GroupCoordinator, clock: FakeClock) -> None:
    first, other = Member(groups, "m1", instance_id="i1"), Member(groups, "m2")
    settle(first, other)
    had, epoch = first.owned, other.epoch
    back = Member(groups, "m3", instance_id="i1")
    with pytest.raises(errors.UnreleasedInstanceIdError):
        back.beat()
    first.beat(epoch=-2)
    back.beat()
    settle(back, other)
    assert (back.owned, other.epoch) == (had, epoch)
    with pytest.raises(errors.FencedInstanceIdError):
        first.beat(epoch=epoch)
    # It does not come back this time.
    back.beat(epoch=-2)
    for _ in range(2):
        clock.advance(SESSION_S / 2 + 1)
        other.beat()
    settle(other)
    assert len(other.owned) == 4


def test_commits(groups: GroupCoordinator) -> None:
    first, second = Member(groups, "m1"), Member(groups, "m2")
    settle(first)
    joined = first.epoch
    settle(first, second)
    kept, given = (min(member.owned)[1] for member in (first, second))

    def commit(member: str, epoch: int, partition: int, version: int = 9) -> None:
        check = groups.check_commit("g", member, None, epoch, version=version)
        if check is not None:
            check(("t", partition))

    commit("m1", first.epoch, kept)
    commit("m1", joined, kept)
    commit("m2", second.epoch, given)
    for epoch, partition in ((joined, given), (joined - 1, kept), (first.epoch + 1, kept)):
        with pytest.raises(errors.StaleMemberEpochError):
            commit("m1", epoch, partition)
    with pytest.raises(errors.UnknownMemberIdError):
        commit("", -1, kept)
    with pytest.raises(errors.UnsupportedVersionError):
        commit("m1", first.epoch, kept, version=8)
    groups.check_fetch("g", None, -1)
    groups.check_fetch("g", "m1", first.epoch)
    with pytest.raises(errors.StaleMemberEpochError):
        groups.check_fetch("g", "m1", joined)
    with pytest.raises(errors.NonEmptyGroupError):
        groups.delete("g")
    for member in (first, second):
        member.beat(epoch=-1)
    commit("", -1, kept)
    groups.delete("g")


class ClassicMember:
    """A member of the classic protocol, which rejoins whenever its heartbeat requires it."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups
        self.joined = JoinResult("")
        self.synced = SyncResult()

    def join(self) -> None:
        subscription = encode(ConsumerProtocolSubscription(topics=["t"]), 1)
        request = JoinRequest(
            member_id=self.joined.member_id,
            instance_id=None,
            client_id="classic",
            client_host="/127.0.0.1",
            session_timeout_ms=SESSION_S * 1000,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=(("range", b"\0\1" + subscription),),
            known_id_required=False,
            may_skip=False,
        )
        self._groups.to_join("g", request).join(request, self._take_join)

    def _take_join(self, result: JoinResult) -> None:
        self.joined = result
        if result.error is None:
            group, generation = self._groups.of_member("g"), result.generation
            group.sync(result.member_id, None, generation, "consumer", "range", {}, self._take_sync)

    def _take_sync(self, result: SyncResult) -> None:
        self.synced = result

    def beat(self) -> bool:
        """Return True if the heartbeat succeeds; otherwise rejoin."""
        try:
            self._groups.of_member("g").heartbeat(self.joined.member_id, None, self.joined.generation)
        except errors.RebalanceInProgressError:
            self.join()
            return False
        return True


def test_a_group_moves_to_the_new_protocol_and_back(groups: GroupCoordinator, clock: FakeClock) -> None:
    classic, new = ClassicMember(groups), Member(groups, "m1")
    classic.join()
    new.beat()
    assert "g" not in groups.groups
    for _ in range(5):
        classic.beat()
        new.beat()
    assert classic.beat()
    with pytest.raises(errors.IllegalGenerationError):
        groups.of_member("g").heartbeat(classic.joined.member_id, None, classic.joined.generation - 1)
    assert len(new.owned) == 2
    assert groups.consumers["g"].state_name == "Stable"
    new.beat(epoch=-1)
    assert "g" not in groups.consumers
    assert not classic.beat()
    assert classic.beat()
    classic.beat()
    # The classic member does not come back: only the new member is in the group.
    again = Member(groups, "m2")
    again.beat()
    for _ in range(2):
        clock.advance(SESSION_S / 2 + 1)
        again.beat()
    settle(again)
    assert len(again.owned) == 4


def test_a_classic_member_that_does_not_join_again_is_out(groups: GroupCoordinator, clock: FakeClock) -> None:
    classic, new = ClassicMember(groups), Member(groups, "m1")
    classic.join()
    new.beat()
    waiting = groups.of_member("g")
    for _ in range(REBALANCE_MS // 30_000):
        with pytest.raises(errors.RebalanceInProgressError):
            waiting.heartbeat(classic.joined.member_id, None, classic.joined.generation)
        clock.advance(29)
        new.beat()
    clock.advance(3)
    settle(new)
    assert len(new.owned) == 4


def test_a_group_that_is_not_of_consumers_stays(groups: GroupCoordinator) -> None:
    classic = ClassicMember(groups)
    classic.join()
    groups.groups["g"].protocol_type = "connect"
    with pytest.raises(errors.GroupIdNotFoundError):
        Member(groups, "m1").beat()
    assert classic.beat()

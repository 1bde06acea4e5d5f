"""The classic group's state machine, on a test clock."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead import errors
from aiokafka_lead.testing._state.cluster import ClusterState
from aiokafka_lead.testing._state.group import Group
from aiokafka_lead.testing._state.group_coordinator import GroupCoordinator
from aiokafka_lead.testing._state.members import GroupOptions, GroupState, JoinRequest, JoinResult, SyncResult

from .clock import FakeClock


class Member:
    """A member as played by a client: its requests and their answers."""

    def __init__(self, group: Group, name: str, **request: Any) -> None:
        self.group = group
        self.member_id = ""
        self.request = JoinRequest(
            **{
                "member_id": "",
                "instance_id": None,
                "client_id": name,
                "client_host": "/127.0.0.1",
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 30_000,
                "protocol_type": "consumer",
                "protocols": (("range", b"meta-" + name.encode()),),
                "known_id_required": True,
                "may_skip": True,
                **request,
            }
        )
        self._joins: list[JoinResult] = []
        self._syncs: list[SyncResult] = []

    @property
    def joined(self) -> JoinResult | None:
        """Answer to the last join; None until it arrives."""
        return self._joins[-1] if self._joins else None

    @property
    def waits(self) -> bool:
        """Return True if its join has not been answered yet."""
        return not self._joins

    @property
    def synced(self) -> SyncResult | None:
        return self._syncs[-1] if self._syncs else None

    @property
    def generation(self) -> int:
        assert self.joined is not None
        return self.joined.generation

    @property
    def instance_id(self) -> str | None:
        return self.request.instance_id

    def join(self, **changes: Any) -> Member:
        self._joins.clear()
        self.request = self.request._replace(member_id=self.member_id, **changes)
        self.group.join(self.request, self._on_joined)
        if self.joined is not None and isinstance(self.joined.error, errors.MemberIdRequiredError):
            self.join()
        return self

    def _on_joined(self, result: JoinResult) -> None:
        self._joins.append(result)
        self.member_id = result.member_id

    def sync(self, **assignments: bytes) -> Member:
        self._syncs.clear()
        self.group.sync(
            self.member_id, self.instance_id, self.generation, "consumer", "range", assignments, self._on_synced
        )
        return self

    def _on_synced(self, result: SyncResult) -> None:
        self._syncs.append(result)

    def heartbeat(self) -> None:
        self.group.heartbeat(self.member_id, self.instance_id, self.generation)


def state(group: Group) -> GroupState:
    return group.state


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def group(clock: FakeClock) -> Group:
    return Group("g", clock, GroupOptions())


def stable(group: Group, *names: str, **request: Any) -> list[Member]:
    """Return members of a stable group; the first leads."""
    members = [Member(group, name, **request) for name in names]
    for member in members:
        member.join()
    for member in members:
        if state(group) is GroupState.PREPARING and group.members[member.member_id].reply_join is None:
            member.join()
    settle(members)
    return members


def settle(members: list[Member]) -> None:
    for member in members:
        assert member.joined is not None
        assert member.joined.error is None
    for member in reversed(members):
        member.sync(**{other.member_id: other.request.client_id.encode() for other in members})
    for member in members:
        assert member.synced == SyncResult(None, "consumer", "range", member.request.client_id.encode())


def test_members_share_a_generation(group: Group) -> None:
    first, second = stable(group, "one", "two")
    assert state(group) is GroupState.STABLE
    assert first.joined is not None
    assert second.joined is not None
    assert first.generation == second.generation == 2
    assert {member.member_id for member in first.joined.members} == {first.member_id, second.member_id}
    assert second.joined.members == ()
    assert second.joined.leader == first.member_id
    assert first.joined.protocol == "range"


def test_a_first_join_is_given_an_id_and_comes_back(group: Group, clock: FakeClock) -> None:
    """KIP-394: a member that never returns delays the group no longer than its session."""
    answers: list[JoinResult] = []
    group.join(Member(group, "lost").request, answers.append)
    assert isinstance(answers[0].error, errors.MemberIdRequiredError)
    waiting = Member(group, "one").join()
    assert waiting.waits
    clock.advance(11)
    assert waiting.joined is not None
    assert waiting.joined.error is None


def test_a_silent_member_is_out_after_its_session(group: Group, clock: FakeClock) -> None:
    first, second = stable(group, "one", "two")
    for _ in range(2):
        clock.advance(4)
        first.heartbeat()
    clock.advance(4)
    assert list(group.members) == [first.member_id]
    with pytest.raises(errors.UnknownMemberIdError):
        second.heartbeat()
    # The first learns of it with its next heartbeat.
    assert state(group) is GroupState.PREPARING
    with pytest.raises(errors.RebalanceInProgressError):
        first.heartbeat()
    first.join()
    settle([first])


def test_who_does_not_join_again_in_time_is_out(group: Group, clock: FakeClock) -> None:
    first, second = stable(group, "one", "two", session_timeout_ms=60_000)
    third = Member(group, "three").join()
    second.join()
    assert third.waits
    clock.advance(31)
    assert first.member_id not in group.members
    settle([second, third])
    with pytest.raises(errors.UnknownMemberIdError):
        first.join()


def test_who_does_not_synchronise_in_time_is_out(group: Group, clock: FakeClock) -> None:
    leader = Member(group, "one", session_timeout_ms=60_000).join()
    leader.sync()
    follower = Member(group, "two", session_timeout_ms=60_000).join()
    leader.join()
    follower.sync()
    assert state(group) is GroupState.COMPLETING
    clock.advance(31)
    # The leader did not bring an assignment: it is removed, and the follower has to rejoin.
    assert leader.member_id not in group.members
    assert follower.synced is not None
    assert isinstance(follower.synced.error, errors.RebalanceInProgressError)
    follower.join()
    settle([follower])


def test_a_member_that_joins_while_others_wait_for_the_leader(group: Group) -> None:
    first, second = stable(group, "one", "two")
    first.join()
    second.join()
    second.sync()
    third = Member(group, "three").join()
    assert second.synced is not None
    assert isinstance(second.synced.error, errors.RebalanceInProgressError)
    with pytest.raises(errors.RebalanceInProgressError):
        first.sync()
    first.join()
    second.join()
    settle([first, second, third])


def test_a_lost_answer_is_given_again(group: Group) -> None:
    first, second = stable(group, "one", "two")
    generation = group.generation
    # A follower that rejoins unchanged has only missed something.
    second.join()
    assert second.generation == generation
    assert state(group) is GroupState.STABLE
    second.sync()
    assert second.synced is not None
    assert second.synced.assignment == b"two"
    # A leader's rejoin causes a rebalance, and so does a follower's with other metadata.
    first.join()
    assert state(group) is GroupState.PREPARING
    second.join()
    settle([first, second])
    second.join(protocols=(("range", b"changed"),))
    assert state(group) is GroupState.PREPARING


def test_old_generations_are_refused(group: Group) -> None:
    (member,) = stable(group, "one")
    for generation in (group.generation - 1, group.generation + 1):
        with pytest.raises(errors.IllegalGenerationError):
            group.heartbeat(member.member_id, None, generation)
        with pytest.raises(errors.IllegalGenerationError):
            group.check_commit(member.member_id, None, generation, transactional=False)
    with pytest.raises(errors.UnknownMemberIdError):
        group.heartbeat("somebody", None, group.generation)


def test_the_protocol_is_one_that_all_have_and_most_like(group: Group) -> None:
    both = (("sticky", b""), ("range", b""))
    members = [Member(group, "one", protocols=both), Member(group, "two", protocols=both[::-1])]
    members.append(Member(group, "three", protocols=both[::-1]))
    for member in members:
        member.join()
    for member in members[:2]:
        member.join()
    assert group.protocol == "range"
    with pytest.raises(errors.InconsistentGroupProtocolError):
        Member(group, "four", protocols=(("roundrobin", b""),)).join()
    with pytest.raises(errors.InconsistentGroupProtocolError):
        Member(group, "five", protocol_type="connect").join()
    with pytest.raises(errors.InconsistentGroupProtocolError):
        Member(group, "six", protocols=()).join()


def test_the_leader_leaves(group: Group) -> None:
    first, second = stable(group, "one", "two")
    assert group.leave(first.member_id, None) == first.member_id
    with pytest.raises(errors.RebalanceInProgressError):
        second.heartbeat()
    second.join()
    assert second.joined is not None
    assert second.joined.leader == second.member_id
    settle([second])
    group.leave(second.member_id, None)
    assert state(group) is GroupState.EMPTY
    assert group.generation == 4


def test_a_static_member_takes_its_place_again(group: Group) -> None:
    """KIP-345: without a rebalance if it is unchanged, and its predecessor is fenced."""
    leader, before = (
        Member(group, "one", instance_id="i1", known_id_required=False),
        Member(group, "two", instance_id="i2", known_id_required=False),
    )
    leader.join()
    before.join()
    leader.join()
    settle([leader, before])
    generation = group.generation
    after = Member(group, "two", instance_id="i2").join()
    assert state(group) is GroupState.STABLE
    assert after.generation == generation
    assert after.joined is not None
    assert after.joined.leader == leader.member_id
    after.sync()
    assert after.synced is not None
    assert after.synced.assignment == b"two"
    with pytest.raises(errors.FencedInstanceIdError):
        before.heartbeat()
    with pytest.raises(errors.FencedInstanceIdError):
        group.leave(before.member_id, "i2")
    # The leader came back: the answer says to skip the assignment (KIP-814), or, in older versions, has its former id.
    again = Member(group, "one", instance_id="i1").join()
    assert again.joined is not None
    assert again.joined.skip_assignment
    assert len(again.joined.members) == 2
    older = Member(group, "one", instance_id="i1", may_skip=False).join()
    assert older.joined is not None
    assert older.joined.leader == again.member_id
    assert not older.joined.members
    assert group.leave("", "i2") == after.member_id


def test_a_static_member_may_be_away_for_its_session(group: Group, clock: FakeClock) -> None:
    """It keeps its place through a rebalance that it misses, until its session ends."""
    first, away = Member(group, "one"), Member(group, "two", instance_id="i", session_timeout_ms=50_000)
    for member in (first, away):
        member.join()
    first.join()
    settle([first, away])
    third = Member(group, "three").join()
    first.join()
    assert third.waits
    clock.advance(31)
    settle([first, third])
    assert away.member_id in group.members
    for _ in range(9):
        clock.advance(5)
        first.heartbeat()
        third.heartbeat()
    clock.advance(6)
    assert away.member_id not in group.members
    assert state(group) is GroupState.PREPARING


def test_a_group_may_be_full(clock: FakeClock) -> None:
    group = Group("g", clock, GroupOptions(max_size=1))
    stable(group, "one")
    with pytest.raises(errors.GroupMaxSizeReachedError):
        Member(group, "two").join()


def test_a_new_group_may_wait_for_more_members(clock: FakeClock) -> None:
    group = Group("g", clock, GroupOptions(initial_rebalance_delay_ms=3000))
    first = Member(group, "one").join()
    clock.advance(2)
    second = Member(group, "two").join()
    assert first.waits
    clock.advance(2)
    assert group.generation == 1
    settle([first, second])


def test_commits_are_for_members(clock: FakeClock) -> None:
    groups = GroupCoordinator(clock, GroupOptions(), ClusterState([], None, {}))
    # The group is empty: any client may commit.
    groups.check_commit("g", "", None, -1)
    with pytest.raises(errors.GroupIdNotFoundError):
        groups.check_commit("g", "m", None, 1)
    groups.offsets.commit("g", {})
    group = groups.to_join("g", Member(Group("x", clock, GroupOptions()), "one").request)
    assert isinstance(group, Group)
    first, second = stable(group, "one", "two")
    groups.check_commit("g", first.member_id, None, first.generation)
    with pytest.raises(errors.UnknownMemberIdError):
        groups.check_commit("g", "", None, -1)
    first.join()
    # While members rejoin their commits still count; once a generation has begun they do not.
    groups.check_commit("g", second.member_id, None, second.generation)
    second.join()
    with pytest.raises(errors.RebalanceInProgressError):
        groups.check_commit("g", second.member_id, None, second.generation)
    with pytest.raises(errors.NonEmptyGroupError):
        groups.delete("g")
    group.leave(first.member_id, None)
    group.leave(second.member_id, None)
    groups.delete("g")
    with pytest.raises(errors.GroupIdNotFoundError):
        groups.delete("g")


def test_session_timeouts_have_limits(clock: FakeClock) -> None:
    groups = GroupCoordinator(clock, GroupOptions(min_session_timeout_ms=6000), ClusterState([], None, {}))
    request = Member(Group("x", clock, GroupOptions()), "one", session_timeout_ms=5000).request
    with pytest.raises(errors.InvalidSessionTimeoutError):
        groups.to_join("g", request)
    with pytest.raises(errors.UnknownMemberIdError):
        groups.to_join("g", request._replace(member_id="m", session_timeout_ms=6000))


def test_a_coordinator_that_moves_sends_everyone_away(group: Group) -> None:
    first, second = stable(group, "one", "two")
    first.join()
    group.coordinator_moved(errors.NotCoordinatorError())
    assert first.joined is not None
    assert isinstance(first.joined.error, errors.NotCoordinatorError)
    # At the new coordinator they continue in the same state.
    first.join()
    second.join()
    settle([first, second])

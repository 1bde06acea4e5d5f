"""The member's decisions, one answer at a time, including mistakes of earlier clients."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead._core.group.assignors import (
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from aiokafka_lead._core.group.assignors.sticky import CooperativeStickyAssignor
from aiokafka_lead._core.group.classic import ClassicMember
from aiokafka_lead._core.group.leader import Leader
from aiokafka_lead._core.group.member import Assign, Lose, Revoke, Wait, Wanted
from aiokafka_lead._core.group.offsets import GroupIdentity
from aiokafka_lead._core.inquiry import UNEXPLAINED_TRIES
from aiokafka_lead._core.metadata.types import ClusterSnapshot, TopicMetadata
from aiokafka_lead._options.logs import client_log
from aiokafka_lead._wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from aiokafka_lead._wire.messages.heartbeat import HeartbeatResponse
from aiokafka_lead._wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from aiokafka_lead._wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from aiokafka_lead._wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokafka_lead.config import ConsumerConfig
from aiokafka_lead.errors import (
    AssignorError,
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    IllegalGenerationError,
    MalformedMessageError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    RequestTimedOutError,
    UnknownMemberIdError,
    UnknownServerError,
)
from aiokafka_lead.types import TopicPartition

from ..core.classic_world import COOPERATIVE, EAGER, T, World, snapshot

U = TopicPartition("u", 0)


def subscription_of(request: JoinGroupRequest, protocol: str = COOPERATIVE) -> MemberSubscription:
    return decode_subscription(next(found.metadata for found in request.protocols if found.name == protocol))


def test_the_first_join() -> None:
    """KIP-394: the first answer gives the id, the second the generation."""
    world = World()
    request = world.ask(JoinGroupRequest)
    assert [protocol.name for protocol in request.protocols] == [COOPERATIVE, EAGER]
    assert world.identity() is None
    assert world.member.heartbeat_at() is None
    world.answer(request, JoinGroupResponse(error_code=MemberIdRequiredError.code, member_id="me"))
    again = world.ask(JoinGroupRequest)
    assert again.member_id == "me"
    world.stable(T[0], T[1])
    assert world.member.owned == {T[0], T[1]}
    assert world.identity() == GroupIdentity(1, "me", None)
    assert world.member.heartbeat_at() == pytest.approx(world.now + 3)
    assert world.member.step(world.now) == Wait(None)


@pytest.mark.parametrize("names", [("me", "me again"), ("",)])
def test_a_coordinator_that_forgets_the_ids_that_it_assigns_is_not_asked_without_end(names: tuple[str, ...]) -> None:
    world = World()
    for name in names:
        request = world.ask(JoinGroupRequest)
        world.answer(request, JoinGroupResponse(error_code=MemberIdRequiredError.code, member_id=name))
    wait = world.member.step(world.now)
    assert isinstance(wait, Wait)
    assert wait.until is not None
    world.now = wait.until
    assert world.ask(JoinGroupRequest).member_id == names[-1]


@pytest.mark.parametrize("field", [{"generation_id": -1}, {"member_id": ""}])
def test_an_answer_without_a_generation_or_an_id_is_an_error(field: dict[str, Any]) -> None:
    world = World()
    fields = {"generation_id": 1, "protocol_name": COOPERATIVE, "leader": "other", "member_id": "me", **field}
    world.answer(world.ask(JoinGroupRequest), JoinGroupResponse(**fields))
    assert isinstance(world.error(), MalformedMessageError)
    assert world.identity() is None
    world.member.join(world.now)
    world.now += 1
    world.stable(T[0])


def test_rebalances_that_interrupt_each_other_without_end_are_waited_out() -> None:
    world = World()
    joins = 0
    while not isinstance(wait := world.member.step(world.now), Wait):
        world.join(generation=joins + 1)
        world.answer(world.ask(SyncGroupRequest), SyncGroupResponse(error_code=RebalanceInProgressError.code))
        joins += 1
        assert joins < 100
    assert joins > 3, "some are normal while many members join"
    assert wait.until is not None
    world.now = wait.until
    world.stable(T[0], generation=joins + 1)


def test_a_member_without_partitions_learns_early_of_those_that_others_give_up() -> None:
    """In a cooperative group, other members give them up first, and join again. Java waits for its next heartbeat."""
    world = World(retry_backoff_ms=100)
    world.stable()
    began, beats = world.now, []
    for _ in range(6):
        at = world.member.heartbeat_at()
        assert at is not None
        world.now = at
        beats.append(round(at - began, 1))
        world.beat(0)
    assert beats == [0.1, 0.3, 0.7, 1.5, 4.5, 7.5]
    eager = World()
    eager.stable(protocol=EAGER)
    assert eager.member.heartbeat_at() == pytest.approx(eager.now + 3)


def test_a_cooperative_member_keeps_what_it_has_and_rejoins_for_what_it_gave_up() -> None:
    world = World()
    world.stable(T[0], T[1])
    world.beat(27)
    request = world.join(generation=2)
    assert set(subscription_of(request).owned) == {T[0], T[1]}
    assert subscription_of(request).generation == 1
    world.sync(T[1], T[2])
    steps = world.settle()
    assert isinstance(steps[0], Revoke)
    assert steps[0].partitions == {T[0]}
    assert steps[1] == Assign(frozenset({T[1], T[2]}), frozenset({T[2]}))
    assert subscription_of(world.ask(JoinGroupRequest)).generation == 2


def test_an_eager_member_gives_up_everything_first() -> None:
    world = World()
    world.stable(T[0], T[1], protocol=EAGER)
    world.beat(27)
    step = world.member.step(world.now)
    assert isinstance(step, Revoke)
    assert step.partitions == {T[0], T[1]}
    world.settle()
    assert not subscription_of(world.ask(JoinGroupRequest), EAGER).owned


def test_who_came_from_a_cooperative_generation_gives_up_before_others_get() -> None:
    """The leader withholds partitions with an owner, and the owner rejoins after giving them up."""
    world = World()
    world.stable(T[0], T[1], T[2], T[3])
    world.beat(27)
    mine = encode_subscription(MemberSubscription("me", ("t",), tuple(T), 1))
    new = encode_subscription(MemberSubscription("new", ("t",)))
    world.join(generation=2, protocol=EAGER, leads={"me": mine, "new": new})
    request = world.ask(SyncGroupRequest)
    given = {found.member_id: decode_assignment(found.assignment) for found in request.assignments}
    assert given == {"me": [T[0], T[1]], "new": []}
    world.answer(request, SyncGroupResponse(assignment=encode_assignment(given["me"])))
    assert [type(step) for step in world.settle()[:2]] == [Revoke, Assign]
    world.settle()
    world.ask(JoinGroupRequest)


@pytest.mark.parametrize("code", [22, 25])
def test_what_is_about_an_earlier_generation_means_nothing(code: int) -> None:
    """A heartbeat in flight while the member rejoined must not cost it its partitions."""
    world = World()
    world.stable(T[0])
    late = world.member.heartbeat(world.now)
    assert late is not None
    world.member.commit_refused(GroupIdentity(1, "me"), RebalanceInProgressError(), world.now)
    world.stable(T[0], generation=2)
    world.member.heartbeat_answered(late, HeartbeatResponse(error_code=code), None, world.now)
    world.member.commit_refused(GroupIdentity(1, "me"), IllegalGenerationError(), world.now)
    assert world.member.stable
    assert world.member.owned == {T[0]}


def test_a_commit_that_is_refused_while_it_joins_loses_nothing() -> None:
    """The generation may have advanced by that very JoinGroup, whose answer is in flight."""
    world = World()
    world.stable(T[0])
    world.beat(27)
    request = world.ask(JoinGroupRequest)
    world.member.commit_refused(GroupIdentity(1, "me"), IllegalGenerationError(), world.now)
    world.beat(22)
    assert world.ask(JoinGroupRequest) is request


def test_a_generation_that_is_over_keeps_the_member_id() -> None:
    """KAFKA-13419: without its id the group would wait until the old member's session expires."""
    world = World()
    world.stable(T[0])
    world.beat(22)
    (step,) = world.settle()
    assert isinstance(step, Lose)
    assert step.partitions == {T[0]}
    assert world.ask(JoinGroupRequest).member_id == "me"


def test_an_unknown_member_begins_anew() -> None:
    world = World()
    world.stable(T[0])
    world.member.commit_refused(GroupIdentity(1, "me"), UnknownMemberIdError(), world.now)
    assert world.member.identity is None
    assert isinstance(world.settle()[0], Lose)
    assert world.ask(JoinGroupRequest).member_id == ""


def test_a_sync_that_came_too_late_keeps_the_partitions_and_tells_since_when_they_are_owned() -> None:
    """KAFKA-14639: the next leader can distinguish an old claim from a new claim."""
    world = World()
    world.stable(T[0])
    world.beat(27)
    world.join(generation=2)
    world.answer(world.ask(SyncGroupRequest), SyncGroupResponse(error_code=RebalanceInProgressError.code))
    request = world.ask(JoinGroupRequest)
    assert subscription_of(request).owned == (T[0],)
    assert subscription_of(request).generation == 1
    assert request.member_id == "me"


def test_failures_are_waited_out_and_longer_each_time() -> None:
    world = World()
    waits = []
    for _ in range(3):
        world.answer(world.ask(JoinGroupRequest), None, RequestTimedOutError("no answer"))
        step = world.member.step(world.now)
        assert isinstance(step, Wait)
        assert step.until is not None
        waits.append(step.until - world.now)
        world.now = step.until
    assert waits == pytest.approx([0.1, 0.2, 0.4])


def test_an_error_without_a_reason_is_borne_for_a_while() -> None:
    world = World()
    for _ in range(UNEXPLAINED_TRIES - 1):
        world.answer(world.ask(JoinGroupRequest), JoinGroupResponse(error_code=-1))
        step = world.member.step(world.now)
        assert isinstance(step, Wait)
        assert step.until is not None
        world.now = step.until
    world.stable(T[0])
    for _ in range(UNEXPLAINED_TRIES - 1):
        world.beat(-1)
    world.beat(0)
    for _ in range(UNEXPLAINED_TRIES - 1):
        world.beat(-1)
    assert world.member.stable
    assert world.error() is None
    world.beat(-1)
    assert isinstance(world.error(), UnknownServerError)
    assert isinstance(world.settle()[0], Lose)


def test_a_silent_coordinator_ends_the_wait_for_the_join() -> None:
    world = World()
    world.stable(T[0])
    world.beat(27)
    world.ask(JoinGroupRequest)
    request = world.member.heartbeat(world.now)
    assert request is not None
    world.member.heartbeat_answered(request, None, RequestTimedOutError("no answer"), world.now)
    assert isinstance(world.member.step(world.now), Wait)
    assert world.member.owned == {T[0]}


def test_a_fenced_member_stays_out() -> None:
    world = World(group_instance_id="i")
    world.stable(T[0])
    world.beat(82)
    assert isinstance(world.settle()[0], Lose)
    assert isinstance(world.member.error, FencedInstanceIdError)
    world.member.join(world.now)
    world.member.subscribe(Wanted(frozenset({"t"})), world.now)
    assert world.member.step(world.now) == Wait(None)
    assert world.member.out


def test_other_errors_end_the_membership_until_the_application_tries_again() -> None:
    world = World()
    world.answer(world.ask(JoinGroupRequest), JoinGroupResponse(error_code=GroupMaxSizeReachedError.code))
    assert isinstance(world.error(), GroupMaxSizeReachedError)
    assert world.member.out
    world.member.join(world.now)
    assert world.error() is None
    assert world.member.step(world.now) == Wait(world.now + 0.1), "an application may read again at once, and always"
    world.now += 0.1
    world.ask(JoinGroupRequest)


def test_partitions_being_given_up_are_given_up_even_if_the_subscription_changes_back() -> None:
    """No more of their records are handed out: if the step ended early, that would never change."""
    world = World()
    world.member.topics_changed(snapshot(2, t=4, u=1), world.now)
    world.member.subscribe(Wanted(frozenset({"t", "u"})), world.now)
    world.stable(T[0], U)
    world.member.subscribe(Wanted(frozenset({"t"})), world.now)
    step = world.member.step(world.now)
    assert isinstance(step, Revoke)
    assert step.partitions == {U}
    world.member.subscribe(Wanted(frozenset({"t", "u"})), world.now)
    assert world.member.step(world.now) == step
    world.member.done(step, world.now)
    request = world.ask(JoinGroupRequest)
    assert subscription_of(request).owned == (T[0],)


@pytest.mark.parametrize(
    ("result", "text"),
    [(ValueError("why"), r"ValueError\('why'\)"), ("text", "must return bytes or None, not 'text'")],
)
def test_an_assignor_whose_user_data_fails_is_an_error(result: Any, text: str) -> None:
    class Broken(CooperativeStickyAssignor):
        def user_data(self, topics: object, owned: object, generation: object) -> Any:
            if isinstance(result, Exception):
                raise result
            return result

    member = ClassicMember(ConsumerConfig.from_options("localhost:9", {"group_id": "g"}), [Broken()], lambda: 0.5)
    member.subscribe(Wanted(frozenset({"t"})), 0.0)
    assert member.step(0.0) == Wait(None)
    assert member.out
    with pytest.raises(AssignorError, match=text):
        raise member.error or AssertionError


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, "dict of member ids to partitions, not NoneType"),
        ({"me": ["t-0"]}, "not 't-0'"),
        ({"me": [TopicPartition("t", "0")]}, "partition='0'"),  # type: ignore[arg-type]
        ({"me": [TopicPartition("t", -1)]}, "partition=-1"),
        ({"me": 5}, "not iterable"),
    ],
)
def test_an_assignor_whose_result_cannot_be_sent_is_an_error(result: Any, text: str) -> None:
    class Broken(CooperativeStickyAssignor):
        def assign(self, members: object, topics: object) -> Any:
            return result

    leader = Leader(client_log("consumer", "c"))
    data = encode_subscription(MemberSubscription("me", ("t",)))
    joined = JoinGroupResponse(
        leader="me", member_id="me", members=[JoinGroupResponseMember(member_id="me", metadata=data)]
    )
    assert leader.joined(joined, snapshot(t=1), 0.0)
    with pytest.raises(AssignorError, match=text):
        leader.assign(Broken(), snapshot(t=1))


def test_a_leader_waits_for_topics_that_it_has_not_heard_of() -> None:
    world = World()
    other = encode_subscription(MemberSubscription("other", ("u",)))
    mine = encode_subscription(MemberSubscription("me", ("t",)))
    world.join(leads={"me": mine, "other": other})
    assert world.member.interest == {"t", "u"}
    assert isinstance(world.member.step(world.now), Wait)
    world.member.topics_changed(snapshot(t=4, u=1), world.now)
    request = world.ask(SyncGroupRequest)
    given = {found.member_id: decode_assignment(found.assignment) for found in request.assignments}
    assert given["other"] == [TopicPartition("u", 0)]


def test_a_leader_does_not_wait_for_a_deleted_topic_that_it_assigned_before() -> None:
    world = World()
    leads = {"me": encode_subscription(MemberSubscription("me", ("t", "u")))}
    world.member.topics_changed(snapshot(t=4, u=1), world.now)
    world.join(leads=leads)
    world.sync(*T, U)
    world.settle()
    world.member.topics_changed(snapshot(t=4), world.now)
    world.beat(RebalanceInProgressError.code)
    world.join(generation=2, leads=leads)
    request = world.ask(SyncGroupRequest)
    assert decode_assignment(request.assignments[0].assignment) == T


def test_a_leader_that_subscribes_again_waits_for_metadata_that_it_forgot() -> None:
    world = World()
    leads = {"me": encode_subscription(MemberSubscription("me", ("t",)))}
    world.join(leads=leads)
    world.sync(*T)
    world.settle()
    world.member.leave("unsubscribed", orderly=True, now=world.now)
    world.settle()
    world.answer(world.ask(LeaveGroupRequest), LeaveGroupResponse())
    world.settle()
    world.member.topics_changed(snapshot(), world.now)
    world.member.join(world.now)
    world.join(leads=leads)
    assert isinstance(world.member.step(world.now), Wait)
    world.member.topics_changed(snapshot(t=4), world.now)
    request = world.ask(SyncGroupRequest)
    assert decode_assignment(request.assignments[0].assignment) == T


def test_metadata_that_arrives_during_the_sync_outdates_the_assignment() -> None:
    world = World()
    world.join(leads={"me": encode_subscription(MemberSubscription("me", ("t",)))})
    world.ask(SyncGroupRequest)
    world.member.topics_changed(snapshot(t=5), world.now)
    world.sync(*T)
    world.settle()
    assert "5 partitions" in world.ask(JoinGroupRequest).reason


def test_a_leader_sees_partitions_come_but_not_a_topic_go_for_a_moment() -> None:
    world = World()
    world.join(leads={"me": encode_subscription(MemberSubscription("me", ("t",)))})
    world.sync(*T)
    world.settle()
    world.member.topics_changed(snapshot(), world.now)
    assert world.member.stable
    world.member.topics_changed(snapshot(t=5), world.now)
    assert "5 partitions" in world.ask(JoinGroupRequest).reason


def test_leaving_in_order_and_at_once() -> None:
    world = World()
    world.stable(T[0])
    world.member.leave("enough", orderly=True, now=world.now)
    assert world.member.identity is not None  # for the last commits
    assert isinstance(world.settle()[0], Revoke)
    request = world.ask(LeaveGroupRequest)
    assert (request.members[0].member_id, request.members[0].reason) == ("me", "enough")
    world.answer(request, None, RequestTimedOutError("no answer"))
    assert world.member.out

    world = World()
    world.stable(T[0])
    world.member.leave("too slow", orderly=False, now=world.now)
    assert world.member.identity is None
    assert world.member.heartbeat_at() is None
    world.member.join(world.now)
    world.answer(world.ask(LeaveGroupRequest), None, RequestTimedOutError("no answer"))
    assert isinstance(world.settle()[0], Lose)
    assert world.ask(JoinGroupRequest).member_id == ""


def test_a_silent_coordinator_does_not_bring_back_a_member_that_leaves() -> None:
    world = World()
    world.stable(T[0])
    beat = world.member.heartbeat(world.now)
    assert beat is not None
    world.member.leave("enough", orderly=True, now=world.now)
    world.settle()
    world.ask(LeaveGroupRequest)
    world.member.heartbeat_answered(beat, None, RequestTimedOutError("no answer"), world.now)
    assert world.member.step(world.now) == Wait(None)
    assert world.member.out


def test_a_static_member_leaves_without_a_word() -> None:
    world = World(group_instance_id="i")
    world.stable(T[0])
    world.member.leave("enough", orderly=True, now=world.now)
    world.settle()
    assert world.member.step(world.now) == Wait(None)
    assert world.member.out


def test_leaving_ends_the_wait_for_a_join() -> None:
    world = World()
    world.stable(T[0])
    world.beat(27)
    world.ask(JoinGroupRequest)
    world.member.leave("enough", orderly=True, now=world.now)
    assert isinstance(world.member.step(world.now), Revoke)


def test_who_leaves_before_it_has_an_id_waits_for_that() -> None:
    """KIP-394: the group would wait for the owner of the id until its session expires."""
    world = World()
    request = world.ask(JoinGroupRequest)
    world.member.leave("enough", orderly=True, now=world.now)
    assert world.ask(JoinGroupRequest) is request
    world.answer(request, JoinGroupResponse(error_code=MemberIdRequiredError.code, member_id="me"))
    leave = world.ask(LeaveGroupRequest)
    assert leave.members[0].member_id == "me"
    world.answer(leave, LeaveGroupResponse())
    assert world.member.out


def test_topics_that_are_not_wanted_any_more_are_given_up_and_not_taken() -> None:
    world = World()
    world.member.topics_changed(snapshot(t=4, u=1), world.now)
    world.stable(T[0])
    world.member.subscribe(Wanted(frozenset({"u"})), world.now)
    assert [step.partitions for step in world.settle()] == [{T[0]}]
    world.join(generation=2)
    world.sync(T[0], U)
    assert world.member.owned == frozenset()
    assert T[0].topic in str(world.join(generation=3).reason)
    world.sync(T[0], U)
    world.settle()
    assert world.member.owned == {U}
    assert world.member.stable


def test_a_leader_that_does_not_know_a_subscription_is_asked_once(caplog: pytest.LogCaptureFixture) -> None:
    """A rebalance for each of its answers would never end."""
    world = World()
    world.join()
    world.sync(T[0], U)
    world.stable(T[0], U, generation=2)
    assert world.member.owned == {T[0]}
    assert "partitions of u" in caplog.text
    world.beat(RebalanceInProgressError.code)
    world.stable(T[0], U, generation=3)
    world.beat(RebalanceInProgressError.code)
    world.stable(T[0], generation=4)
    world.beat(RebalanceInProgressError.code)
    world.join(generation=5)
    world.sync(U)
    world.ask(JoinGroupRequest)  # after a match, the next mismatch counts again


def back(**options: Any) -> World:
    """Return a static member that was away; the group has `T` for it, from its earlier subscription."""
    world = World(group_instance_id="i", **options)
    world.member.topics_changed(snapshot(t=4, u=1), world.now)
    return world


@pytest.mark.parametrize("protocol", [COOPERATIVE, EAGER])
def test_a_static_member_that_comes_back_to_other_topics_asks_for_a_rebalance(protocol: str) -> None:
    """The coordinator leaves the group unchanged for a member with the same metadata as before (KAFKA-7961)."""
    world = back()
    world.member.subscribe(Wanted(frozenset({"u"})), world.now)
    first = world.join(generation=7, protocol=protocol)
    world.sync(T[0], T[1])
    assert world.settle() == []
    again = world.join(generation=8, protocol=protocol)
    assert again.member_id == "me"
    assert again.protocols != first.protocols
    world.sync(U)
    world.settle()
    assert world.member.owned == {U}


def described(*assigned: TopicPartition, error: int = 0) -> DescribeGroupsResponse:
    members = [DescribedGroupMember(member_id="other", member_assignment=encode_assignment(assigned))]
    return DescribeGroupsResponse(groups=[DescribedGroup(error_code=error, members=members)])


@pytest.mark.parametrize(
    ("answer", "rebalances"),
    [
        (described(T[2]), True),
        (described(T[2], U), False),
        (described(error=GroupAuthorizationFailedError.code), False),
        (DescribeGroupsResponse(groups=[DescribedGroup(group_state="Dead")]), False),
        (DescribeGroupsResponse(groups=[]), False),
        (None, False),
    ],
    ids=["nobody's", "another's", "refused", "unknown", "left out", "lost"],
)
def test_a_static_member_that_comes_back_to_more_topics_looks_whether_others_have_them(
    answer: DescribeGroupsResponse | None, rebalances: bool
) -> None:
    """KAFKA-12759."""
    world = back()
    world.member.subscribe(Wanted(frozenset({"t", "u"})), world.now)
    world.join(generation=7)
    world.sync(T[0], T[1])
    assert world.member.awaits is not None
    world.answer(world.ask(DescribeGroupsRequest), answer, None if answer else RequestTimedOutError("no answer"))
    if rebalances:
        assert world.join(generation=8).reason.endswith("u")
        world.sync(T[0], T[1])
    world.settle()
    assert world.member.owned == {T[0], T[1]}
    assert world.member.stable


@pytest.mark.parametrize(("held", "rebalances"), [(T[2:3], True), (T[2:4], False)], ids=["nobody's", "another's"])
def test_a_static_leader_that_comes_back_looks_for_partitions_that_are_new(
    held: list[TopicPartition], rebalances: bool
) -> None:
    """While the leader is away, no member notices them, and the coordinator keeps the assignment (KIP-814)."""
    world = back()
    mine = encode_subscription(MemberSubscription("me", ("t",)))
    response = JoinGroupResponse(
        generation_id=7,
        protocol_name=COOPERATIVE,
        leader="me",
        member_id="me",
        skip_assignment=True,
        members=[JoinGroupResponseMember(member_id="me", metadata=mine)],
    )
    world.answer(world.ask(JoinGroupRequest), response)
    assert not world.sync(T[0], T[1]).assignments
    world.answer(world.ask(DescribeGroupsRequest), described(*held))
    if rebalances:
        assert world.join(generation=8).reason.endswith("t-3")
        world.sync(T[0], T[1])
    world.settle()
    assert world.member.stable


def test_topics_that_are_not_there_are_not_looked_for() -> None:
    world = World(group_instance_id="i")
    world.member.topics_changed(
        ClusterSnapshot(2, topics={**snapshot(t=4).topics, "u": TopicMetadata("u", error_code=3)}), world.now
    )
    world.member.subscribe(Wanted(frozenset({"t", "u"})), world.now)
    world.stable(T[0])


def test_the_work_in_hand_has_less_time_than_the_rebalance() -> None:
    world = World(rebalance_timeout_ms=10_000)
    world.stable(T[0], protocol=EAGER)
    world.beat(27)
    step = world.member.step(world.now)
    assert isinstance(step, Revoke)
    assert step.timeout_s == pytest.approx(8)


def test_a_pattern_s_topics_are_looked_up_before_a_rebalance_that_others_began() -> None:
    world = World()
    world.member.subscribe(Wanted(frozenset({"t"}), "t|u"), world.now)
    world.stable(T[0])
    world.beat(RebalanceInProgressError.code)
    assert world.settle() == []
    waits = world.member.step(world.now)
    assert isinstance(waits, Wait)
    assert waits.refresh
    world.member.topics_changed(snapshot(t=4, u=1, generation=2), world.now)
    world.member.subscribe(Wanted(frozenset({"t", "u"}), "t|u"), world.now)
    assert subscription_of(world.join(generation=2)).topics == ("t", "u")
    world.sync(T[0])
    world.settle()
    assert world.member.stable


def test_newer_metadata_that_does_not_come_is_not_waited_for_for_ever() -> None:
    world = World()
    world.member.subscribe(Wanted(frozenset({"t"}), "t|u"), world.now)
    world.stable(T[0])
    world.beat(RebalanceInProgressError.code)
    waits = world.member.step(world.now)
    assert isinstance(waits, Wait)
    assert waits.until is not None
    world.now = waits.until
    world.ask(JoinGroupRequest)

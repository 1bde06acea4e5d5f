"""A member of a KIP-848 group: answers in, steps and heartbeats out."""

from __future__ import annotations

from uuid import UUID

import pytest

from aiokafka_lead._core.group.heartbeat_schedule import PROBES
from aiokafka_lead._core.group.member import Assign, Lose, Revoke, Wait, Wanted
from aiokafka_lead._wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from aiokafka_lead.errors import (
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    InvalidRegularExpressionError,
    KafkaConnectionError,
    KafkaError,
    MalformedMessageError,
    StaleMemberEpochError,
    TopicAuthorizationFailedError,
    UnknownMemberIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)
from aiokafka_lead.types import TopicPartition

from .consumer_protocol_world import EVENTS, INTERNAL, INTERVAL_S, LOGS, NAMES, Group, epoch_of, events, snapshot


def unknown(group: Group) -> bool:
    return group.member.unknown_topics


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[UUID, list[int]] | None:
    if request.topic_partitions is None:
        return None
    return {entry.topic_id: entry.partitions for entry in request.topic_partitions}


def test_joining_tells_everything() -> None:
    group = Group(client_rack="r1", group_remote_assignor="uniform", group_instance_id="i")
    request = group.beat()
    assert (request.group_id, request.member_epoch, request.instance_id) == ("g", 0, "i")
    assert request.member_id
    assert (request.rebalance_timeout_ms, request.rack_id, request.server_assignor) == (10_000, "r1", "uniform")
    assert request.subscribed_topic_names == ["events"]
    assert request.subscribed_topic_regex is None
    assert request.topic_partitions == []
    assert epoch_of(group) is None
    assert group.member.heartbeat_at() is None
    group.answer(request, 3, {})
    assert group.member.identity == (3, request.member_id, "i")
    assert group.member.stable
    assert group.member.step(group.now) == Wait(None)


@pytest.mark.parametrize(("answered", "expected"), [("assigned by the broker", "assigned by the broker"), ("", "own")])
def test_a_coordinator_may_assign_the_member_s_id(answered: str, expected: str) -> None:
    group = Group()
    group.member.member_id = "own"
    group.answer(group.beat(), 1, {}, member_id=answered)
    group.now += INTERVAL_S
    assert group.beat().member_id == expected


def test_without_news_a_heartbeat_tells_nothing() -> None:
    group = Group()
    group.assigned(0, 1)
    assert group.member.heartbeat_at() == group.now + INTERVAL_S
    group.now += INTERVAL_S
    request = group.beat()
    assert request == ConsumerGroupHeartbeatRequest(group_id="g", member_id=request.member_id, member_epoch=1)


def test_an_assignment_is_taken_over_and_acknowledged() -> None:
    group = Group()
    group.answer(group.beat(), 1, {EVENTS: [0, 1], LOGS: [0]})
    logs = TopicPartition("logs", 0)
    step = group.member.step(group.now)
    assert step == Assign(events(0, 1) | {logs}, events(0, 1) | {logs})
    assert group.member.step(group.now) is step
    assert not group.member.stable
    assert group.member.owned == frozenset()
    assert isinstance(step, Assign)
    group.member.done(step, group.now)
    assert group.member.owned == events(0, 1) | {logs}
    assert owned(group.beat()) == {EVENTS: [0, 1], LOGS: [0]}


def test_partitions_are_given_up_before_others_come() -> None:
    group = Group()
    group.assigned(0, 1)
    group.now += INTERVAL_S
    group.answer(group.beat(), 1, {EVENTS: [0]})
    revoke = group.member.step(group.now)
    assert revoke == Revoke(events(1), 8.0)
    assert isinstance(revoke, Revoke)
    # Meanwhile heartbeats continue without reporting it, and a newer target waits.
    group.now += INTERVAL_S
    request = group.beat()
    assert owned(request) is None
    group.answer(request, 1, {EVENTS: [0, 2]})
    assert group.member.step(group.now) == revoke
    group.member.done(revoke, group.now)
    assert group.member.owned == events(0)
    assert owned(group.beat()) == {EVENTS: [0]}
    assign = group.member.step(group.now)
    assert assign == Assign(events(0, 2), events(2))


def test_done_while_a_heartbeat_is_out_is_told_with_the_next_at_once() -> None:
    group = Group()
    group.answer(group.beat(), 1, {EVENTS: [0]})
    group.now += INTERVAL_S
    out = group.beat()
    step = group.member.step(group.now)
    assert isinstance(step, Assign)
    group.member.done(step, group.now)
    assert group.member.heartbeat_at() is None
    group.answer(out, 1)
    assert owned(group.beat()) == {EVENTS: [0]}


def test_a_topic_made_anew_is_another_topic() -> None:
    group = Group()
    group.assigned(0)
    again = UUID(int=9)
    group.member.topics_changed(snapshot({**NAMES, again: "events"}), group.now)
    group.now += INTERVAL_S
    group.answer(group.beat(), 2, {again: [0]})
    step = group.member.step(group.now)
    assert step == Revoke(events(0), 8.0)
    assert isinstance(step, Revoke)
    group.member.done(step, group.now)
    assert group.member.step(group.now) == Assign(events(0), events(0))


def test_topics_without_a_name_wait_for_metadata() -> None:
    group = Group(Wanted(frozenset(), "e.*|new"))
    new = UUID(int=7)
    group.answer(group.beat(), 1, {EVENTS: [0], new: [0]})
    assert unknown(group)
    step = group.member.step(group.now)
    assert step == Assign(events(0), events(0))
    assert isinstance(step, Assign)
    group.member.done(step, group.now)
    group.answer(group.beat(), 1)
    assert not group.member.stable
    group.member.topics_changed(snapshot({**NAMES, new: "new"}), group.now)
    assert not unknown(group)
    step = group.member.step(group.now)
    added = frozenset({TopicPartition("new", 0)})
    assert step == Assign(events(0) | added, added)
    # A known name is kept while metadata lacks it, because the topic may be about to disappear.
    group.member.topics_changed(snapshot({}), group.now)
    assert not unknown(group)


@pytest.mark.parametrize("error", [FencedMemberEpochError, UnknownMemberIdError, GroupIdNotFoundError])
def test_a_fenced_member_loses_everything_then_joins_anew(error: type[KafkaError]) -> None:
    group = Group()
    group.assigned(0, 1)
    group.now += INTERVAL_S
    group.refuse(group.beat(), error)
    assert epoch_of(group) is None
    assert group.member.heartbeat_at() is None
    step = group.member.step(group.now)
    assert isinstance(step, Lose)
    assert step.partitions == events(0, 1)
    group.member.done(step, group.now)
    request = group.beat()
    assert (request.member_epoch, owned(request), request.subscribed_topic_names) == (0, {}, ["events"])
    assert request.rebalance_timeout_ms == 10_000
    group.answer(request, 5, {EVENTS: [1]})
    assert group.member.step(group.now) == Assign(events(1), events(1))


def test_a_member_that_is_fenced_whenever_it_has_joined_waits_in_between() -> None:
    group = Group(retry_backoff_ms=100)
    for _ in range(3):
        group.answer(group.beat(), 1, {EVENTS: [0]})
        for kind in (Assign, Lose):
            step = group.member.step(group.now)
            assert isinstance(step, kind)
            group.member.done(step, group.now)
            if kind is Assign:
                group.refuse(group.beat(), FencedMemberEpochError)
        assert group.member.heartbeat_at() == pytest.approx(group.now + 0.1)
        group.now += 0.1


@pytest.mark.parametrize("epoch", [0, -1])
def test_an_answer_without_an_epoch_is_no_membership(epoch: int) -> None:
    group = Group()
    group.answer(group.beat(), epoch, {EVENTS: [0]})
    assert isinstance(group.member.error, MalformedMessageError)
    assert isinstance(group.member.step(group.now), Wait)
    group.member.join(group.now)
    group.now += 1
    group.answer(group.beat(), 1, {EVENTS: [0]})
    assert isinstance(group.member.step(group.now), Assign)


def test_being_fenced_ends_a_revocation() -> None:
    group = Group()
    group.assigned(0, 1)
    group.now += INTERVAL_S
    group.answer(group.beat(), 1, {EVENTS: [0]})
    assert isinstance(group.member.step(group.now), Revoke)
    group.now += INTERVAL_S
    group.refuse(group.beat(), FencedMemberEpochError)
    step = group.member.step(group.now)
    assert isinstance(step, Lose)
    assert step.partitions == events(0, 1)


def test_being_fenced_while_partitions_are_taken_over_loses_them_too() -> None:
    group = Group()
    group.answer(group.beat(), 1, {EVENTS: [0]})
    assign = group.member.step(group.now)
    assert isinstance(assign, Assign)
    group.now += INTERVAL_S
    group.refuse(group.beat(), FencedMemberEpochError)
    group.member.done(assign, group.now)
    step = group.member.step(group.now)
    assert isinstance(step, Lose)
    assert step.partitions == events(0)
    group.member.done(step, group.now)
    assert group.member.owned == frozenset()
    assert group.beat().member_epoch == 0


def test_a_member_that_may_not_come_back_by_its_id_takes_another() -> None:
    group = Group()
    first = group.beat()
    group.refuse(first, FencedMemberEpochError)
    group.now += 1
    assert group.beat().member_id != first.member_id


def test_a_heartbeat_without_an_answer_is_followed_by_a_full_one() -> None:
    group = Group()
    group.assigned(0)
    group.now += INTERVAL_S
    group.fail(group.beat(), KafkaConnectionError("gone"))
    assert group.member.heartbeat_at() == pytest.approx(group.now + 0.1)
    group.now += 0.1
    request = group.beat()
    assert (request.member_epoch, owned(request), request.subscribed_topic_names) == (1, {EVENTS: [0]}, ["events"])
    group.fail(request, KafkaConnectionError("gone"))
    assert group.member.heartbeat_at() == pytest.approx(group.now + 0.2)
    assert group.member.owned == events(0)


def test_a_coordinator_behind_a_new_connection_repeats_the_target_in_answer_to_all_fields() -> None:
    """The former coordinator may have belonged to another cluster, which an equal epoch does not reveal."""
    group = Group()
    group.assigned(0)
    group.now += INTERVAL_S
    group.answer(group.beat(), 1, reconnected=True)
    complete = group.beat()
    assert complete.subscribed_topic_names == ["events"]
    assert complete.rebalance_timeout_ms == 10_000
    assert complete.topic_partitions is not None
    group.answer(complete, 1, {EVENTS: [1]})
    assert group.member.heartbeat_at() == group.now + INTERVAL_S
    assert group.member.step(group.now) == Revoke(events(0), 8.0)


def test_a_member_whose_target_has_unknown_topics_sends_all_fields() -> None:
    group = Group()
    group.answer(group.beat(), 1, {UUID(int=99): [0]})
    for _ in range(2):
        group.now += INTERVAL_S
        complete = group.beat()
        assert (complete.subscribed_topic_names, complete.topic_partitions) == (["events"], [])
        group.answer(complete, 1)
    group.now += INTERVAL_S
    group.answer(group.beat(), 1, {EVENTS: [0]})
    group.now += INTERVAL_S
    assert group.beat().subscribed_topic_names is None


def test_a_coordinator_that_loads_is_asked_again() -> None:
    group = Group()
    group.refuse(group.beat(), CoordinatorLoadInProgressError)
    assert group.member.error is None
    assert group.member.heartbeat_at() == pytest.approx(group.now + 0.1)


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError, UnsupportedAssignorError, FencedInstanceIdError])
def test_what_cannot_be_helped_is_an_error_and_everything_is_lost(error: type[KafkaError]) -> None:
    group = Group()
    group.assigned(0)
    group.now += INTERVAL_S
    group.refuse(group.beat(), error)
    assert type(group.member.error) is error
    assert group.member.heartbeat_at() is None
    step = group.member.step(group.now)
    assert isinstance(step, Lose)
    group.member.done(step, group.now)
    assert group.member.step(group.now) == Wait(None)
    group.member.join(group.now)
    assert group.member.heartbeat_at() == group.now + 0.1, "an application may read again at once, and always"
    group.now += 0.1
    assert group.beat().member_epoch == 0


def test_a_member_that_may_not_use_a_topic_says_so_and_stays() -> None:
    """The others of its topics can be read, and the permission may come back (Java does the same)."""
    group = Group()
    group.assigned(0)
    for _ in range(2):
        group.now = group.member.heartbeat_at() or 0.0
        group.refuse(group.beat(), TopicAuthorizationFailedError)
        assert isinstance(group.member.error, TopicAuthorizationFailedError)
        assert group.member.owned == events(0)
        assert group.member.step(group.now) == Wait(None)
        group.member.join(group.now)
        assert group.member.error is None
    group.now = group.member.heartbeat_at() or 0.0
    group.answer(group.beat(), 1, {EVENTS: [0]})
    assert group.member.stable


def test_partitions_given_up_may_be_followed_by_others_that_are_waited_for() -> None:
    """The coordinator holds partitions back until it has heard that the member has given up others."""
    group = Group()
    group.assigned(0)
    group.member.subscribe(Wanted(frozenset({"logs"})), group.now)
    group.answer(group.beat(), 2, {})
    step = group.member.step(group.now)
    assert isinstance(step, Revoke)
    group.member.done(step, group.now)
    assert group.member.awaits is not None
    group.answer(group.beat(), 3, {LOGS: [0]})
    assert group.member.awaits is not None
    step = group.member.step(group.now)
    assert isinstance(step, Assign)
    group.member.done(step, group.now)
    assert group.member.awaits is None


def test_a_group_that_cannot_be_joined_is_an_error() -> None:
    """For example, it is a classic group with other members."""
    group = Group()
    group.refuse(group.beat(), GroupIdNotFoundError)
    assert isinstance(group.member.error, GroupIdNotFoundError)


def test_brokers_without_the_protocol_are_told_of() -> None:
    group = Group()
    group.fail(group.beat(), UnsupportedVersionError("ConsumerGroupHeartbeat: broker has none"))
    assert isinstance(group.member.error, UnsupportedVersionError)
    assert 'group_protocol="consumer"' in str(group.member.error)
    assert '"auto"' in str(group.member.error)


def test_the_broker_matches_a_pattern() -> None:
    group = Group(Wanted(frozenset({"events"}), "ev.*"))
    request = group.beat()
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == ([], "ev.*")
    group.answer(request, 1, {})
    group.member.subscribe(Wanted(frozenset({"events", "evening"}), "ev.*"), group.now)
    group.now += INTERVAL_S
    assert group.beat().subscribed_topic_regex is None


def test_a_pattern_is_taken_back() -> None:
    group = Group(Wanted(frozenset(), "ev.*"))
    group.answer(group.beat(), 1, {})
    group.member.subscribe(Wanted(frozenset({"logs"})), group.now)
    request = group.beat()
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["logs"], "")


@pytest.mark.parametrize("refusal", [UnsupportedVersionError("field subscribed_topic_regex"), None])
def test_a_pattern_that_the_broker_cannot_match_is_matched_here(refusal: KafkaError | None) -> None:
    group = Group(Wanted(frozenset({"events"}), "(?!x)ev.*"))
    request = group.beat()
    if refusal is None:
        group.refuse(request, InvalidRegularExpressionError)
    else:
        group.fail(request, refusal)
    request = group.beat()
    assert (request.subscribed_topic_names, request.subscribed_topic_regex) == (["events"], None)
    group.answer(request, 1, {})
    group.member.subscribe(Wanted(frozenset({"events", "evening"}), "(?!x)ev.*"), group.now)
    assert group.beat().subscribed_topic_names == ["evening", "events"]


def test_nothing_to_subscribe_to_is_not_joined_with() -> None:
    group = Group(Wanted(frozenset(), None))
    assert group.member.heartbeat_at() is None
    group.member.subscribe(Wanted(frozenset({"events"})), group.now)
    assert group.beat().subscribed_topic_names == ["events"]


def test_internal_topics_that_a_pattern_matches_are_left_alone() -> None:
    group = Group(Wanted(frozenset(), ".*"))
    group.answer(group.beat(), 1, {EVENTS: [0], INTERNAL: [0]})
    assert group.member.step(group.now) == Assign(events(0), events(0))


def test_a_refused_commit_hurries_the_heartbeat_that_explains_it() -> None:
    group = Group()
    group.assigned(0)
    identity = group.member.identity
    assert identity is not None
    group.member.commit_refused(identity, StaleMemberEpochError(), group.now)
    group.answer(group.beat(), 2)
    at = group.member.heartbeat_at()
    assert at == group.now + INTERVAL_S
    group.member.commit_refused(identity, StaleMemberEpochError(), group.now)
    assert group.member.heartbeat_at() == at, "that was about an epoch that is over"


def test_a_broker_says_how_often_it_wants_heartbeats() -> None:
    group = Group()
    group.answer(group.beat(), 1, {EVENTS: [0]}, interval_s=11)
    assert group.member.heartbeat_at() == group.now + 11
    assert group.member.heartbeat_timeout_s() == 22


@pytest.mark.parametrize(("interval_s", "obeyed_s"), [(0.001, 0.05), (2**31 / 1000 - 1, 60)])
def test_an_absurd_interval_is_not_obeyed(interval_s: float, obeyed_s: float) -> None:
    group = Group()
    group.answer(group.beat(), 1, {EVENTS: [0]}, interval_s=interval_s)
    assert group.member.heartbeat_at() == group.now + obeyed_s


def test_a_session_is_guessed_from_the_interval_that_brokers_want() -> None:
    """Nine intervals, like the brokers' defaults; no less than ``session_timeout_ms``."""
    group = Group(session_timeout_ms=20_000)
    assert group.member.session_s == 27
    group.answer(group.beat(), 1, {}, interval_s=15)
    assert group.member.session_s == 135
    group.now += 15
    group.answer(group.beat(), 1, interval_s=0.5)
    assert group.member.session_s == 20


LONGEST_PROBE_S = 1.2
"""``retry_backoff_max_ms`` and the jitter: early heartbeats are no further apart."""


@pytest.mark.parametrize("first", [{}, None])
def test_a_new_member_without_partitions_asks_soon_whether_it_has_some_by_now(
    first: dict[UUID, list[int]] | None,
) -> None:
    """KIP-1263: a coordinator assigns periodically, and sends a member that joined in between no target at first."""
    group = Group()
    group.answer(group.beat(), 1, first)
    assert group.member.awaits == "an assignment from the coordinator"
    group.now += LONGEST_PROBE_S
    group.answer(group.beat(), 2, {EVENTS: [0]})
    assert group.member.awaits == "the takeover of the assigned partitions"
    step = group.member.step(group.now)
    assert isinstance(step, Assign)
    group.member.done(step, group.now)
    assert group.member.awaits is None


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_new_member_that_stays_without_partitions_asks_as_often_as_the_broker_wants(epoch: int) -> None:
    group = Group()
    group.answer(group.beat(), 1, {})
    probes = 0
    while group.member.awaits is not None:
        group.now += LONGEST_PROBE_S
        group.answer(group.beat(), epoch)
        probes += 1
    assert probes == (PROBES if epoch == 1 else 1), "a newer epoch says that it has been thought of"
    assert group.member.heartbeat_at() == group.now + INTERVAL_S

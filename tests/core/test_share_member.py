"""A member of a share group: its heartbeats, and all transitions of its table."""

from __future__ import annotations

import random
import sys
from types import FrameType
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lead._core.group.heartbeat_member import SHARING, Event, Phase
from aiokafka_lead._core.group.heartbeat_schedule import AWAITED_PROBES, PROBES
from aiokafka_lead._core.metadata.types import ClusterSnapshot, PartitionMetadata, TopicMetadata
from aiokafka_lead._core.share.member import ShareMember
from aiokafka_lead._core.transitions import Transitions
from aiokafka_lead._wire import Request
from aiokafka_lead._wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from aiokafka_lead.config.share import ShareConsumerConfig
from aiokafka_lead.errors import (
    CoordinatorLoadInProgressError,
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    KafkaError,
    RequestTimedOutError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)

from .share_world import JOBS, jobs, snapshot

WALKS, STEPS = 60, 150


class Group:
    """A member and a clock."""

    def __init__(self, **options: Any) -> None:
        self.member = ShareMember(ShareConsumerConfig.from_options("h", {"group_id": "g", **options}), lambda: 0.5)
        self.now = 100.0
        self.member.topics_changed(snapshot((1, 1)))
        self.member.subscribe(("jobs",), self.now)

    def beat(self) -> ShareGroupHeartbeatRequest:
        at = self.member.heartbeat_at()
        assert at is not None
        self.now = max(self.now, at)
        request = self.member.heartbeat(self.now)
        assert isinstance(request, ShareGroupHeartbeatRequest)
        return request

    def answer(
        self,
        request: Request[Any],
        epoch: int = 1,
        partitions: list[int] | None = None,
        error: int = 0,
        *,
        reconnected: bool = False,
    ) -> None:
        assignment = None
        if partitions is not None:
            assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=JOBS, partitions=partitions)])
        response = ShareGroupHeartbeatResponse(
            error_code=error, member_epoch=epoch, heartbeat_interval_ms=5000, assignment=assignment
        )
        self.member.heartbeat_answered(request, response, None, self.now, reconnected=reconnected)


def test_it_joins_and_tells_what_is_new() -> None:
    group = Group(client_rack="r")
    first = group.beat()
    assert (first.member_epoch, first.rack_id, first.subscribed_topic_names) == (0, "r", ["jobs"])
    assert group.member.heartbeat_at() is None
    group.answer(first, 3, [0, 1])
    assert group.member.assignment() == {jobs(0): JOBS, jobs(1): JOBS}
    second = group.beat()
    assert (second.member_epoch, second.rack_id, second.subscribed_topic_names) == (3, None, None)
    group.answer(second, 3)
    group.member.subscribe(("jobs", "more"), group.now)
    third = group.beat()
    assert third.subscribed_topic_names == ["jobs", "more"]
    group.answer(third, 4, [1])
    assert group.member.assignment() == {jobs(1): JOBS}


def test_a_coordinator_behind_a_new_connection_repeats_the_target_in_answer_to_all_fields() -> None:
    group = Group(client_rack="r")
    group.answer(group.beat(), 3, [0, 1])
    group.answer(group.beat(), 3, reconnected=True)
    began = group.now
    complete = group.beat()
    assert group.now == began
    assert (complete.member_epoch, complete.rack_id, complete.subscribed_topic_names) == (3, "r", ["jobs"])
    group.answer(complete, 3, [1])
    assert group.member.assignment() == {jobs(1): JOBS}


@pytest.mark.parametrize("error", [FencedMemberEpochError, UnknownMemberIdError, GroupIdNotFoundError])
def test_a_fenced_member_joins_again_under_its_id_and_fetches_nothing_meanwhile(error: type[KafkaError]) -> None:
    group = Group()
    first = group.beat()
    group.answer(first, 3, [0])
    group.answer(group.beat(), error=error.code)
    assert not group.member.joined
    assert group.member.assignment() == {}
    assert group.member.heartbeat_at() == group.now
    again = group.beat()
    assert (again.member_epoch, again.member_id) == (0, first.member_id)
    assert again.subscribed_topic_names == ["jobs"]


def test_what_may_pass_is_tried_again_and_everything_told() -> None:
    group = Group()
    group.answer(group.beat(), 3, [0])
    group.answer(group.beat(), error=CoordinatorLoadInProgressError.code)
    assert group.member.joined
    assert group.beat().subscribed_topic_names == ["jobs"]


def test_what_does_not_pass_is_for_the_application_and_joining_tries_again() -> None:
    group = Group()
    group.answer(group.beat(), error=GroupAuthorizationFailedError.code)
    assert isinstance(group.member.error, GroupAuthorizationFailedError)
    group.member.join(group.now)
    assert group.beat().member_epoch == 0


def test_brokers_without_share_groups_are_named() -> None:
    group = Group()
    request = group.beat()
    group.member.heartbeat_answered(request, None, UnsupportedVersionError("ShareGroupHeartbeat"), group.now)
    assert "do not serve share groups" in str(group.member.error)


def test_it_leaves_and_an_answer_that_comes_late_counts_no_more() -> None:
    group = Group()
    group.answer(group.beat(), 3, [0])
    late = group.beat()
    group.member.leave(group.now)
    assert group.beat().member_epoch == -1
    group.answer(late, 3, [0])
    assert group.member.out
    assert group.member.heartbeat_at() is None


def test_a_member_that_nobody_knows_leaves_without_a_word() -> None:
    group = Group()
    group.member.leave(group.now)
    assert group.member.out


def test_it_comes_back_after_it_has_left() -> None:
    group = Group()
    group.answer(group.beat(), 3, [0])
    group.member.leave(group.now)
    group.member.subscribe(("more",), group.now)
    assert group.beat().member_epoch == -1
    assert group.beat().subscribed_topic_names == ["more"]


def test_partitions_are_waited_for_and_asked_about_often_while_there_are_some() -> None:
    """A coordinator initializes their state first, which takes seconds in a new cluster."""
    group = Group()
    group.answer(group.beat(), 1, [])
    for epoch in (1, 1, 1, 1, 2, 2):
        assert not group.member.assigned
        before = group.now
        group.answer(group.beat(), epoch)
        assert group.now < before + 1.25
    group.answer(group.beat(), 3, [0, 1])
    assert group.member.assigned
    before = group.now
    group.beat()
    assert group.now == before + 5


def test_partitions_that_never_come_are_asked_about_often_for_a_time() -> None:
    group = Group()
    group.answer(group.beat(), 1, [])
    for _ in range(AWAITED_PROBES):
        group.answer(group.beat(), 1)
    before = group.now
    group.answer(group.beat(), 1)
    assert group.now == before + 5
    assert not group.member.assigned


def test_without_partitions_a_member_has_been_given_all_after_a_few_heartbeats() -> None:
    group = Group()
    group.member.topics_changed(snapshot(()))
    group.answer(group.beat(), 1, [])
    for _ in range(PROBES):
        assert not group.member.assigned
        group.answer(group.beat(), 1)
    assert group.member.assigned
    group.member.topics_changed(snapshot((1,)))
    assert not group.member.assigned


def test_partitions_of_new_topics_are_asked_about_often_for_a_short_time() -> None:
    """A coordinator initializes their state first. Another member may have got all of them."""
    group = Group()
    known = snapshot((1, 1))
    more = TopicMetadata("more", UUID(int=8), partitions=(PartitionMetadata("more", 0, 1, 0),))
    group.member.topics_changed(
        ClusterSnapshot(2, topics={**known.topics, "more": more}, topic_names={JOBS: "jobs", more.topic_id: "more"})
    )
    group.answer(group.beat(), 1, [0])
    group.answer(group.beat(), 1)
    seen = [group.member.assigned]
    group.member.subscribe(("jobs", "more"), group.now)
    seen.append(group.member.assigned)
    group.answer(group.beat(), 2, [0])
    for _ in range(PROBES):
        seen.append(group.member.assigned)
        before = group.now
        group.answer(group.beat(), 2)
        assert group.now < before + 1.25
    assert seen == [True] + [False] * (PROBES + 1)
    assert group.member.assigned
    group.member.subscribe(("jobs",), group.now)
    seen = [group.member.assigned]
    group.answer(group.beat(), 3, [0])
    assert [*seen, group.member.assigned] == [False, True]


def test_topics_that_metadata_does_not_name_are_waited_for() -> None:
    group = Group()
    group.member.topics_changed(snapshot(()))
    request = group.beat()
    response = ShareGroupHeartbeatResponse(
        member_epoch=1,
        heartbeat_interval_ms=5000,
        assignment=Assignment(topic_partitions=[TopicPartitions(topic_id=UUID(int=9), partitions=[0])]),
    )
    group.member.heartbeat_answered(request, response, None, group.now)
    assert group.member.unknown_topics
    assert not group.member.assigned


class Walk:
    """Calls the member as its task and the application do, with answers of every kind, early and late."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.group = Group()
        self.out: list[Request[Any]] = []

    def walk(self) -> None:
        acts = [self.beat] * 6 + [self.answer] * 6 + [self.leave, self.join, self.subscribe]
        for _ in range(STEPS):
            self.group.now += self.rng.choice([0.0, 0.1, 6.0])
            self.rng.choice(acts)()
            member = self.group.member
            assert (member.epoch > 0) == member.joined

    def beat(self) -> None:
        request = self.group.member.heartbeat(self.group.now)
        if request is not None:
            self.out.append(request)

    def answer(self) -> None:
        if not self.out:
            return
        request = self.out.pop(self.rng.randrange(len(self.out)))
        errors = [FencedMemberEpochError, UnknownMemberIdError, CoordinatorLoadInProgressError]
        errors += [GroupAuthorizationFailedError, GroupIdNotFoundError]
        match self.rng.random():
            case chance if chance < 0.6:
                self.group.answer(request, self.rng.randrange(1, 9), [0])
            case chance if chance < 0.9:
                self.group.answer(request, error=self.rng.choice(errors).code)
            case _:
                self.group.member.heartbeat_answered(request, None, RequestTimedOutError("late"), self.group.now)

    def leave(self) -> None:
        self.group.member.leave(self.group.now)

    def join(self) -> None:
        self.group.member.join(self.group.now)

    def subscribe(self) -> None:
        self.group.member.subscribe((self.rng.choice(["jobs", "more"]),), self.group.now)


def test_a_walk_takes_each_transition_and_none_beside_the_table() -> None:
    found: set[tuple[Phase, Event]] = set()
    code = Transitions.after.__code__

    def see(frame: FrameType, what: str, argument: object) -> None:
        if what == "call" and frame.f_code is code and frame.f_locals["self"] is SHARING:
            found.add((frame.f_locals["state"], frame.f_locals["event"]))

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        for seed in range(WALKS):
            Walk(seed).walk()
    finally:
        sys.setprofile(before)
    assert found == {(state, event) for state, after in SHARING.table.items() for event in after}

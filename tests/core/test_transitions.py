"""Random walks through the tables of the state machines: every transition is taken, and none outside the table.

A walk calls a member, or a partition, as the tasks do, with answers of every kind, early and late. A profiler function
observes the lookups in a table.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from types import FrameType
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lead._core.consumer import partition_state
from aiokafka_lead._core.consumer.fetch_plan import PlannedFetch
from aiokafka_lead._core.consumer.partition_state import BEYOND_ANY_LOG, FetchState, PartitionState
from aiokafka_lead._core.consumer.reset_policy import EARLIEST, LATEST
from aiokafka_lead._core.group import classic_protocol, heartbeat_member
from aiokafka_lead._core.group.assignors import MemberSubscription, encode_assignment, encode_subscription
from aiokafka_lead._core.group.member import Ask, Assign, GroupMember, Lose, Revoke, Wanted
from aiokafka_lead._core.group.offsets import GroupIdentity
from aiokafka_lead._core.transitions import IllegalTransitionError, Transitions
from aiokafka_lead._wire import Request, Response
from aiokafka_lead._wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokafka_lead._wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from aiokafka_lead._wire.messages.heartbeat import HeartbeatResponse
from aiokafka_lead._wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from aiokafka_lead._wire.messages.leave_group import LeaveGroupResponse
from aiokafka_lead._wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokafka_lead.errors import (
    CoordinatorLoadInProgressError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    KafkaError,
    MemberIdRequiredError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    RequestTimedOutError,
    UnknownMemberIdError,
)
from aiokafka_lead.types import TopicPartition

from . import classic_world, consumer_protocol_world, fetch_world
from .classic_world import COOPERATIVE, EAGER, T
from .consumer_protocol_world import EVENTS
from .fetch_world import T0, batch, data, response

WALKS = 200
STEPS = 250
BEFORE_DIVERGING_EPOCHS = 11

EVERYTHING = [*T, TopicPartition("events", 0), TopicPartition("u", 0)]

Pairs = set[tuple[Enum, Enum]]
TABLES: dict[str, Transitions[Any, Any]] = {
    "classic": classic_protocol.TRANSITIONS,
    "consumer protocol": heartbeat_member.OWNING,
    "partition": partition_state.TRANSITIONS,
}
of_each_table = pytest.mark.parametrize("name", TABLES)


def pairs(transitions: Transitions[Any, Any]) -> Pairs:
    return {(state, event) for state, after in transitions.table.items() for event in after}


def everything_like(member: Enum) -> set[Enum]:
    """Return all members of its enumeration."""
    return set(type(member))


@contextmanager
def taken(transitions: Transitions[Any, Any]) -> Iterator[Pairs]:
    """Collect the states and events looked up in this table while the block runs."""
    found: Pairs = set()
    code = Transitions.after.__code__

    def see(frame: FrameType, what: str, argument: object) -> None:
        if what == "call" and frame.f_code is code and frame.f_locals["self"] is transitions:
            found.add((frame.f_locals["state"], frame.f_locals["event"]))

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield found
    finally:
        sys.setprofile(before)


class MemberWalk:
    """Both tasks of a group, interleaved at random: one carries out steps, the other sends heartbeats."""

    def __init__(self, member: GroupMember, world: Any, rng: random.Random) -> None:
        self.member = member
        self.world = world
        self.rng = rng
        self.asked: list[Request[Any]] = []
        self.in_hand: Revoke | Lose | Assign | None = None
        self.beats: list[Request[Any]] = []
        self.identities: list[GroupIdentity] = []

    def walk(self) -> None:
        acts = [self.step] * 12 + [self.finish] * 6 + [self.answer] * 10 + [self.beat] * 6 + [self.answer_beat] * 6
        acts += [self.leave] * 2 + [self.join] * 5 + [self.subscribe, self.learn, self.refuse_commit]
        for _ in range(STEPS):
            self.world.now += self.rng.choice([0.0, 0.01, 1.0, 6.0])
            self.rng.choice(acts)()

    def step(self) -> None:
        if self.in_hand is not None:
            return
        step = self.member.step(self.world.now)
        if isinstance(step, Ask):
            if step.request not in self.asked:
                self.asked.append(step.request)
        elif isinstance(step, Revoke | Lose | Assign):
            self.in_hand = step

    def finish(self) -> None:
        step, self.in_hand = self.in_hand, None
        if step is not None:
            self.member.done(step, self.world.now)

    def answer(self) -> None:
        if self.asked:
            request = self.asked.pop()
            answer = None if self.rng.random() < 0.1 else self.answer_to(request)
            error = RequestTimedOutError("no answer") if answer is None else None
            self.member.answered(request, answer, error, self.world.now)

    def beat(self) -> None:
        if self.member.heartbeat_at() is not None:
            request = self.member.heartbeat(self.world.now)
            assert request is not None
            self.beats.append(request)

    def answer_beat(self) -> None:
        if not self.beats:
            return
        request = self.beats.pop()
        if self.rng.random() < 0.1:
            self.member.heartbeat_answered(request, None, RequestTimedOutError("no answer"), self.world.now)
        else:
            self.answer_to_beat(request)
        if self.member.identity is not None:
            self.identities.append(self.member.identity)

    def refuse_commit(self) -> None:
        if self.identities:
            kinds = (UnknownMemberIdError, IllegalGenerationError, RebalanceInProgressError, FencedInstanceIdError)
            self.member.commit_refused(
                self.rng.choice(self.identities[-2:]), self.rng.choice(kinds)("so it is"), self.world.now
            )

    def leave(self) -> None:
        self.member.leave("so it is", orderly=self.rng.random() < 0.8, now=self.world.now)

    def join(self) -> None:
        self.member.join(self.world.now)

    def subscribe(self) -> None:
        topics = self.rng.choice([{"t", "events"}, {"t", "events", "u"}])
        self.member.subscribe(Wanted(frozenset(topics)), self.world.now)

    def learn(self) -> None:
        raise NotImplementedError

    def answer_to(self, request: Request[Any]) -> Response:
        raise NotImplementedError

    def answer_to_beat(self, request: Request[Any]) -> None:
        raise NotImplementedError


class ClassicWalk(MemberWalk):
    def __init__(self, rng: random.Random) -> None:
        world = classic_world.World(group_instance_id=rng.choice([None, None, "i"]))
        super().__init__(world.member, world, rng)
        self.generation = 0

    def code(self, *kinds: type[KafkaError]) -> int:
        """Return the code of an error, or of success."""
        everywhere = (UnknownMemberIdError, CoordinatorLoadInProgressError, GroupAuthorizationFailedError)
        return self.rng.choice(kinds + everywhere).code if self.rng.random() < 0.2 else 0

    def learn(self) -> None:
        self.member.topics_changed(classic_world.snapshot(t=self.rng.randint(4, 5), u=1), self.world.now)

    def answer_to(self, request: Request[Any]) -> Response:
        if isinstance(request, JoinGroupRequest):
            self.generation += 1
            mine = encode_subscription(MemberSubscription("me", tuple(self.rng.choice(["t", "tv"]))))
            leads = self.rng.random() < 0.5
            return JoinGroupResponse(
                error_code=self.code(MemberIdRequiredError, RebalanceInProgressError),
                generation_id=self.generation,
                protocol_name=self.rng.choice([COOPERATIVE, EAGER]),
                leader="me" if leads else "other",
                member_id="me",
                skip_assignment=self.rng.random() < 0.2,
                members=[JoinGroupResponseMember(member_id="me", metadata=mine)] if leads else [],
            )
        if isinstance(request, SyncGroupRequest):
            assigned = encode_assignment(self.rng.sample([*T, TopicPartition("w", 0)], self.rng.randint(0, 4)))
            return SyncGroupResponse(
                error_code=self.code(RebalanceInProgressError, IllegalGenerationError), assignment=assigned
            )
        if isinstance(request, DescribeGroupsRequest):
            assigned = encode_assignment(self.rng.sample(EVERYTHING, self.rng.randint(0, len(EVERYTHING))))
            members = [DescribedGroupMember(member_id="other", member_assignment=assigned)]
            return DescribeGroupsResponse(groups=[DescribedGroup(error_code=self.code(), members=members)])
        return LeaveGroupResponse()

    def answer_to_beat(self, request: Request[Any]) -> None:
        code = self.code(RebalanceInProgressError, IllegalGenerationError)
        self.member.heartbeat_answered(request, HeartbeatResponse(error_code=code), None, self.world.now)


class ConsumerProtocolWalk(MemberWalk):
    def __init__(self, rng: random.Random) -> None:
        group = consumer_protocol_world.Group(group_instance_id=rng.choice([None, None, "i"]))
        super().__init__(group.member, group, rng)
        self.epoch = 0

    def learn(self) -> None:
        names = self.rng.choice([consumer_protocol_world.NAMES, {}])
        self.member.topics_changed(consumer_protocol_world.snapshot(names), self.world.now)

    def answer_to_beat(self, request: Request[Any]) -> None:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        if self.rng.random() < 0.3:
            kinds = (FencedMemberEpochError, CoordinatorLoadInProgressError, GroupAuthorizationFailedError)
            self.world.refuse(request, self.rng.choice(kinds))
        else:
            self.epoch += self.rng.randint(0 if self.epoch else 1, 1)
            target = {EVENTS: self.rng.sample(range(4), self.rng.randint(0, 4))}
            self.world.answer(request, self.epoch, self.rng.choice([None, target]))


class PartitionWalk:
    """Calls of a fetcher, the task that finds positions, a reader and the application to one partition."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world = fetch_world.World(T0, version=BEFORE_DIVERGING_EPOCHS, reset_policy=rng.choice([EARLIEST, None]))
        self.epoch = 3
        self.topic = 7
        self.fetches: list[PlannedFetch] = []
        self.lookups: list[tuple[PartitionState, int]] = []

    def walk(self) -> None:
        acts = [self.plan] * 8 + [self.answer] * 6 + [self.found] * 6 + [self.read] * 2
        acts += [self.elect, self.elect, self.evict, self.seek, self.seek_by, self.go_back, self.assign, self.replace]
        for _ in range(STEPS):
            self.world.now += self.rng.choice([0.0, 0.1, 2.0])
            self.rng.choice(acts)()

    @property
    def state(self) -> PartitionState:
        return self.world.state()

    def plan(self) -> None:
        self.fetches += self.world.plan()
        for state in self.world.planner.lookups:
            state.looked_up = True
            self.lookups.append((state, state.incarnation))
        self.world.planner.lookups.clear()

    def found(self) -> None:
        """Deliver an answer to OffsetFetch, ListOffsets or OffsetForLeaderEpoch."""
        if not self.lookups:
            return
        state, incarnation = self.lookups.pop(0)
        if state.incarnation != incarnation or not self.world.positions.owns(state):
            return
        if self.rng.random() < 0.1:
            state.back_off(self.world.now, self.epoch, self.world.retry)
        elif state.state is FetchState.VALIDATING:
            end_offset = self.rng.choice([-1, max(0, state.fetch_offset - 1), state.fetch_offset])
            self.world.answers.epoch_ended(state, end_offset, 3, self.epoch)
        elif self.rng.random() < 0.3:
            state.reset(LATEST)
        else:
            state.move(self.rng.randint(0, 9), 3)

    def answer(self) -> None:
        if not self.fetches:
            return
        planned = self.fetches.pop(0)
        if self.rng.random() < 0.1:
            self.world.planner.failed(planned)
            return
        asked = planned.asked.get(T0)
        error = self.rng.choice([0, 0, 0, 0, OffsetOutOfRangeError.code, NotLeaderOrFollowerError.code])
        if asked is not None and asked.fetch_offset == BEYOND_ANY_LOG:
            error = OffsetOutOfRangeError.code
        rows = [] if asked is None else [data(0, None if error else batch(asked.fetch_offset), error=error)]
        self.world.answer(planned, response(*rows, topic_id=UUID(int=self.topic)))

    def read(self) -> None:
        if self.state.error is None:
            self.world.read(1)

    def evict(self) -> None:
        self.world.prefetch.evict(())

    def elect(self) -> None:
        self.epoch += 1
        self.learn()

    def replace(self) -> None:
        self.topic += 1
        self.learn()

    def learn(self) -> None:
        self.world.learn(fetch_world.snapshot([(self.rng.randint(1, 3), self.epoch)], topic_id=UUID(int=self.topic)))

    def seek(self) -> None:
        self.world.prefetch.drop(self.state)
        self.state.move(self.rng.randint(0, 9), self.rng.choice([-1, 3]))

    def seek_by(self) -> None:
        self.world.prefetch.drop(self.state)
        self.state.reset(EARLIEST)

    def go_back(self) -> None:
        """Go back to the committed offset."""
        self.world.prefetch.drop(self.state)
        self.state.go_back()

    def assign(self) -> None:
        """Revoke the partition and assign it again."""
        self.world.prefetch.drop(self.state)
        self.world.positions.assign([])
        self.world.positions.assign([T0])


WALKERS: dict[str, Callable[[random.Random], MemberWalk | PartitionWalk]] = {
    "classic": ClassicWalk,
    "consumer protocol": ConsumerProtocolWalk,
    "partition": PartitionWalk,
}


@of_each_table
def test_a_walk_takes_each_transition_and_none_beside_the_table(name: str) -> None:
    with taken(TABLES[name]) as found:
        for seed in range(WALKS):
            WALKERS[name](random.Random(seed)).walk()
    assert found == pairs(TABLES[name])


@of_each_table
def test_each_state_can_be_reached_from_the_first_and_left(name: str) -> None:
    transitions = TABLES[name]
    reached, new = set(), {transitions.first}
    while new:
        reached |= new
        new = {after for state in new for after in transitions.table[state].values()} - reached
    assert reached == set(transitions.table) == everything_like(transitions.first)
    for state, after in transitions.table.items():
        assert set(after.values()) - {state}, state


@of_each_table
def test_each_event_has_a_place(name: str) -> None:
    events = {event for _, event in pairs(TABLES[name])}
    assert events == everything_like(min(events, key=str))


def test_what_cannot_come_is_an_error_at_once() -> None:
    world = fetch_world.World(T0)
    world.state().reset(EARLIEST)
    expected = "a fetched partition in the state RESETTING cannot take CONFIRM"
    with pytest.raises(IllegalTransitionError, match=expected) as caught:
        world.state().validated(3)
    assert not isinstance(caught.value, KafkaError), "nothing that the client would retry"
    assert world.state().state is FetchState.RESETTING

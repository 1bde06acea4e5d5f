"""Records that `Consumer.run` hands out, their order, and the offsets it reports as done."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._core.consumer.positions import Positions
from aiokafka_lead._core.run.options import RunConfig
from aiokafka_lead._core.run.order import lanes_for
from aiokafka_lead._core.run.work import HandlerSlot, PartitionWork, Work
from aiokafka_lead._records import ConsumerRecord
from aiokafka_lead.config.run import Order
from aiokafka_lead.types import TimestampType, TopicPartition

Record = ConsumerRecord[Any, Any]
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SLOTS = 4


def record(tp: TopicPartition, offset: int, key: bytes | None, size: int = 0) -> Record:
    return ConsumerRecord(*tp, offset, 0, TimestampType.CREATE_TIME, key, b"v" * size, (), offset // 10)


class World:
    """The work of a run, together with the true state."""

    def __init__(self, order: Order, **options: Any) -> None:
        self.positions = Positions()
        self.positions.assign([T0, T1])
        self.order = order
        self.calm = 0
        self.rooms = 0
        given: Any = {"order": order, **options}
        self.work = Work(RunConfig.from_options(given), self.positions, self._on_room, self._on_calm, lambda: 0.0)
        self.slots = [HandlerSlot() for _ in range(SLOTS)]
        self.ends = {T0: 0, T1: 0}
        self.open: dict[TopicPartition, dict[int, Record]] = {T0: {}, T1: {}}
        self.resting: list[tuple[PartitionWork, Record]] = []
        self.finished: list[Record] = []

    def _on_room(self) -> None:
        self.rooms += 1

    def _on_calm(self) -> None:
        self.calm += 1

    def lane(self, each: Record) -> object:
        if self.order == "partition":
            return each.partition
        if self.order == "none" or each.key is None:
            return (each.partition, each.offset, "alone")
        return (each.partition, each.key)

    def add(self, tp: TopicPartition, keys: list[bytes | None], size: int = 0) -> None:
        first = self.ends[tp] + 1  # offsets have gaps
        records = [record(tp, first + index, key, size) for index, key in enumerate(keys)]
        self.ends[tp] = first + len(keys)
        self.open[tp].update((each.offset, each) for each in records)
        self.work.add(self.positions.require(tp), records, Position(self.ends[tp], 7))

    def busy(self) -> list[Record]:
        return [slot.record for slot in self.slots if slot.partition is not None and slot.record is not None]

    def take(self, slot: HandlerSlot) -> None:
        held_up = {self.lane(each) for each in [*self.busy(), *(each for _, each in self.resting)]}
        given = self.work.take(slot)
        if given is None:
            waiting = [each for found in self.open.values() for each in found.values()]
            assert all(self.lane(each) in held_up for each in waiting)
            return
        lane = self.lane(given)
        assert slot.record is given
        assert lane not in held_up
        found = self.open[TopicPartition(given.topic, given.partition)]
        assert next(each for each in found.values() if self.lane(each) == lane) is given

    def finish(self, slot: HandlerSlot) -> None:
        done = slot.record
        assert done is not None
        self.work.finished(slot)
        del self.open[TopicPartition(done.topic, done.partition)][done.offset]
        self.finished.append(done)

    def fail(self, slot: HandlerSlot) -> None:
        partition, failed = slot.partition, slot.record
        assert partition is not None
        assert failed is not None
        self.work.given_up(slot)
        self.resting.append((partition, failed))

    def check(self) -> None:
        assert self.work.in_hand == sum(map(len, self.open.values()))
        for partition, position in self.work.done():
            tp = partition.state.tp
            first = next(iter(self.open[tp]), None)
            assert position.offset == (self.ends[tp] if first is None else first)


KEYS = st.lists(st.sampled_from([None, b"a", b"b", b"c"]), min_size=1, max_size=12)
EVENT = st.one_of(
    st.tuples(st.just("add"), st.sampled_from([T0, T1]), KEYS),
    st.tuples(st.just("work"), st.integers(0, SLOTS - 1), st.sampled_from(["wait", "finish", "fail"])),
    st.tuples(st.just("work"), st.integers(0, SLOTS - 1), st.just("finish")),
    st.tuples(st.just("again"), st.none(), st.none()),
    st.tuples(st.just("check"), st.none(), st.none()),
)


@pytest.mark.parametrize("order", ["key", "partition", "none"])
@given(events=st.lists(EVENT, max_size=80))
def test_any_course_of_things(order: Order, events: list[tuple[str, Any, Any]]) -> None:
    world = World(order)
    for kind, which, what in events:
        if kind == "add":
            world.add(which, what)
        elif kind == "again" and world.resting:
            world.work.again(*world.resting.pop(0))
        elif kind == "check":
            world.check()
        elif kind == "work":
            slot = world.slots[which]
            if slot.partition is None:
                world.take(slot)
            if slot.partition is not None and what != "wait":
                (world.finish if what == "finish" else world.fail)(slot)
    for slot in world.slots:
        if slot.partition is not None:
            world.finish(slot)
    for resting in world.resting:
        world.work.again(*resting)
    world.resting.clear()
    while any(world.open.values()):
        world.take(world.slots[0])
        world.finish(world.slots[0])
    world.check()
    assert world.work.in_hand == 0


def test_partitions_take_turns_record_by_record_while_handlers_wait() -> None:
    world = World("none")
    world.add(T0, [None] * 20)
    world.add(T1, [None] * 20)
    for slot in world.slots:
        world.take(slot)
    assert [each.partition for each in world.busy()] == [0, 1, 0, 1]


def test_no_partition_waits_long_for_its_turn() -> None:
    world = World("key")
    world.add(T0, [b"a"] * 50)
    world.add(T1, [b"a"] * 50)
    while len(world.finished) < 50:
        world.take(world.slots[0])
        world.finish(world.slots[0])
    assert 20 < sum(each.partition for each in world.finished) < 30


def test_what_weighs_more_takes_more_room() -> None:
    world = World("key", max_in_hand=10, max_in_hand_bytes=100)
    world.add(T0, [b"a", b"a", None], size=25)
    assert world.work.in_hand == 9
    world.take(world.slots[0])
    world.take(world.slots[1])
    world.finish(world.slots[1])
    assert world.work.in_hand == 6
    world.finish(world.slots[0])
    assert world.work.in_hand == 3


@pytest.mark.parametrize("held", [False, True])
def test_a_partition_that_is_gone_takes_no_room(held: bool) -> None:
    """This holds whether or not its handler is still at work."""
    world = World("key", max_in_hand=10, max_in_hand_bytes=100)
    world.add(T0, [b"a", b"b", b"a"], size=15)
    world.take(world.slots[0])
    if held:
        world.take(world.slots[1])
    partition = world.work.get(T0)
    assert partition is not None
    world.work.drop(partition)
    assert world.work.in_hand == 0
    assert world.work.get(T0) is None
    assert world.work.take(world.slots[2]) is None
    assert world.calm == 0
    world.work.finished(world.slots[0])
    if held:
        world.work.given_up(world.slots[1])
    assert world.calm == 1
    assert world.work.in_hand == 0


def test_a_closed_partition_keeps_what_is_not_done() -> None:
    world = World("key")
    world.add(T0, [b"a", b"b", b"c"])
    for slot in world.slots[:2]:
        world.take(slot)
    partition = world.work.get(T0)
    assert partition is not None
    world.work.close(partition)
    assert world.work.take(world.slots[2]) is None
    world.finish(world.slots[0])
    assert [position for _, position in world.work.done()] == [Position(2, 0)]
    world.finish(world.slots[1])
    assert world.calm == 1
    assert [position for _, position in world.work.done()] == [Position(3, 0)]


def test_a_partition_that_is_wound_up_hands_out_what_comes_before_records_that_were_begun() -> None:
    """Offsets 1 to 7: "b" is at 5 when "a" is still at 1, so that 2 and 4 are gaps; 6 and 7 were not reached."""
    world = World("key")
    world.add(T0, [b"a", b"a", b"b", b"a", b"b", b"a", b"c"])
    one, two, three, _ = world.slots
    for slot in (one, two):
        world.take(slot)
    world.finish(two)
    world.take(two)
    assert [slot.record.offset for slot in (one, two) if slot.record] == [1, 5]
    partition = world.work.get(T0)
    assert partition is not None
    world.work.wind_up(partition)
    assert T0 not in world.work
    assert world.work.take(three) is None
    world.finish(two)
    for expected in (1, 2, 4):
        assert one.record is not None
        assert one.record.offset == expected
        assert [position.offset for _, position in world.work.done()] == [expected]
        assert world.calm == 0
        world.work.finished(one)
        taken = world.work.take(one)
        assert (taken is None) == (expected == 4)
    assert world.calm == 1
    assert [position for _, position in world.work.done()] == [Position(6, 0)]
    assert world.work.in_hand == 0


@pytest.mark.parametrize("order", ["key", "none", "partition"])
def test_nothing_is_handed_out_of_a_partition_that_is_wound_up_without_a_gap(order: Order) -> None:
    world = World(order)
    world.add(T0, [b"a"] * 20)
    world.take(world.slots[0])
    partition = world.work.get(T0)
    assert partition is not None
    world.work.wind_up(partition)
    world.work.finished(world.slots[0])
    assert world.work.take(world.slots[0]) is None
    assert world.calm == 1
    assert world.work.in_hand == 0
    assert [position for _, position in world.work.done()] == [Position(2, 0)]


def test_what_waits_to_be_handled_again_is_not_waited_for_in_a_partition_that_is_wound_up() -> None:
    world = World("key")
    world.add(T0, [b"a", b"a", b"b"])
    for slot in world.slots[:2]:
        world.take(slot)
    partition = world.work.get(T0)
    assert partition is not None
    world.work.wind_up(partition)
    failed = world.slots[0].record
    assert failed is not None
    world.work.given_up(world.slots[0])
    world.work.again(partition, failed)
    world.work.finished(world.slots[1])
    assert world.work.take(world.slots[0]) is None
    assert world.calm == 1
    assert [position for _, position in world.work.done()] == [Position(1, -1)]


def test_a_partition_is_wound_up_across_offsets_that_no_record_has() -> None:
    world = World("key")
    world.add(T0, [b"a", b"a", b"b", b"a"])
    for slot in world.slots:
        world.take(slot)
    for _ in range(2):
        world.add(T0, [b"a", b"a"])
        world.take(world.slots[2])
    partition = world.work.get(T0)
    assert partition is not None
    world.work.wind_up(partition)
    for slot in world.slots[:2]:
        world.work.finished(slot)
    assert [record.offset for slot in world.slots if (record := world.work.take(slot))] == [2]
    world.work.finished(world.slots[0])
    assert not any(world.work.take(slot) for slot in world.slots)
    assert world.work.in_hand == 0
    assert [position for _, position in world.work.done()] == [Position(4, 0)]


@pytest.mark.parametrize("failed_before", [False, True])
def test_nothing_is_handed_out_behind_a_failure_in_a_partition_that_is_wound_up(failed_before: bool) -> None:
    world = World("key")
    world.add(T0, [b"a", b"b", b"b", b"a", b"c"])
    for slot in world.slots[:3]:
        world.take(slot)
    failing, *others = world.slots[:3]
    partition = world.work.get(T0)
    assert partition is not None
    partition.attempts[1] = 1
    if failed_before:
        world.work.given_up(failing)
        world.work.wind_up(partition)
    else:
        world.work.wind_up(partition)
        world.work.given_up(failing)
    for slot in others:
        assert world.calm == 0
        world.work.finished(slot)
        assert world.work.take(slot) is None
    assert world.calm == 1
    assert [position for _, position in world.work.done()] == [Position(1, -1)]


def test_a_position_has_the_epoch_of_the_record_before_it() -> None:
    world = World("none")
    world.add(T0, [None] * 25)
    epochs: list[int] = []
    for _ in range(25):
        world.take(world.slots[0])
        [(_, position)] = world.work.done()
        epochs.append(position.leader_epoch)
        world.finish(world.slots[0])
    assert epochs[1:] == [(offset - 1) // 10 for offset in range(2, 26)]
    [(_, position)] = world.work.done()
    assert position == Position(26, 7)


@pytest.mark.parametrize("order", ["none", "key", "partition"])
def test_a_record_that_was_given_up_while_it_was_handled_weighs_nothing_at_its_end(order: Order) -> None:
    lanes = lanes_for(order)
    lanes.add([record(T0, 0, b"k"), record(T0, 1, b"other")], [3, 1])
    held = lanes.next()
    assert held is not None
    lanes.hold(held)
    assert lanes.give_up() == 4
    assert lanes.finished(held) == 0


def test_partitions_of_retry_topics_diminish_no_share() -> None:
    """A record being sent to a retry topic blocks its partition after a share's worth of later records."""
    positions = Positions()
    positions.assign(
        [T0, T1, *(TopicPartition(f"t.g.retry.{level}s", number) for level in range(3) for number in (0, 1))]
    )
    retry_topics = {f"t.g.retry.{level}s" for level in range(3)}
    config = RunConfig.from_options({"max_in_hand": 1000, "concurrency": 1})
    work = Work(config, positions, lambda: None, lambda: None, lambda: 0.0, None, retry_topics)
    state = positions.require(T0)
    work.add(state, [record(T0, offset, None) for offset in range(240)], Position(240))
    slot = work.slot()
    assert work.take(slot) is not None
    assert T0 in work
    work.add(state, [record(T0, offset, None) for offset in range(240, 250)], Position(250))
    assert T0 not in work

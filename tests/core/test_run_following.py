"""`retry_order="key"`: in any course of failures and lost members, no record is handled before an earlier one."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from aiokafka_lead._core.consumer.partition_state import PartitionState
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._core.run.following import Following
from aiokafka_lead._core.run.later import RetryTopics
from aiokafka_lead._core.run.options import delays
from aiokafka_lead._records import ConsumerRecord
from aiokafka_lead.types import TimestampType, TopicPartition

Record = ConsumerRecord[Any, Any]

RECORDS = 150
KEYS = 6


def state_of(tp: TopicPartition) -> PartitionState:
    return PartitionState(tp, lambda state: None, lambda: None)


def retry_topics() -> RetryTopics:
    topics = RetryTopics("g", delays("retry_topics", ["1s", "1m", "10m"]))
    topics.add(["t"])
    return topics


class Logs:
    """One partition of a topic and of its retry topics, on a broker."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.topics = retry_topics()
        self.names = ["t", *self.topics.names["t"]]
        self.logs: dict[str, list[Record]] = {name: [] for name in self.names}
        self.committed: dict[str, int] = dict.fromkeys(self.names, 0)
        self.done: dict[bytes, set[int]] = defaultdict(set)
        """Numbers of the records that have been handled, or became dead letters, by key."""
        counts: dict[bytes, int] = defaultdict(int)
        for _ in range(RECORDS):
            key = b"%d" % self.random.randrange(KEYS)
            self.append("t", key, counts[key])
            counts[key] += 1
        self.counts = counts

    def append(self, topic: str, key: bytes, number: int, original: int = -1) -> int:
        log = self.logs[topic]
        place = (("retry.offset", b"%d" % original), ("retry.timestamp_ms", b"0"))
        headers = place if original >= 0 else ()
        log.append(ConsumerRecord(topic, 0, len(log), 0, TimestampType.CREATE_TIME, key, number, headers, None))
        return len(log) - 1


class Member:
    """Member that takes, handles and moves records, one step at a time and in any order that lanes of keys allow."""

    def __init__(self, world: Logs) -> None:
        self.world = world
        self.following = Following(world.topics)
        self.scans = self.following.assigned(state_of(TopicPartition(name, 0)) for name in world.names)
        self.position = dict(world.committed)
        self.in_hand: dict[str, dict[int, Record]] = {name: {} for name in world.names}
        self.moving: dict[tuple[str, bytes], tuple[Record, tuple[str, int] | None]] = {}
        """Records being handled or moved, by lane, with the place of the letter once it is written."""
        self.behind: dict[tuple[str, bytes], str | None] = {}
        """Topic to which a record follows an earlier record, by lane."""
        self._scan()

    def _scan(self) -> None:
        for name in self.world.names[1:]:
            tp = TopicPartition(name, 0)
            assert not self.following.is_open(TopicPartition("t", 0))
            log, start = self.world.logs[name], self.world.committed[name]
            self.scans[tp].ends_at(len(log))
            self.following.starts_at(tp, Position(start))
            assert self.following.reads(tp)
            self.following.found(log[start:])
            assert self.following.scanned(tp, Position(len(log))) == Position(start)
        assert self.following.is_open(TopicPartition("t", 0))

    def step(self) -> None:
        chance = self.world.random
        name = chance.choice(self.world.names)
        act = chance.randrange(4)
        if act == 0:
            self._take(name)
        elif act == 1:
            self._begin(name)
        elif act == 2 and self.moving:
            self._go_on(*chance.choice(list(self.moving)))
        elif act == 3:
            self.world.committed[name] = min(self.in_hand[name], default=self.position[name])

    def _take(self, name: str) -> None:
        start = self.position[name]
        records = self.world.logs[name][start : start + self.world.random.randrange(1, 5)]
        if records:
            self.following.taken(records)
            self.in_hand[name].update((record.offset, record) for record in records)
            self.position[name] = records[-1].offset + 1

    def _begin(self, name: str) -> None:
        """Begin with the first record of a lane, as `KeyLanes` does."""
        waiting = self.in_hand[name].values()
        keys = {record.key for record in waiting if (name, record.key) not in self.moving}
        if not keys:
            return
        key = self.world.random.choice(sorted(keys))
        record = next(each for each in waiting if each.key == key)
        if self.following.is_copy(record):
            self.following.finished(record)
            del self.in_hand[name][record.offset]
            return
        self.behind[name, key] = self.following.ahead_of(record)
        if self.behind[name, key] is None:
            done = self.world.done[key]
            assert done.issuperset(range(record.value)), f"{key!r} {record.value} came before an earlier one"
        self.moving[name, key] = (record, None)

    def _go_on(self, name: str, key: bytes) -> None:
        record, written = self.moving[name, key]
        chance = self.world.random
        ahead = self.behind[name, key]
        if written is not None:
            self.following.written(record, *written)
        elif ahead is not None or chance.random() < 0.3:
            topic = ahead or chance.choice(self.world.names[1:])
            offset = self.world.append(topic, key, record.value, self.world.topics.offset(record))
            self.moving[name, key] = (record, (topic, offset))  # its acknowledgement may come after it was taken there
            return
        else:
            self.world.done[key].add(record.value)
        self.following.finished(record)
        del self.in_hand[name][record.offset]
        del self.moving[name, key]

    @property
    def idle(self) -> bool:
        ends = {name: len(log) for name, log in self.world.logs.items()}
        return self.position == ends and not any(self.in_hand.values())


@pytest.mark.parametrize("seed", range(40))
def test_no_record_is_handled_before_an_earlier_one_of_its_key(seed: int) -> None:
    world = Logs(seed)
    member = Member(world)
    lost = world.random.randrange(4)
    for _ in range(200_000):
        member.step()
        if lost and world.random.random() < 0.002:
            lost -= 1
            member = Member(world)
        if member.idle:
            break
    assert member.idle
    assert {key: set(range(count)) for key, count in world.counts.items()} == world.done
    for key in world.counts:
        last = ConsumerRecord("t", 0, RECORDS, 0, TimestampType.CREATE_TIME, key, 0, (), None)
        assert member.following.ahead_of(last) is None


def test_the_first_of_a_key_is_waited_for_wherever_it_is() -> None:
    world = Logs(0)
    member = Member(world)
    following = member.following
    key = world.logs["t"][0].key
    first, second, third = [record for record in world.logs["t"] if record.key == key][:3]
    short, _, long = world.names[1:]
    following.written(first, long, 0)
    following.written(second, short, 0)
    assert following.ahead_of(first) is None
    assert following.is_copy(first)
    assert following.ahead_of(second) == following.ahead_of(third) == long
    world.append(long, key, 0, first.offset)
    following.taken(world.logs[long])
    assert not following.is_copy(world.logs[long][0])
    following.finished(world.logs[long][0])
    assert following.ahead_of(third) == short
    assert following.ahead_of(ConsumerRecord("t", 0, 99, 0, TimestampType.CREATE_TIME, None, 0, (), None)) is None


def test_a_waiting_record_that_was_deleted_is_not_followed_forever() -> None:
    world = Logs(0)
    following = Member(world).following
    key = world.logs["t"][0].key
    first, second = [record for record in world.logs["t"] if record.key == key][:2]
    short = world.names[1]
    following.written(first, short, 0)
    assert following.ahead_of(second) == short
    world.append(short, key, 0, first.offset)
    world.append(short, key, 1, second.offset)
    following.written(second, short, 1)
    follower = world.logs[short][1]
    following.taken([follower])  # and not the first one
    assert following.ahead_of(follower) is None
    following.finished(follower)
    assert following.ahead_of(second) is None


def test_a_record_of_a_topic_that_was_created_again_is_no_copy_of_the_one_at_its_offset_before() -> None:
    following = Member(Logs(0)).following
    before, after = (
        ConsumerRecord("t", 0, 7, timestamp_ms, TimestampType.CREATE_TIME, b"k", b"", (), None)
        for timestamp_ms in (1_000, 2_000)
    )
    following.written(before, retry_topics().names["t"][0], 0)
    assert following.is_copy(before)
    assert not following.is_copy(after)


def test_notes_of_an_aborted_transaction_are_undone() -> None:
    world = Logs(0)
    following = Member(world).following
    key = world.logs["t"][0].key
    first, second = [record for record in world.logs["t"] if record.key == key][:2]
    short, long = world.names[1:3]
    undo = following.written(first, short, 0)
    assert following.ahead_of(second) == short
    assert undo is not None
    undo()
    assert following.ahead_of(second) is None
    assert following.written(first, short, 1) is not None
    world.append(short, key, 0)
    world.append(short, key, 0, first.offset)
    letter = world.logs[short][1]
    following.taken([letter])
    moved, gone = following.written(letter, long, 0), following.finished(letter)
    assert following.ahead_of(second) == long
    for undo in (moved, gone):
        assert undo is not None
        undo()
    assert following.ahead_of(second) == short
    assert following.finished(letter) is not None
    assert following.finished(letter) is None, "there is nothing to undo the second time"
    assert following.ahead_of(second) is None


def test_the_end_of_an_earlier_scan_does_not_end_the_present_one() -> None:
    """The partition was taken away and assigned again while the end of its retry partition was looked up."""
    world = Logs(0)
    following = Following(world.topics)
    retry = [TopicPartition(name, 0) for name in world.names[1:]]
    scans: list[dict[TopicPartition, Any]] = []
    for _ in range(2):
        scans.append(following.assigned(state_of(TopicPartition(name, 0)) for name in world.names))
        for tp in retry:
            following.starts_at(tp, Position(3))
    earlier, present = scans
    for tp in retry:
        earlier[tp].ends_at(5)
        assert following.scanned(tp, Position(9)) is None
        present[tp].ends_at(9)
        assert following.starts()[tp] == Position(3)
        assert following.scanned(tp, Position(9)) == Position(3)
    assert not following.starts()
    assert following.is_open(TopicPartition("t", 0))

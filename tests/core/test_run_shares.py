"""Shares of the handlers: retries and slow keys neither block other records nor starve. On virtual time."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from itertools import count
from typing import Any

import pytest

from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._core.consumer.positions import Positions
from aiokafka_lead._core.run.options import RunConfig
from aiokafka_lead._core.run.work import HandlerSlot, PartitionWork, Work
from aiokafka_lead._records import ConsumerRecord
from aiokafka_lead.types import TimestampType, TopicPartition

Record = ConsumerRecord[Any, Any]

FRESH, RETRY = TopicPartition("t", 0), TopicPartition("t.g.retry.1s", 0)


class World:
    """A run whose handlers take virtual time."""

    def __init__(self, concurrency: int, **options: Any) -> None:
        self.now = 0.0
        positions = Positions()
        positions.assign([FRESH, RETRY])
        self.positions = positions
        self.concurrency = concurrency
        given: Any = {"concurrency": concurrency, "max_in_hand": 100_000, **options}
        self.work = Work(
            RunConfig.from_options(given),
            positions,
            lambda: None,
            lambda: None,
            lambda: self.now,
            retry_topics={RETRY.topic},
        )
        self.idle = [HandlerSlot() for _ in range(concurrency)]
        self.busy: list[tuple[float, int, HandlerSlot]] = []
        self.resting: list[tuple[float, int, PartitionWork, Record]] = []
        self.ends = {FRESH: 0, RETRY: 0}
        self.busy_s: Counter[str] = Counter()
        """Handler seconds by topic and by key."""
        self.waited_s: dict[tuple[str, int], float] = {}
        """Time at which handling began, by topic and offset."""
        self.begun: list[tuple[str, bytes | None, int]] = []
        self._sequence = count()

    def add(self, tp: TopicPartition, keys: list[bytes | None]) -> None:
        start = self.ends[tp]
        records: list[Record] = [
            ConsumerRecord(*tp, start + index, 0, TimestampType.CREATE_TIME, key, b"", (), None)
            for index, key in enumerate(keys)
        ]
        self.ends[tp] = start + len(keys)
        self.work.add(self.positions.require(tp), records, Position(self.ends[tp]))

    def run(self, until: float, seconds: Any, fails: Any = lambda record: False) -> None:
        """Handle records until this time; ``seconds`` returns the time that a record takes."""
        while True:
            while self.idle and (record := self.work.take(self.idle[-1])) is not None:
                slot = self.idle.pop()
                self.waited_s.setdefault((record.topic, record.offset), self.now)
                self.begun.append((record.topic, record.key, record.offset))
                took = seconds(record)
                self.busy_s[record.topic] += took
                self.busy_s[str(record.key)] += took
                heapq.heappush(self.busy, (self.now + took, next(self._sequence), slot))
            nexts = [queue[0][0] for queue in (self.busy, self.resting) if queue]
            if not nexts or min(nexts) > until:
                return
            self.now = min(nexts)
            if self.resting and self.resting[0][0] <= self.now:
                *_, partition, record = heapq.heappop(self.resting)
                self.work.again(partition, record)
                continue
            *_, slot = heapq.heappop(self.busy)
            home, done = slot.partition, slot.record
            assert home is not None
            assert done is not None
            if fails(done):
                self.work.given_up(slot)
                heapq.heappush(self.resting, (self.now + 0.1, next(self._sequence), home, done))
            else:
                self.work.finished(slot)
            self.idle.append(slot)


def keys(count: int, names: int, prefix: bytes = b"k") -> list[bytes | None]:
    return [prefix + b"%d" % (number % names) for number in range(count)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [0.3, 0.5])
def test_both_kinds_have_their_shares_while_both_wait(seed: int, share: float) -> None:
    chance = random.Random(seed)
    world = World(10, retry_share=share)
    world.add(FRESH, [None] * 20_000)
    world.add(RETRY, [None] * 20_000)
    world.run(10.0, lambda record: chance.expovariate(100))
    of_retries = world.busy_s[RETRY.topic] / sum(world.busy_s[tp.topic] for tp in (FRESH, RETRY))
    assert of_retries == pytest.approx(share, abs=0.03)
    assert sum(world.busy_s[tp.topic] for tp in (FRESH, RETRY)) == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize("tp", [FRESH, RETRY])
@pytest.mark.parametrize("concurrency", [1, 2, 10])
def test_one_kind_alone_has_all_handlers(tp: TopicPartition, concurrency: int) -> None:
    world = World(concurrency)
    world.add(tp, [None] * (10 * concurrency))
    world.run(10.0, lambda record: 1.0)
    assert world.now == 10.0
    assert len(world.waited_s) == 10 * concurrency
    assert not world.busy


def test_slow_retries_leave_most_handlers_to_fresh_records() -> None:
    world = World(10)
    world.add(FRESH, [None] * 8_000)
    world.add(RETRY, [None] * 1_000)
    world.run(100.0, lambda record: 60.0 if record.topic == RETRY.topic else 0.1)
    begun = Counter(topic for topic, _ in world.waited_s)
    assert begun[FRESH.topic] == pytest.approx(7 * 1_000, abs=20)
    assert begun[RETRY.topic] == 3 * 2


def test_fresh_records_leave_handlers_to_retries() -> None:
    world = World(2)
    world.add(FRESH, [None] * 1_000)
    world.run(1.0, lambda record: 0.1)
    world.add(RETRY, [None])
    world.run(2.0, lambda record: 0.1)
    assert world.waited_s[RETRY.topic, 0] <= 1.2


@pytest.mark.parametrize(("share", "of_retries"), [(0.0, 10), (0.3, 30), (1.0, 90)])
def test_a_single_handler_takes_both_kinds_in_turn(share: float, of_retries: int) -> None:
    """Neither kind starves, whatever the share."""
    world = World(1, retry_share=share)
    world.add(FRESH, [None] * 1_000)
    world.add(RETRY, [None] * 1_000)
    world.run(10.0, lambda record: 0.1)
    begun = Counter(topic for topic, _ in world.waited_s)
    assert begun[RETRY.topic] == pytest.approx(of_retries, abs=2)


def test_records_that_are_handled_again_in_place_have_the_share_of_retries() -> None:
    world = World(10)
    world.add(FRESH, [None] * 20_000)
    world.run(30.0, lambda record: 1.0 if record.offset < 100 else 0.1, lambda record: record.offset < 100)
    healthy = [at for (_, offset), at in world.waited_s.items() if offset >= 100]
    # The first attempts at the hundred that always fail end in the 15th second. They have 3 handlers from then on.
    assert len(healthy) > 7 * 10 * 15


def test_a_slow_key_holds_up_no_other() -> None:
    """Four keys with a backlog of a hundred seconds each would have all four handlers."""
    world = World(4)
    world.add(FRESH, keys(400, 4, b"slow"))
    world.add(FRESH, keys(400, 100))
    world.run(1_000.0, lambda record: 1.0 if record.key.startswith(b"slow") else 0.05)
    light = [at for (_, offset), at in world.waited_s.items() if offset >= 400]
    assert len(light) == 400
    assert max(light) < 15  # 20 seconds of work, by three handlers of four from the third second on
    assert len(world.waited_s) == 800


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_and_keys_keep_their_order(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance.choice([1, 2, 5, 20]), retry_share=chance.random())
    names = [None, *(b"%d" % number for number in range(8))]

    def took(record: Record) -> float:
        return chance.expovariate(2)

    def fails(record: Record) -> bool:
        return chance.random() < 0.1

    for _ in range(20):
        world.add(chance.choice([FRESH, RETRY]), chance.choices(names, k=chance.randrange(1, 50)))
        world.run(world.now + chance.random(), took, fails)
    world.run(float("inf"), took, fails)
    assert len(world.waited_s) == sum(world.ends.values())
    assert world.work.in_hand == 0
    assert all(position.offset == world.ends[part.state.tp] for part, position in world.work.done())
    for tp in (FRESH, RETRY):
        by_key: dict[bytes, list[int]] = {}
        for topic, key, offset in world.begun:
            if topic == tp.topic and key is not None:
                by_key.setdefault(key, []).append(offset)
        assert all(offsets == sorted(offsets) for offsets in by_key.values())

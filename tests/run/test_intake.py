"""`retry_order="key"` while partitions are assigned again: what waits in retry partitions is known before."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from aiokafka_lead._core.consumer.deserializers import Deserializers
from aiokafka_lead._core.consumer.fetched import FetchedData
from aiokafka_lead._core.consumer.in_hand import PollInterval
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._core.consumer.reading import Reading
from aiokafka_lead._core.run.following import Following, Scan
from aiokafka_lead._core.run.later import RetryTopics
from aiokafka_lead._core.run.options import RunConfig, delays
from aiokafka_lead._core.run.work import Work
from aiokafka_lead._io.consumer.reader import Reader
from aiokafka_lead._io.loop import Signal
from aiokafka_lead._io.run.handling import Intake
from aiokafka_lead._records import ConsumerRecord, StoredRecord, build_batch
from aiokafka_lead.types import TimestampType, TopicPartition

pytestmark = pytest.mark.anyio

EVENTS, RETRY = TopicPartition("events", 0), TopicPartition("events.g.retry.1h", 0)
FIRST: ConsumerRecord[Any, Any] = ConsumerRecord("events", 0, 0, 1000, TimestampType.CREATE_TIME, b"a", b"a1", (), None)


def nothing() -> None:
    """Ignore the event."""


class Desk:
    """An intake, and the buffer from which it takes."""

    def __init__(self, *, in_order: bool = True) -> None:
        delay = delays("retry_topics", ["1h"])
        topics = self.topics = RetryTopics("g", delay)
        topics.add(["events"])
        letter = topics.letter(FIRST, LookupError(), 1, delay[0], time.time())
        self.waiting = StoredRecord(int(time.time() * 1000), key=b"a", value=b"a1", headers=tuple(letter.headers))
        """The first record, as it waits in the retry topic."""
        self.wake = wake = Signal()
        self.reading = Reading(
            Deserializers(),
            read_committed=False,
            on_touch=nothing,
            on_news=wake.set,
            on_release=nothing,
            max_decompressed_bytes=1_000_000,
        )
        self.reading.accompany(topics.names)
        reader: Reader[Any, Any] = Reader(
            self.reading.prefetch,
            wake=wake,
            check=nothing,
            watch=lambda now: None,
            demand=lambda wanted: None,
            poll=PollInterval(300, time.monotonic()),
        )
        self.following = Following(topics)
        self.scans: list[dict[TopicPartition, Scan]] = []
        self.intake = Intake(self.reading, reader, topics, self.following if in_order else None, self.scans.append)
        self.work = Work(
            RunConfig.from_options({}), self.reading.positions, nothing, nothing, time.monotonic, retry_topics=topics
        )
        self.assign()

    def assign(self, offset: int = 0) -> None:
        """Take both partitions away, and assign them again, with this position."""
        self.reading.assign([])
        self.reading.assign([EVENTS])
        for tp in (EVENTS, RETRY):
            self.reading.positions.require(tp).move(offset)

    def hold(self, tp: TopicPartition, *stored: StoredRecord, offset: int = 0) -> None:
        """Put records into the buffer as if they had been fetched."""
        state = self.reading.positions.require(tp)
        records = memoryview(build_batch(stored, base_offset=offset))
        self.reading.prefetch.add(
            state,
            FetchedData(
                state, records, None, check_crcs=True, max_decompressed_batch_bytes=1_000_000, joined_records=100
            ),
        )

    def position(self, tp: TopicPartition) -> Position | None:
        return self.reading.positions.require(tp).position

    async def take(self, most_ms: float = 0, room: int = 10) -> int:
        return await self.intake.take(self.work, most_ms, room)


async def test_a_partition_that_is_assigned_again_during_a_read_is_scanned_first() -> None:
    desk = Desk()
    await desk.take()
    desk.scans[0][RETRY].ends_at(0)
    await desk.take()
    assert desk.following.is_open(EVENTS)
    taken: list[int] = []

    async def take() -> None:
        taken.append(await desk.take(60_000))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            desk.assign()
            desk.hold(RETRY, desk.waiting)
            desk.hold(EVENTS, StoredRecord(1000, key=b"a", value=b"a2"), offset=1)
            await anyio.wait_all_tasks_blocked()
            assert not taken
            desk.scans[1][RETRY].ends_at(1)
            desk.wake.set()
    assert taken == [1]
    assert desk.position(RETRY) == Position(0)
    record = desk.work.take(desk.work.slot())
    assert record is not None
    assert record.value == b"a2"
    assert desk.following.ahead_of(record) == RETRY.topic


async def test_the_end_of_a_scan_does_not_move_a_partition_that_is_assigned_again() -> None:
    desk = Desk()
    await desk.take()
    desk.scans[0][RETRY].ends_at(1)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.take, 60_000)
            await anyio.wait_all_tasks_blocked()
            desk.assign(1)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert desk.position(RETRY) == Position(1)


async def test_a_run_that_ends_during_a_scan_leaves_what_it_has_read_unhandled() -> None:
    desk = Desk()
    await desk.take()
    desk.hold(RETRY, desk.waiting)
    assert await desk.take() == 0
    assert desk.position(RETRY) != Position(0)
    desk.intake.end()
    assert desk.position(RETRY) == Position(0)


async def test_records_that_are_not_due_stay_in_the_buffer() -> None:
    """They are neither fetched nor decoded again while they wait."""
    desk = Desk(in_order=False)
    follower = desk.topics.follower(FIRST, RETRY.topic)
    desk.hold(RETRY, StoredRecord(1, key=b"a", value=b"a0", headers=tuple(follower.headers)), desk.waiting)
    assert await desk.take() == 1
    chunk = desk.reading.positions.require(RETRY).chunk
    assert chunk is not None
    for _ in range(3):
        assert await desk.take() == 0
    assert desk.reading.positions.require(RETRY).chunk is chunk
    assert desk.position(RETRY) == Position(1, -1)
    assert [record.value for record in chunk.ahead()] == [b"a1"]


async def test_a_record_that_is_not_due_holds_up_none_before_it() -> None:
    """This holds for records without room, and for records that come again after an aborted transaction."""
    desk = Desk(in_order=False)
    headers = tuple(desk.topics.follower(FIRST, RETRY.topic).headers)
    waiting = [StoredRecord(1, key=b"a", value=b"%d" % number, headers=headers) for number in range(3)]
    desk.hold(RETRY, *waiting, desk.waiting)
    assert [await desk.take(room=1) for _ in range(4)] == [1, 1, 1, 0]
    desk.reading.move(desk.reading.positions.require(RETRY), Position(1))
    desk.hold(RETRY, *waiting[1:], desk.waiting, offset=1)
    assert await desk.take() == 2


async def test_positions_of_an_earlier_assignment_are_not_committed_for_the_present_one() -> None:
    desk = Desk()
    desk.work.add(desk.reading.positions.require(RETRY), [FIRST], Position(1))
    assert desk.intake.standing_still(desk.work)[RETRY].offset == 0
    desk.assign(5)
    assert desk.intake.standing_still(desk.work)[RETRY].offset == 5

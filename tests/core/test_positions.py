from __future__ import annotations

from uuid import UUID

import pytest

from aiokafka_lead._core.consumer.partition_state import BEYOND_ANY_LOG, FetchState
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._core.consumer.positions import Positions
from aiokafka_lead._core.consumer.reset_policy import EARLIEST, LATEST
from aiokafka_lead._core.leadership.patience import RetryPolicy
from aiokafka_lead._core.metadata.types import ClusterSnapshot, Moved
from aiokafka_lead.errors import (
    FetchOffsetOutOfRangeError,
    IllegalStateError,
    KafkaError,
    OffsetOutOfRangeError,
    UnknownTopicIdError,
)
from aiokafka_lead.types import TopicPartition

from .fetch_world import T0, T1, T2, World, batch, data, middle, response, snapshot

RETRY = RetryPolicy(100, 1000, middle)


def test_assigning_keeps_the_state_of_partitions_that_stay() -> None:
    positions = Positions()
    added, removed = positions.assign([T0, T1])
    assert [state.tp for state in added] == [T0, T1]
    assert removed == []
    kept = positions.require(T0)
    kept.move(5)
    gone = positions.require(T1)
    added, removed = positions.assign([T2, T0])
    assert positions.require(T0) is kept
    assert kept.position == Position(5)
    assert ([state.tp for state in added], removed) == ([T2], [gone])
    assert not positions.owns(gone)
    assert positions.assigned == {T0, T2}
    assert set(positions.by_topic["t"]) == set(positions)


def test_a_partition_that_is_not_assigned_is_refused_by_name() -> None:
    with pytest.raises(IllegalStateError, match="other-9"):
        Positions().require(TopicPartition("other", 9))


def test_touching_calls_once_until_looked_at() -> None:
    calls: list[int] = []
    positions = Positions(on_touch=lambda: calls.append(1))
    positions.assign([T0, T1])
    positions.require(T0).move(1)
    assert len(calls) == 1
    positions.touched.clear()
    positions.require(T0).touch()
    assert len(calls) == 2


def test_moves_and_errors_settle() -> None:
    calls: list[int] = []
    positions = Positions(on_settle=lambda: calls.append(1))
    positions.assign([T0])
    state = positions.require(T0)
    state.reset(LATEST)
    assert calls == []
    state.fail(KafkaError("no"))
    assert len(calls) == 1
    state.move(3)
    assert len(calls) == 2
    assert state.error is None


def test_each_way_to_another_position_voids_what_was_asked_before() -> None:
    positions = Positions()
    positions.assign([T0])
    state = positions.require(T0)
    seen = [state.incarnation]
    state.move(1)
    seen.append(state.incarnation)
    state.reset(LATEST)
    seen.append(state.incarnation)
    positions.assign([])
    seen.append(state.incarnation)
    assert seen == sorted(set(seen))


def test_states() -> None:
    positions = Positions()
    positions.assign([T0])
    state = positions.require(T0)
    assert (state.state, state.position) == (FetchState.INITIALIZING, None)
    state.reset(LATEST)
    assert (state.state, state.position, state.reset_policy) == (FetchState.RESETTING, None, LATEST)
    state.move(4, 2)
    assert (state.state, state.position, state.fetch_epoch) == (FetchState.FETCHING, Position(4, 2), 2)
    state.validate()
    assert (state.state, state.position) == (FetchState.VALIDATING, Position(4, 2))
    state.validated(7)
    assert (state.state, state.validated_epoch) == (FetchState.FETCHING, 7)


def test_failures_back_off_and_an_epoch_advance_is_one_free_retry() -> None:
    """Rules 11 to 13: one free retry for each epoch; then a leader that lags is asked again soon, and ever less so."""
    positions = Positions()
    positions.assign([T0])
    state = positions.require(T0)
    state.move(0)
    state.back_off(10.0, 3, RETRY)
    assert state.patience.waits_until(10.0, 3) == pytest.approx(10.1)
    assert state.patience.waits_until(10.0, 4) == 0
    state.back_off(10.0, 4, RETRY)
    assert state.patience.waits_until(10.0, 4) == pytest.approx(10.01)
    state.back_off(10.0, 4, RETRY)
    assert state.patience.waits_until(10.0, 4) == pytest.approx(10.02)
    assert state.patience.waits_until(10.02, 4) == 0
    state.patience.succeeded()
    state.back_off(20.0, 4, RETRY)
    assert state.patience.waits_until(20.0, 4) == pytest.approx(20.1)


def test_a_leader_that_says_it_lags_is_asked_again_soon() -> None:
    positions = Positions()
    positions.assign([T0])
    state = positions.require(T0)
    for failures, wait in enumerate([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0]):
        state.back_off(1.0, 3, RETRY, lagging_leader=True)
        assert state.patience.waits_until(1.0, 3) == pytest.approx(1.0 + wait), failures


def test_only_moved_partitions_are_touched() -> None:
    positions = Positions()
    positions.assign([T0, T1, T2])
    before = snapshot()
    positions.touched.clear()
    positions.touch_moved(Moved(before, snapshot([(1, 3), (2, 4), (1, 3)])))
    assert [state.tp for state in positions.touched] == [T1]
    positions.touched.clear()
    moved = before.with_moved({("t", 2): before.topics["t"].partitions[2]._replace(leader_id=3)}, before.brokers)
    positions.touch_moved(Moved(before, moved))
    assert [state.tp for state in positions.touched] == [T2]
    positions.touched.clear()
    positions.touch_moved(Moved(before, snapshot(brokers=(1, 2))))
    assert len(positions.touched) == 3


def test_a_broker_that_is_lost_concerns_what_is_fetched_there_and_what_is_fetched_nowhere() -> None:
    positions = Positions()
    positions.assign([T0, T1, T2])
    for tp, home in ((T0, 2), (T1, 3)):
        positions.require(tp).home = home
    positions.touched.clear()
    positions.touch_moved(Moved(snapshot(), snapshot(brokers=(1, 2))))
    assert [state.tp for state in positions.touched] == [T1, T2]


def test_a_replica_that_is_lost_concerns_those_who_may_read_from_it() -> None:
    positions = Positions()
    positions.assign([T0, T1, T2])
    before = snapshot()
    partitions = tuple(one._replace(offline_replicas=(3,), isr=(1, 2)) for one in before.topics["t"].partitions)
    topic = before.topics["t"]._replace(partitions=partitions)
    lost = ClusterSnapshot(2, brokers=before.brokers, topics={"t": topic})
    positions.require(T1).preferred_replica = 3
    positions.touched.clear()
    positions.touch_moved(Moved(before, lost))
    assert [state.tp for state in positions.touched] == [T1]


def test_more_partitions_moved_than_are_assigned() -> None:
    positions = Positions()
    positions.assign([T0, T1, T2])
    positions.touched.clear()
    moved = {("t", 1), *(("other", number) for number in range(9))}
    positions.touch_moved(Moved(snapshot(), snapshot(), moved))
    assert [state.tp for state in positions.touched] == [T1]


def test_a_rewind_fetches_again_from_the_position() -> None:
    positions = Positions()
    positions.assign([T0])
    state = positions.require(T0)
    state.rewind()
    assert state.position is None
    state.move(5, 1)
    state.received(90, 2)
    state.rewind()
    assert (state.fetch_offset, state.fetch_epoch) == (5, 1)


def test_a_topic_made_anew_has_another_log() -> None:
    """Records of the old log are handed out; the new log is read from the position that ``auto_offset_reset`` gives."""
    world = World(T0)
    world.learn(snapshot())
    world.fetch(data(0, batch(0, [b"old"] * 3)))
    late = world.plan_one()
    world.learn(ClusterSnapshot(2, brokers=snapshot().brokers))
    world.learn(snapshot([(1, 0)], topic_id=UUID(int=8)))
    world.answer(late, response(data(0, batch(3, [b"late"]))))
    state = world.state()
    assert (state.fetch_offset, state.fetch_epoch) == (BEYOND_ANY_LOG, -1)
    assert world.read() == [0, 1, 2]
    world.fetch(data(0, error=OffsetOutOfRangeError.code), topic_id=UUID(int=8))
    assert (state.state, state.reset_policy) == (FetchState.RESETTING, EARLIEST)


def test_a_topic_made_anew_is_not_read_from_the_old_position_when_memory_is_short() -> None:
    world = World(T0)
    world.fetch(data(0, batch(0, [b"old"] * 3)))
    assert world.read(2) == [0, 1]
    world.learn(snapshot([(1, 0)], topic_id=UUID(int=8)))
    world.prefetch.evict(())
    state = world.state()
    assert (state.position, state.fetch_offset, state.fetch_epoch) == (Position(2, 3), BEYOND_ANY_LOG, -1)
    world.fetch(data(0, error=OffsetOutOfRangeError.code), topic_id=UUID(int=8))
    assert (state.state, state.reset_policy) == (FetchState.RESETTING, EARLIEST)


def test_a_topic_that_was_not_made_anew_is_read_on() -> None:
    """A broker that lags has described an older topic."""
    world = World(T0)
    world.fetch(data(0, batch(0, [b"v"] * 3)))
    assert world.read(2) == [0, 1]
    world.learn(snapshot([(1, 0)], topic_id=UUID(int=8)))
    assert world.fetch(data(0, error=UnknownTopicIdError.code), topic_id=UUID(int=8)).refresh
    assert world.read() == [2]
    world.learn(snapshot())
    world.now += 1
    world.fetch(data(0, batch(3)))
    assert world.read() == [3]


def test_what_was_dropped_meanwhile_is_fetched_again() -> None:
    world = World(T0)
    world.fetch(data(0, batch(0, [b"v"] * 3)))
    assert world.read(1) == [0]
    world.learn(snapshot([(1, 0)], topic_id=UUID(int=8)))
    world.prefetch.evict(())
    world.learn(snapshot())
    assert world.state().fetch_offset == 1


def test_a_position_in_the_other_log_does_not_come_back_with_the_former_one() -> None:
    world = World(T0)
    world.fetch(data(0, batch(0, [b"v"] * 3)))
    world.read()
    world.learn(snapshot([(1, 0)], topic_id=UUID(int=8)))
    world.state().move(7)
    world.learn(snapshot())
    assert world.state().fetch_offset == BEYOND_ANY_LOG


def test_a_third_log_has_no_former_position() -> None:
    world = World(T0)
    world.state().move(5)
    for topic_id in 8, 9, 8:
        world.learn(snapshot([(1, 0)], topic_id=UUID(int=topic_id)))
        assert world.state().fetch_offset == BEYOND_ANY_LOG


def test_a_topic_made_anew_is_said_without_a_reset_policy() -> None:
    world = World(T0, reset_policy=None)
    world.state().move(5, 3)
    world.learn(snapshot([(1, 0)], topic_id=UUID(int=8)))
    world.fetch(data(0, error=OffsetOutOfRangeError.code), topic_id=UUID(int=8))
    assert isinstance(world.state().error, FetchOffsetOutOfRangeError)
    assert "offset 5 of t-0 belongs to a topic that was deleted and recreated" in str(world.state().error)


def test_a_question_about_the_old_log_counts_no_more() -> None:
    world = World(T0)
    world.state().move(5, 3)
    world.state().validate()
    incarnation = world.state().incarnation
    world.learn(snapshot([(1, 0)], topic_id=UUID(int=8)))
    assert world.state().state is FetchState.FETCHING
    assert world.state().incarnation > incarnation

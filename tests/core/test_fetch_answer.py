"""Handling of a Fetch answer. Codes: 1 out of range, 2 corrupt, 3 unknown, 6 not leader, 29 not authorized, ..."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest

from aiokafka_lead._core.consumer.partition_state import FetchState
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._core.consumer.reset_policy import EARLIEST, LATEST, ResetPolicy
from aiokafka_lead._core.leadership.patience import FREE_RETRIES
from aiokafka_lead._core.metadata.types import Broker, LeaderHint
from aiokafka_lead._core.trust import DOUBT_AFTER
from aiokafka_lead.errors import (
    CorruptBatchError,
    FetchOffsetOutOfRangeError,
    LogTruncationError,
    TopicAuthorizationFailedError,
)
from aiokafka_lead.types import TopicPartition

from .fetch_world import BACKOFF_S, ID, T0, T1, T2, World, batch, batches, data, response, snapshot


def test_records_reach_the_buffer_and_the_next_fetch_goes_on_behind_them() -> None:
    world = World(T0, T1)
    outcome = world.fetch(data(0, batches(batch(0), batch(1)), high_watermark=9), data(1))
    state = world.state()
    assert (state.fetch_offset, state.fetch_epoch) == (2, 3)
    assert (state.high_watermark, state.last_stable_offset, state.log_start_offset) == (9, 9, 0)
    assert world.read() == [0, 1]
    assert not outcome.refresh
    assert not outcome.missing
    assert world.counters.bytes_fetched == 2 * len(batch(0))


@pytest.mark.parametrize("code", [6, 74])
def test_rule_22_a_moved_partition_alone_stops_and_goes_on_with_the_epoch(code: int) -> None:
    world = World(T0, T1)
    outcome = world.fetch(data(0, error=code, leader=(2, 4)), data(1, batch(0)), endpoints=[2])
    assert outcome.refresh
    assert outcome.hints == [LeaderHint("t", ID, 0, 2, 4, Broker(2, "host2", 9092), code)]
    assert world.read() == [0]
    assert T0 not in world.plan_one().asked
    world.learn(snapshot([(2, 4), (1, 3)]))
    planned = world.plan_one()
    assert (planned.node_id, planned.asked[T0].leader_epoch) == (2, 4)


def test_rule_13_without_a_newer_epoch_the_backoff_is_kept() -> None:
    world = World(T0)
    world.fetch(data(0, error=6))
    assert world.plan() == []
    world.learn(snapshot([(2, 3)]))
    assert world.plan() == []
    world.now += BACKOFF_S
    assert world.plan_one().node_id == 2


def test_rule_11_a_second_failure_at_an_epoch_waits() -> None:
    world = World(T0)
    world.fetch(data(0, error=6, leader=(2, 4)))
    world.learn(snapshot([(2, 4)]))
    world.answer(world.plan_one(), response(data(0, error=6, leader=(2, 4))))
    assert world.plan() == []
    world.now += 0.01
    assert world.plan_one().node_id == 2


def test_rule_13_brokers_that_lie_with_ever_newer_epochs_see_a_bounded_rate() -> None:
    world = World(T0)
    epochs = count(4)
    requests = 0
    end = world.now + 20
    while world.now < end:
        for planned in world.plan():
            requests += 1
            world.answer(planned, response(data(0, error=6)))
            epoch = next(epochs)
            world.learn(snapshot([(1 + epoch % 2, epoch)]))
        world.planner.place(world.snapshot, world.now)
        world.now = world.planner.next_time(world.now) or world.now + 0.001
    assert world.counters.free_retries == FREE_RETRIES
    assert FREE_RETRIES + 15 < requests < FREE_RETRIES + 30
    # A successful answer makes up for it.
    world.answer(world.plan_one(), response(data(0, batch(0))))
    world.answer(world.plan_one(), response(data(0, error=6)))
    world.learn(snapshot([(2, next(epochs))]))
    assert world.plan_one().node_id == 2


def test_counts_free_retries_and_how_long_a_move_takes() -> None:
    world = World(T0)
    world.fetch(data(0, error=6, leader=(2, 4)))
    world.now += 0.02
    world.learn(snapshot([(2, 4)]))
    planned = world.plan_one()
    world.now += 0.5  # the new leader waits for records
    world.answer(planned, response(data(0)))
    counters = world.counters
    assert (counters.free_retries, counters.leader_moves) == (1, 1)
    assert counters.leader_move_ms_last == counters.leader_move_ms_max == pytest.approx(20)
    # The same broker, re-elected: no other leader took over.
    world.fetch(data(0, error=74, leader=(2, 5)))
    world.learn(snapshot([(2, 5)]))
    world.fetch(data(0))
    assert (counters.free_retries, counters.leader_moves) == (2, 1)


def test_two_refusals_of_one_epoch_are_one_failure() -> None:
    """The session and a request beside it may both have asked."""
    world = World(T0, T1)
    world.prefetch.pause(world.state(T0))
    main = world.plan_one()
    world.prefetch.resume(world.state(T0))
    world.now += 0.1
    beside = world.plan_one()
    world.answer(main, response(data(1)))
    main = world.plan_one()
    world.answer(beside, response(data(0, error=6), session_id=0))
    world.answer(main, response(data(0, error=6)))
    assert world.state().patience.refusals == 1


def test_a_broker_that_refuses_for_ever_sees_a_bounded_rate() -> None:
    world = World(T0)
    requests = 0
    end = world.now + 60
    while world.now < end:
        for planned in world.plan():
            requests += 1
            world.answer(planned, response(data(0, error=6)))
        wake_at = world.planner.next_time(world.now)
        world.planner.place(world.snapshot, world.now)
        world.now = world.planner.next_time(world.now) or wake_at or end
    assert requests < 70


def test_rule_5_hints_carry_the_incarnation_that_was_asked_for() -> None:
    world = World(T0)
    assert world.fetch(data(0, error=6, leader=(2, 9))).hints[0].topic_id == ID
    world = World(T0)
    planned = world.plan_one()
    world.learn(snapshot(topic_id=UUID(int=8)))
    assert world.answer(planned, response(data(0, error=6, leader=(2, 9)))).hints == []
    assert world.counters.stale_answers == 1


def test_before_fetch_16_there_are_no_hints() -> None:
    world = World(T0, version=15)
    outcome = world.fetch(data(0, error=6))
    assert outcome.hints == []
    assert outcome.refresh


@pytest.mark.parametrize("code", [3, 9, 56, 100, 103])
def test_stale_metadata_is_refreshed_and_the_partition_waits(code: int) -> None:
    world = World(T0)
    assert world.fetch(data(0, error=code)).refresh
    assert world.plan() == []
    world.now += BACKOFF_S
    assert len(world.plan()) == 1
    assert world.counters.fetch_errors == {code: 1}


@pytest.mark.parametrize(("code", "refresh"), [(75, False), (78, True)])
def test_rule_23_a_leader_that_lags_is_asked_again_soon(code: int, refresh: bool) -> None:
    world = World(T0)
    assert world.fetch(data(0, error=code)).refresh is refresh
    assert world.plan() == []
    world.now += 0.01
    assert len(world.plan()) == 1


def test_what_a_broker_refuses_is_told_once_for_each_answer() -> None:
    world = World(T0, T1)
    world.fetch(data(0, error=29), data(1, error=29))
    with pytest.raises(TopicAuthorizationFailedError, match="t-1"):
        world.prefetch.raise_report()
    world.prefetch.raise_report()
    assert world.plan() == []


def test_a_success_ends_the_backoff() -> None:
    world = World(T0)
    world.fetch(data(0, error=3))
    world.now += BACKOFF_S
    world.fetch(data(0, batch(0)))
    assert world.state().patience.refusals == 0


# --- out of range ----------------------------------------------------------------------------------------------------


def test_out_of_range_resets_by_policy() -> None:
    world = World(T0, reset_policy=LATEST)
    world.fetch(data(0, error=1))
    state = world.state()
    assert (state.state, state.reset_policy) == (FetchState.RESETTING, LATEST)
    assert world.counters.offset_resets == 1


@pytest.mark.parametrize("policy", [LATEST, None])
def test_a_companion_out_of_range_is_read_from_the_beginning(policy: ResetPolicy | None) -> None:
    """Its records came from the partition that it accompanies: none may be left out."""
    world = World(reset_policy=policy)
    world.positions.accompany({"origin": ["t"]})
    world.positions.assign([TopicPartition("origin", 0)])
    state = world.state()
    state.move(5)
    world.fetch(data(0, error=1))
    assert (state.state, state.reset_policy) == (FetchState.RESETTING, EARLIEST)


def test_out_of_range_without_a_policy_is_raised_until_a_seek() -> None:
    world = World(T0, reset_policy=None)
    world.fetch(data(0, error=1))
    for _ in range(2):
        with pytest.raises(FetchOffsetOutOfRangeError, match="offset 0 of t-0 is out of range"):
            world.read()
    assert world.state().position == Position(0)
    assert world.plan() == []
    world.prefetch.drop(world.state())
    world.state().move(9)
    assert world.plan_one().asked[T0].fetch_offset == 9


@pytest.mark.parametrize(("log_start", "text"), [(-1, ""), (90, " (the log starts at 90)")])
def test_out_of_range_names_no_start_of_the_log_that_was_before(log_start: int, text: str) -> None:
    world = World(T0, reset_policy=None)
    world.fetch(data(0, batch(0)))
    assert world.read() == [0]
    assert world.state().log_start_offset == 0
    world.fetch(data(0, error=1, log_start=log_start))
    with pytest.raises(FetchOffsetOutOfRangeError) as caught:
        world.read()
    assert caught.value.message.startswith(f"offset 1 of t-0 is out of range{text}; auto_offset_reset")


def test_what_was_read_ahead_is_handed_out_before_a_reset() -> None:
    world = World(T0)
    world.fetch(data(0, batch(0)))
    world.fetch(data(0, error=1))
    assert world.state().state is FetchState.FETCHING
    assert world.plan() == []
    assert world.read() == [0]
    world.fetch(data(0, error=1))
    assert world.state().state is FetchState.RESETTING


def test_a_followers_out_of_range_is_the_leaders_to_confirm() -> None:
    world = World(T0)
    state = world.state()
    state.read_from(2, world.now + 300)
    planned = world.plan_one()
    assert planned.node_id == 2
    world.answer(planned, response(data(0, error=1)))
    assert state.state is FetchState.FETCHING
    world.now += BACKOFF_S
    assert world.plan_one().node_id == 1


@pytest.mark.parametrize(
    ("error", "diverging"), [(1, (-1, -1)), (2, (-1, -1)), (0, (2, 1))], ids=["out of range", "corrupt", "diverging"]
)
@pytest.mark.parametrize("left", [False, True], ids=["followed", "left meanwhile"])
def test_a_followers_word_moves_no_position(error: int, diverging: tuple[int, int], left: bool) -> None:
    """It may lag behind the leader's log and epochs, and answer after the partition has gone back to the leader."""
    world = World(T0)
    world.fetch(data(0, batches(batch(0), batch(1))))
    assert world.read() == [0, 1]
    state = world.state()
    state.read_from(2, world.now + 300)
    planned = world.plan_one()
    assert planned.node_id == 2
    if left:
        state.read_from_leader()
    world.answer(planned, response(data(0, error=error, diverging=diverging)))
    assert (state.state, state.position, state.fetch_offset) == (FetchState.FETCHING, Position(2, 3), 2)
    world.now += BACKOFF_S
    assert world.plan_one().node_id == 1


# --- truncation ------------------------------------------------------------------------------------------------------


def test_a_diverging_epoch_goes_back_to_where_the_logs_differ() -> None:
    """KIP-320, by KIP-595's answer: no OffsetForLeaderEpoch is needed."""
    world = World(T0)
    world.fetch(data(0, batches(batch(0), batch(1))))
    assert world.read() == [0, 1]
    world.fetch(data(0, diverging=(2, 1)))
    state = world.state()
    assert (state.position, state.fetch_epoch) == (Position(1, 2), 2)
    assert world.counters.truncations == 1


def test_a_diverging_epoch_without_a_policy_is_raised() -> None:
    world = World(T0, reset_policy=None)
    world.fetch(data(0, batches(batch(0), batch(1))))
    assert world.read() == [0, 1]
    world.fetch(data(0, diverging=(2, 1)))
    with pytest.raises(LogTruncationError, match="t-0") as caught:
        world.read()
    assert (caught.value.offset, caught.value.diverging_offset, caught.value.diverging_epoch) == (2, 1, 2)
    assert world.state().position == Position(2, 3)


def test_a_diverging_epoch_that_loses_nothing_only_corrects_the_epoch() -> None:
    world = World(T0)
    world.state().move(5, 9)
    world.fetch(data(0, diverging=(7, 5)))
    state = world.state()
    assert (state.state, state.fetch_offset, state.fetch_epoch) == (FetchState.FETCHING, 5, 7)
    assert state.position == Position(5, 9)


def test_what_was_read_ahead_is_handed_out_before_a_truncation() -> None:
    world = World(T0)
    world.fetch(data(0, batches(batch(0), batch(1))))
    world.fetch(data(0, diverging=(2, 1)))
    assert world.read() == [0, 1]
    world.fetch(data(0, diverging=(2, 1)))
    assert world.state().position == Position(1, 2)


@pytest.mark.parametrize(
    ("end", "expected"),
    [((9, 3), (5, 3)), ((5, 3), (5, 3)), ((4, 2), (4, 2)), ((-1, -1), (5, 3)), ((7, -1), (5, 3)), ((4, -1), (5, 3))],
)
def test_the_end_of_an_epoch_confirms_or_truncates(end: tuple[int, int], expected: tuple[int, int]) -> None:
    """OffsetForLeaderEpoch, for brokers before Fetch 12. A broker that does not know the epoch has shown no loss."""
    world = World(T0)
    state = world.state()
    state.move(5, 3)
    state.validate()
    world.answers.epoch_ended(state, end[0], end[1], 4)
    assert state.position == Position(*expected)
    assert state.state is FetchState.FETCHING


def test_the_end_of_an_epoch_counts_only_when_all_before_it_was_handed_out() -> None:
    world = World(T0)
    state = world.state()
    world.hold(state, batch(0))
    state.received(1, 3)
    state.validate()
    world.answers.epoch_ended(state, 0, 2, 4)
    assert state.state is FetchState.FETCHING
    assert not state.read_ahead
    assert world.read() == [0]


# --- odd answers -----------------------------------------------------------------------------------------------------


def test_followers_are_named_by_the_leader() -> None:
    world = World(T0)
    world.fetch(data(0, preferred=3))
    assert world.counters.follower_redirects == 1
    assert world.plan_one().node_id == 3


def test_an_answer_about_the_unknown_is_counted_and_ignored() -> None:
    world = World(T0)
    planned = world.plan_one()
    strange = response(data(7, batch(0)), topic_id=UUID(int=1234))
    strange.responses += response(data(0, batch(0)), data(2, batch(0))).responses
    world.answer(planned, strange)
    assert world.counters.unexpected_partitions == 2
    assert world.read() == [0]


def test_an_answer_for_a_partition_that_is_no_longer_assigned_is_ignored() -> None:
    world = World(T0, T1)
    planned = world.plan_one()
    world.positions.assign([T1])
    world.answer(planned, response(data(0, batch(0)), data(1, batch(0))))
    assert world.read(tp=T0) == []
    assert world.read(tp=T1) == [0]


def test_a_full_answer_that_leaves_partitions_out_is_of_no_use() -> None:
    world = World(T0, T1, T2)
    assert world.fetch(data(0)).missing
    world = World(T0, T1)
    world.fetch(data(0), data(1))
    assert not world.fetch().missing


def test_bytes_without_a_whole_batch_are_an_error_not_a_loop() -> None:
    world = World(T0)
    world.fetch(data(0, batch(0)[:40]))
    with pytest.raises(CorruptBatchError, match="no complete batch"):
        world.read()
    assert world.plan() == []


def test_a_log_that_the_broker_finds_corrupt_is_an_error() -> None:
    world = World(T0)
    world.fetch(data(0, error=2))
    with pytest.raises(CorruptBatchError, match="t-0 cannot be read at offset 0"):
        world.read()


def test_records_before_the_offset_asked_for_are_not_asked_for_in_a_loop() -> None:
    world = World(T0)
    world.state().move(10)
    for _ in range(DOUBT_AFTER):
        assert world.fetch(data(0, batch(3))).refresh
        assert world.plan() == []
        world.now += 1
    with pytest.raises(CorruptBatchError, match="only records before that offset"):
        world.read()


def test_a_success_ends_the_doubt_about_records_before_the_offset() -> None:
    world = World(T0)
    world.state().move(10)
    for _ in range(2 * DOUBT_AFTER):
        world.fetch(data(0, batch(3)))
        world.now += 1
        world.fetch(data(0))
    assert world.read() == []


def test_read_committed_takes_its_lag_and_aborted_transactions_from_the_answer() -> None:
    world = World(T0, read_committed=True, reset_policy=EARLIEST)
    aborted = batch(0, [b"x"], producer_id=5, producer_epoch=0, transactional=True)
    world.fetch(data(0, batches(aborted, batch(1)), aborted=[(5, 0)]))
    assert world.read() == [1]

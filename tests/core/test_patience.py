"""Waits after failures, of batches and of a partition's fetches (rules 11 to 13), and the duration of moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.leadership.patience import FREE_RETRIES, LeaderMoveCounters, MoveClock, Patience, RetryPolicy

from .fetch_world import middle

POLICY = RetryPolicy(100, 1000, middle)
NOW = 50.0


def fail(patience: Patience, epoch: int, *, by_leader: bool = True, certain: bool = False) -> float:
    """Fail an attempt in this epoch; return the milliseconds until the next one in that epoch."""
    patience.failed(NOW, epoch, POLICY, by_leader, certain)
    until = patience.waits_until(NOW, epoch)
    return round((until - NOW) * 1000, 6)


def test_nothing_waits_before_it_has_failed() -> None:
    patience = Patience()
    assert patience.waits_until(NOW, 3) == 0
    assert not patience.sent(NOW, 3)
    assert not patience.knows_failure(NOW, 3)


def test_rule_13_the_normal_wait_doubles() -> None:
    patience = Patience()
    assert [fail(patience, 3, by_leader=False) for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]
    assert patience.waits_until(NOW + 1.0, 3) == 0


def test_rule_11_a_leader_that_has_certainly_not_caught_up_is_asked_soon() -> None:
    patience = Patience()
    waits = [fail(patience, 3, certain=True) for _ in range(9)]
    assert waits == [10, 20, 40, 80, 160, 320, 640, 1000, 1000]


def test_rule_11_that_wait_is_never_longer_than_the_normal_one() -> None:
    quick = RetryPolicy(2, 1000, middle)
    patience = Patience()
    assert patience.failed(NOW, 3, quick, True, True)
    assert patience.waits_until(NOW, 3) == pytest.approx(NOW + 0.002)


def test_rule_11_an_advance_between_two_tries_makes_it_certain() -> None:
    patience = Patience()
    assert fail(patience, 3) == 100
    assert fail(patience, 3) == 200
    assert fail(patience, 4) == 10
    assert fail(patience, 4) == 20
    assert fail(patience, 4, by_leader=False) == 1000  # the fifth failure in a row
    assert fail(patience, 4) == 40
    assert fail(patience, 5) == 10


def test_rule_11_each_advance_is_one_free_retry() -> None:
    patience = Patience()
    fail(patience, 3)
    assert patience.waits_until(NOW, 4) == 0
    assert patience.sent(NOW, 4)
    fail(patience, 4)
    assert patience.waits_until(NOW, 4) > NOW
    assert patience.waits_until(NOW, 3) > NOW
    assert patience.waits_until(NOW, 5) == 0
    assert patience.sent(NOW, 5)
    assert patience.free_retries == 2


def test_rule_11_a_try_after_the_wait_is_no_free_retry() -> None:
    patience = Patience()
    fail(patience, 3)
    assert not patience.skipped(NOW + 0.1, 4)
    assert not patience.skipped(NOW, 3)
    assert patience.free_retries == 0


def test_rule_13_free_retries_come_to_an_end_and_so_do_short_waits() -> None:
    patience = Patience()
    for epoch in range(FREE_RETRIES):
        fail(patience, epoch, certain=True)
        assert patience.sent(NOW, epoch + 1)
    assert fail(patience, FREE_RETRIES, certain=True) == 1000
    assert patience.waits_until(NOW, FREE_RETRIES + 1) == NOW + 1
    patience.succeeded()
    assert fail(patience, 0, certain=True) == 10
    assert patience.waits_until(NOW, 1) == 0


def test_success_ends_all_waits() -> None:
    patience = Patience()
    fail(patience, 3)
    fail(patience, 4)
    patience.succeeded()
    assert (patience.refusals, patience.epoch, patience.waits_until(NOW, 0)) == (0, -1, 0)
    assert fail(patience, 4) == 100


def test_what_failed_for_another_does_not_wait_and_counts() -> None:
    patience = Patience()
    patience.sent(NOW, 3)
    patience.failed_for_another(NOW)
    assert patience.waits_until(NOW, 3) == 0
    assert fail(patience, 3, by_leader=False) == 200


def test_rule_5_a_topic_made_anew_counts_its_epochs_from_the_beginning() -> None:
    patience = Patience()
    fail(patience, 9)
    patience.forget_epoch()
    assert patience.waits_until(NOW, 0) == 0


def test_a_failure_of_an_earlier_request_is_no_news_while_the_wait_goes_on() -> None:
    patience = Patience()
    fail(patience, 3)
    assert patience.knows_failure(NOW, 3)
    assert not patience.knows_failure(NOW, 4)
    assert not patience.knows_failure(NOW + 0.1, 3)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), st.booleans()), max_size=30))
def test_rule_11_batches_and_fetches_wait_alike(history: list[tuple[int, bool, bool, bool]]) -> None:
    """A batch notes the epoch when it is sent, a partition when its answer comes."""
    batch, partition = Patience(), Patience()
    now, epoch = NOW, 0
    for advance, waits, by_leader, certain in history:
        epoch += advance
        until = batch.waits_until(now, epoch)
        assert partition.waits_until(now, epoch) == until
        now = max(now, until) if waits else now
        assert batch.sent(now, epoch) == partition.skipped(now, epoch)
        found = [one.failed(now, epoch, POLICY, by_leader, certain) for one in (batch, partition)]
        assert found[0] == found[1]
        assert (batch.retry_at, batch.free_retries) == (partition.retry_at, partition.free_retries)


def test_a_move_takes_from_the_first_refusal_to_another_brokers_service() -> None:
    counters, clock = LeaderMoveCounters(), MoveClock()
    clock.served(1, 9.0, counters)
    clock.refused(1, 10.0)
    clock.refused(2, 10.5)
    clock.served(2, 11.0, counters)
    clock.served(2, 12.0, counters)
    assert (counters.leader_moves, counters.leader_move_ms_total) == (1, 1000)
    clock.refused(2, 20.0)
    clock.served(3, 20.25, counters)
    assert (counters.leader_moves, counters.leader_move_ms_last, counters.leader_move_ms_max) == (2, 250, 1000)


def test_the_same_broker_elected_anew_and_a_pause_are_no_moves() -> None:
    counters, clock = LeaderMoveCounters(), MoveClock()
    clock.refused(1, 10.0)
    clock.served(1, 11.0, counters)
    clock.served(2, 12.0, counters)
    clock.refused(1, 20.0)
    clock.stop()
    clock.served(2, 21.0, counters)
    assert counters.leader_moves == 0


def test_an_answer_to_a_request_from_before_the_refusal_took_no_time() -> None:
    counters, clock = LeaderMoveCounters(), MoveClock()
    clock.refused(1, 10.0)
    clock.served(2, 9.0, counters)
    assert (counters.leader_moves, counters.leader_move_ms_total) == (1, 0)

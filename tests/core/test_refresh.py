"""When metadata is asked for: rules 13, 20 and 21 of the leadership rules."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.metadata.refresh import ELECTIONS_TAKE_S, HINTED, STALE, Reason, RefreshSchedule, lost, refused

MAX_AGE_MS = 300_000.0


def schedule(first_ms: float = 100, longest_ms: float = 1000) -> RefreshSchedule:
    return RefreshSchedule(MAX_AGE_MS, Backoff(first_ms, longest_ms, lambda: 0.5))


def refreshed(plan: RefreshSchedule, now: float, *, changed: bool = True, complete: bool = True) -> None:
    plan.started(now)
    plan.succeeded(now, changed=changed, complete=complete)


def test_the_first_refresh_is_due_at_once() -> None:
    assert schedule().due_at() <= 0.0


def test_periodic_refresh_after_the_maximum_age() -> None:
    plan = schedule()
    refreshed(plan, 10.0)
    assert plan.due_at() == 10.0 + MAX_AGE_MS / 1000


def test_an_expedited_refresh_long_after_the_last_is_due_at_once() -> None:
    plan = schedule()
    refreshed(plan, 10.0)
    plan.request(STALE)
    assert plan.due_at() <= 11.0


def test_rule_21_requests_before_a_refresh_are_one() -> None:
    plan = schedule()
    for _ in range(100):
        plan.request(STALE)
    refreshed(plan, 1.0)
    assert plan.due_at() == 1.0 + MAX_AGE_MS / 1000


def test_rule_21_requests_during_a_refresh_cause_one_more() -> None:
    plan = schedule()
    plan.started(1.0)
    for _ in range(100):
        plan.request(STALE)
    assert plan.due_at() == math.inf
    plan.succeeded(1.0, changed=True, complete=True)
    assert plan.due_at() < 1.1
    refreshed(plan, 1.1)
    assert plan.due_at() > 300


def test_rule_20_what_is_not_settled_is_asked_for_again_with_backoff() -> None:
    plan = schedule()
    now, waits = 0.0, []
    while now < 40.0:
        refreshed(plan, now, changed=False, complete=False)
        waits.append(round((plan.due_at() - now) * 1000))
        now = plan.due_at()
    assert waits[:6] == [10, 20, 40, 80, 100, 100]
    assert waits[-9:] == [1000] * 9
    assert sum(waits) == pytest.approx(waits.count(1000) * 1000 + ELECTIONS_TAKE_S * 1000, abs=100)


@pytest.mark.parametrize("reason", [STALE, HINTED, refused(3)])
def test_rule_13_what_asking_cannot_help_is_asked_less_and_less(reason: Reason) -> None:
    plan = schedule()
    now, waits = 0.0, []
    for _ in range(9):
        plan.request(reason)
        now = max(now, plan.due_at())
        refreshed(plan, now, changed=False)
        plan.request(reason)
        waits.append(round((plan.due_at() - now) * 1000))
    assert waits == [10, 20, 40, 80, 160, 320, 640, 1000, 1000]


def test_news_shorten_the_wait_again() -> None:
    plan = schedule()
    now = 0.0
    for _ in range(9):
        refreshed(plan, now, changed=False, complete=False)
        now = plan.due_at()
    refreshed(plan, now, changed=True, complete=False)
    assert round((plan.due_at() - now) * 1000) == 80
    refreshed(plan, now, changed=True, complete=True)
    plan.request(STALE)
    assert round((plan.due_at() - now) * 1000) == 10


def test_brokers_that_contradict_each_other_are_not_asked_in_a_hurry_for_ever() -> None:
    plan = schedule()
    now, waits = 0.0, []
    for _ in range(6):
        refreshed(plan, now, changed=True, complete=False)
        waits.append(round((plan.due_at() - now) * 1000))
        now = plan.due_at()
    assert waits == [10, 20, 40, 80, 80, 80]


def test_an_error_long_after_the_last_row_begins_with_the_first_wait() -> None:
    plan = schedule()
    now = 0.0
    for _ in range(9):
        refreshed(plan, now, changed=False, complete=False)
        now = plan.due_at()
    refreshed(plan, now, changed=False, complete=True)
    now += 60
    plan.request(STALE)
    refreshed(plan, now, changed=False, complete=False)
    assert round((plan.due_at() - now) * 1000) == 10


def test_a_smaller_retry_backoff_is_honoured() -> None:
    plan = schedule(first_ms=2, longest_ms=4)
    refreshed(plan, 0.0, complete=False)
    assert round(plan.due_at() * 1000) == 2


def test_refreshes_take_no_more_than_half_of_the_time() -> None:
    plan = schedule()
    plan.started(1.0)
    plan.succeeded(1.5, changed=True, complete=False)
    assert plan.due_at() == 2.0


def test_failures_back_off_by_the_retry_backoff() -> None:
    plan = schedule()
    now, waits = 0.0, []
    for _ in range(6):
        plan.started(now)
        plan.failed(now)
        waits.append(round((plan.due_at() - now) * 1000))
        now = plan.due_at()
    assert waits == [100, 200, 400, 800, 1000, 1000]
    refreshed(plan, now)
    assert plan.failures == 0


def test_topics_that_are_not_known_yet_wait_for_nothing_but_a_refresh_under_way_and_failures() -> None:
    plan = schedule()
    refreshed(plan, 1.0, changed=False, complete=False)
    assert plan.lookup_at(1.0) == 1.0
    plan.started(1.0, full=False)
    assert plan.lookup_at(1.0) == math.inf
    plan.failed(1.0)
    assert round(plan.lookup_at(1.0), 3) == 1.1


def test_a_lookup_is_not_the_refresh_that_was_asked_for() -> None:
    plan = schedule()
    refreshed(plan, 1.0)
    plan.request(STALE)
    plan.started(2.0, full=False)
    plan.succeeded(2.0, changed=True, complete=True, full=False)
    assert plan.due_at() <= 2.0


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=20, max_size=200))
def test_rule_13_the_request_rate_is_bounded(outcomes: list[tuple[bool, bool, bool]]) -> None:
    """However often a refresh is asked for, and whatever it brings, they are at least 8 ms apart (10 less jitter)."""
    plan = RefreshSchedule(MAX_AGE_MS, Backoff(100, 1000, lambda: 0.0))
    now = 0.0
    plan.started(now)
    plan.succeeded(now, changed=True, complete=True)
    for answered, changed, complete in outcomes:
        plan.request(STALE)
        start = max(now, plan.due_at())
        assert start - now >= 0.0079
        now = start
        plan.started(now)
        if answered:
            plan.succeeded(now, changed=changed, complete=complete)
        else:
            plan.failed(now)


def test_rule_32_a_reason_that_comes_up_does_not_wait_for_the_row_of_another() -> None:
    plan = schedule()
    now = 0.0
    for _ in range(9):
        plan.request(HINTED)
        now = max(now, plan.due_at())
        refreshed(plan, now, changed=False)
    plan.request(HINTED)
    assert round((plan.due_at() - now) * 1000) == 1000
    plan.request(lost(3))
    assert round((plan.due_at() - now) * 1000) == 10
    refreshed(plan, plan.due_at(), changed=False)
    plan.request(refused(3))
    plan.request(lost(4))
    assert round((plan.due_at() - now) * 1000) == 20


def test_rule_32_a_partition_without_leader_does_not_hold_back_a_lost_connection() -> None:
    plan = schedule()
    now = 0.0
    for _ in range(9):
        refreshed(plan, now, changed=False, complete=False)
        now = plan.due_at()
    plan.request(lost(3))
    refreshed(plan, now, changed=False, complete=False)
    assert round((plan.due_at() - now) * 1000) == 100
    plan.request(lost(3))
    assert round((plan.due_at() - now) * 1000) == 10


def test_an_answer_that_leaves_nothing_open_ends_the_row_of_those_that_did() -> None:
    plan = schedule()
    now = 0.0
    for _ in range(4):
        refreshed(plan, now, changed=False, complete=False)
        now = plan.due_at()
    refreshed(plan, now, changed=False, complete=True)
    plan.request(STALE)
    now = plan.due_at()
    refreshed(plan, now, changed=False, complete=False)
    assert round((plan.due_at() - now) * 1000) == 10


def test_a_refresh_that_failed_is_still_wanted_for_its_reasons() -> None:
    plan = schedule()
    refreshed(plan, 0.0)
    plan.request(lost(3))
    plan.started(1.0)
    plan.failed(1.0)
    refreshed(plan, plan.due_at(), changed=False)
    plan.request(lost(3))
    assert round((plan.due_at() - 1.1) * 1000) == 10


@given(st.lists(st.integers(0, 3), min_size=100, max_size=300), st.sampled_from([refused, lost]))
def test_rule_13_reasons_that_take_turns_are_bounded_too(turns: list[int], reason: Callable[[int], Reason]) -> None:
    """Four brokers are asked about again and again without any news: some refreshes in the first two seconds, then at
    most five a second where they refuse, and ten where they are lost."""
    plan = schedule()
    now = 0.0
    times: list[float] = []
    while now < 10.0:
        plan.request(reason(turns[len(times) % len(turns)]))
        for node_id in range(4):
            plan.request(reason(node_id))
        now = max(now, plan.due_at())
        times.append(now)
        refreshed(plan, now, changed=False)
    assert len([time for time in times if time < 2.0]) <= 40
    assert len([time for time in times if time >= 8.0]) <= (22 if reason is lost else 10)


def test_rule_32_a_lost_broker_that_leads_is_asked_about_every_retry_backoff_until_it_is_replaced() -> None:
    plan = schedule()
    refreshed(plan, 0.0)
    plan.request(lost(3))
    now, waits = 1.0, []
    for _ in range(8):
        plan.started(now)
        plan.succeeded(now, changed=False, complete=True, out_of_reach=[3])
        waits.append(round((plan.due_at() - now) * 1000))
        now = plan.due_at()
    assert waits == [10, 20, 40, 80, 100, 100, 100, 100]
    refreshed(plan, now)
    assert plan.due_at() == now + MAX_AGE_MS / 1000


def test_rule_32_a_broker_that_is_lost_beside_another_is_asked_about_at_once() -> None:
    plan = schedule()
    refreshed(plan, 0.0)
    plan.request(lost(3))
    now = 1.0
    for _ in range(8):
        plan.started(now)
        plan.succeeded(now, changed=False, complete=True, out_of_reach=[3])
        now = plan.due_at()
    now -= 0.09
    plan.request(lost(4))
    assert plan.due_at() <= now

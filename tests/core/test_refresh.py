"""Metadata requests: rules 13, 20 and 21 of the leadership rules."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.metadata.refresh import (
    ELECTIONS_TAKE_S,
    HINTED,
    LEADERLESS,
    STALE,
    WITNESSES,
    Reason,
    RefreshSchedule,
    doubted,
    lost,
    refused,
)
from aiokafka_lead._core.trust import DOUBT_AFTER

MAX_AGE_MS = 300_000.0
ANY = 1
"""Any broker, in tests that do not depend on its identity."""


def schedule(first_ms: float = 100, longest_ms: float = 1000) -> RefreshSchedule:
    return RefreshSchedule(MAX_AGE_MS, Backoff(first_ms, longest_ms, lambda: 0.5))


def refreshed(plan: RefreshSchedule, now: float, *, changed: bool = True, complete: bool = True) -> None:
    plan.started(now)
    plan.succeeded(now, ANY, changed=changed, complete=complete)


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
    plan.succeeded(1.0, ANY, changed=True, complete=True)
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
    plan.succeeded(1.5, ANY, changed=True, complete=False)
    assert plan.due_at() == 2.0


def test_the_time_of_silent_brokers_does_not_delay_the_next_refresh() -> None:
    plan = schedule()
    plan.started(1.0)
    plan.succeeded(4.0, ANY, changed=True, complete=False, asked_at=3.5)
    assert plan.due_at() == 4.5


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
    plan.succeeded(2.0, ANY, changed=True, complete=True, full=False)
    assert plan.due_at() <= 2.0


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=20, max_size=200))
def test_rule_13_the_request_rate_is_bounded(outcomes: list[tuple[bool, bool, bool]]) -> None:
    """However often a refresh is requested, and whatever it brings, at least 8 ms pass between two (10 less jitter)."""
    plan = RefreshSchedule(MAX_AGE_MS, Backoff(100, 1000, lambda: 0.0))
    now = 0.0
    plan.started(now)
    plan.succeeded(now, ANY, changed=True, complete=True)
    for answered, changed, complete in outcomes:
        plan.request(STALE)
        start = max(now, plan.due_at())
        assert start - now >= 0.0079
        now = start
        plan.started(now)
        if answered:
            plan.succeeded(now, ANY, changed=changed, complete=complete)
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
    """Four brokers repeatedly cause a refresh that brings no news.

    After the first two seconds, there are at most five refreshes a second if the brokers refuse, and ten if they are
    lost.
    """
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
        plan.succeeded(now, ANY, changed=False, complete=True, out_of_reach=[3])
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
        plan.succeeded(now, ANY, changed=False, complete=True, out_of_reach=[3])
        now = plan.due_at()
    now -= 0.09
    plan.request(lost(4))
    assert plan.due_at() <= now


# --- choice of the broker ---------------------------------------------------------------------------------------------

NODES = range(1, 6)
KNOWN = range(1, 4)


def asked(plan: RefreshSchedule, now: float, nodes: range, *, changed: bool = False) -> int:
    """Refresh as the actor does; return the brokers asked."""
    plan.started(now)
    node_id = next(node for node in nodes if node not in plan.avoid(nodes))
    plan.succeeded(now, node_id, changed=changed, complete=True)
    return node_id


def test_who_has_answered_in_vain_is_asked_after_the_others() -> None:
    """Rule 33: the connected broker may be the wrong one."""
    plan = schedule()
    refreshed(plan, 0.0)
    heard = []
    for number in range(5):
        plan.request(refused(9))
        heard.append(asked(plan, 1.0 + number / 2, NODES))
    assert heard == [*NODES]


def test_with_a_leader_in_doubt_several_are_asked_for_each_refusal() -> None:
    plan = schedule()
    refreshed(plan, 0.0)
    now, heard = 1.0, []
    plan.request(doubted(1))
    while plan.due_at() < now + 1:
        now = max(now, plan.due_at())
        heard.append(asked(plan, now, NODES))
    assert heard == [2, 3, 4][:DOUBT_AFTER]
    assert now < 1.2


def test_the_broker_in_doubt_is_asked_when_the_others_have_been() -> None:
    """It may know the leader by now, even if it cannot name it in its refusals."""
    plan = schedule()
    refreshed(plan, 0.0)
    heard = []
    plan.request(doubted(1))
    heard += [asked(plan, now, range(1, 3)) for now in (1.0, 1.1)]
    plan.request(doubted(1))
    heard += [asked(plan, 2.0, range(1, 3))]
    assert heard == [2, 1, 2]


def test_a_client_does_not_go_to_all_brokers_of_a_large_cluster() -> None:
    plan = schedule()
    refreshed(plan, 0.0)
    heard = set()
    for number in range(100):
        plan.request(doubted(1))
        heard.add(asked(plan, 1.0 + number, range(1, 100)))
    assert len(heard) == WITNESSES + 1


def test_news_end_what_was_asked_in_vain() -> None:
    plan = schedule()
    refreshed(plan, 0.0)
    plan.request(lost(9))
    assert asked(plan, 1.0, NODES) == 1
    plan.request(lost(9))
    assert asked(plan, 1.5, NODES, changed=True) == 2
    plan.request(lost(9))
    plan.started(2.0)
    assert plan.avoid(NODES) == {2}


def test_a_broker_with_another_address_is_not_asked_about_again() -> None:
    """Further questions could lead back to the former address, which a lagging broker names."""
    plan = schedule()
    refreshed(plan, 0.0)
    plan.request(doubted(3))
    plan.started(1.0)
    plan.request(refused(3))
    plan.succeeded(1.0, 1, changed=True, complete=True, moved={3})
    assert not plan.doubted
    assert plan.due_at() == 1.0 + MAX_AGE_MS / 1000
    plan.request(refused(3))
    assert plan.due_at() < 2.0


def test_rule_33_who_denies_a_topic_is_asked_about_it_after_a_leader_in_doubt() -> None:
    plan = schedule()
    plan.request(doubted(3))
    plan.started(1.0)
    plan.succeeded(1.0, 1, changed=False, complete=True)
    assert plan.least_trusted([1, 2, 3], {1, 2}, full=False)[0] == {1, 2}
    assert 3 in plan.least_trusted([1, 2, 3], {1, 2}, full=True)[0]


def test_rule_33_known_brokers_are_at_a_loss_when_others_were_asked_in_vain_about_a_leader_in_doubt() -> None:
    plan = schedule()
    now = 0.0
    for number in range(DOUBT_AFTER):
        assert not plan.at_a_loss([ANY, 3], now), number
        plan.request(doubted(3))
        now = plan.due_at() if number else 0.0
        refreshed(plan, now, changed=False)
    assert plan.at_a_loss([ANY, 3], now)
    plan.request(doubted(3))
    refreshed(plan, now + 0.1, changed=True)
    assert plan.at_a_loss([ANY, 3], now + 0.1), "the next broker may contradict the news"
    assert not plan.at_a_loss([ANY, 3], now + 2.2)


def test_rule_33_an_election_has_patience_before_bootstrap_servers_are_asked() -> None:
    plan = schedule()
    now = 0.0
    while not plan.at_a_loss([ANY], now):
        now = max(now, plan.due_at())
        refreshed(plan, now, changed=False, complete=False)
    assert 1.0 <= now < 1.2
    refreshed(plan, now, changed=True, complete=True)
    assert not plan.at_a_loss([ANY], now + 2.1)


def test_rule_33_a_bootstrap_server_is_asked_as_soon_as_the_known_brokers_are_at_a_loss() -> None:
    plan = schedule()
    now = 1.0
    plan.request(doubted(3))
    while not plan.at_a_loss(KNOWN, now):
        now = max(now, plan.due_at())
        asked(plan, now, KNOWN)
    plan.request(lost(2))  # of another reason, for which the brokers were not asked yet
    plan.started(now)
    assert plan.avoid([*KNOWN, -1]) == {*KNOWN}
    plan.succeeded(now, -1, changed=False, complete=True)
    assert plan.avoid([*KNOWN, -1]) != {*KNOWN}, "once for each loss"
    plan.started(now)
    plan.succeeded(now, -1, changed=False, complete=True, left=True)
    assert plan.avoid([*KNOWN, -1]) == {*KNOWN}, "and for each connection"


def test_rule_33_a_loss_ends_when_patience_has_passed_without_another_sign_of_it() -> None:
    plan = schedule()
    now = 1.0
    while not plan.at_a_loss([ANY], now):
        now = max(now, plan.due_at())
        refreshed(plan, now, changed=False, complete=False)
    assert plan.loss_s(now) == 0
    assert plan.loss_s(now + 1) == 1
    assert plan.loss_s(now + 2.1) == 0


def test_rule_33_brokers_that_contradict_each_other_about_a_leader_in_doubt_bring_no_news() -> None:
    plan = schedule()
    now = 1.0
    plan.request(doubted(3))
    for broker in (1, 2, 1):
        assert not plan.at_a_loss(KNOWN, now)
        now = max(now, plan.due_at())
        plan.started(now)
        plan.succeeded(now, broker, changed=True, complete=broker == 1, leading={3} if broker == 1 else set())
    assert now < 1.2
    assert plan.at_a_loss(KNOWN, now)


def test_rule_33_an_answer_to_another_question_counts_for_a_leader_in_doubt() -> None:
    """Otherwise the broker that keeps naming that leader, always asked for another reason, would never be a witness."""
    plan = schedule()
    now = 1.0
    plan.request(doubted(3))
    for broker in (3, 1, 4):
        now = max(now, plan.due_at())
        plan.started(now)
        plan.succeeded(now, broker, changed=False, complete=False)
    assert not plan.at_a_loss([1, 2, 3, 4], now)
    plan.request(LEADERLESS)
    now = plan.due_at()
    plan.started(now)
    plan.succeeded(now, 2, changed=True, complete=True, leading={3})
    assert plan.at_a_loss([1, 2, 3, 4], now)


def test_rule_33_known_brokers_without_an_answer_are_at_a_loss() -> None:
    plan = schedule()
    for number in range(DOUBT_AFTER):
        assert not plan.at_a_loss([ANY], number)
        plan.started(number)
        plan.failed(number)
    assert plan.at_a_loss([ANY], DOUBT_AFTER)
    refreshed(plan, DOUBT_AFTER)
    assert not plan.at_a_loss([ANY], DOUBT_AFTER + 2.1)

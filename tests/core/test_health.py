"""Conditions that make a consumer unhealthy."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead._core.consumer.health import Facts, Limits, judge

LIMITS = Limits(fetch_s=30, heartbeat_s=45, handler_s=300, tick_s=4)
FINE = Facts(
    unusable=None,
    hungry=True,
    since_start_s=100,
    since_fetch_s=0.5,
    since_heartbeat_s=2,
    grouped=True,
    joined=True,
    kept_out=None,
    coordinator=3,
    handler_s=None,
    since_tick_s=0.7,
    blocked_s=0,
    since_blocked_s=None,
    reachable=True,
)


def test_a_consumer_that_makes_progress_is_healthy() -> None:
    health = judge(FINE, LIMITS)
    assert health.healthy
    assert health.problems == ()
    assert (health.since_fetch_ms, health.since_heartbeat_ms, health.joined, health.coordinator) == (500, 2000, True, 3)
    assert (health.handler_ms, health.blocked_ms, health.since_blocked_ms) == (None, 0, None)


@pytest.mark.parametrize(
    ("facts", "problem"),
    [
        ({"unusable": "the consumer has been stopped", "since_fetch_s": 99}, "^the consumer has been stopped$"),
        ({"since_fetch_s": 31.25}, "no broker has answered a fetch for 31.2 s"),
        ({"since_fetch_s": None}, "no broker has answered a fetch for 100.0 s"),
        ({"since_heartbeat_s": 46}, r"coordinator \(broker 3\) has not acknowledged a heartbeat for 46.0 s"),
        ({"since_heartbeat_s": None, "coordinator": None}, r"coordinator \(not found\)"),
        ({"since_heartbeat_s": 46, "kept_out": "it is full"}, "not been able to join its group for 46.0 s: it is full"),
        ({"handler_s": 301}, "handling its records for 301.0 s"),
        ({"since_tick_s": 15}, "the event loop has been blocked for 15.0 s"),
    ],
)
def test_problems(facts: dict[str, Any], problem: str) -> None:
    health = judge(FINE._replace(**facts), LIMITS)
    assert not health.healthy
    assert not health.live
    [found] = health.problems
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(found)


@pytest.mark.parametrize(
    "facts",
    [
        {"hungry": False, "since_fetch_s": 1000},
        {"grouped": False, "since_heartbeat_s": None},
        {"joined": False, "since_heartbeat_s": 44, "kept_out": "it is full"},
        {"handler_s": 299},
        {"blocked_s": 15, "since_blocked_s": 1},
        {"since_start_s": 5, "since_fetch_s": None, "since_heartbeat_s": None},
    ],
)
def test_what_is_no_problem(facts: dict[str, Any]) -> None:
    """No reader; no group; a place that may become free; a slow handler; a problem that has ended; a start."""
    assert judge(FINE._replace(**facts), LIMITS).healthy


def test_whether_it_joined_is_told_of_groups_alone() -> None:
    assert judge(FINE._replace(grouped=False), LIMITS).joined is None


def test_what_brokers_leave_unanswered_while_none_can_be_reached_is_not_the_process_s_own() -> None:
    away = FINE._replace(reachable=False, since_fetch_s=1000, since_heartbeat_s=1000)
    health = judge(away, LIMITS)
    assert (len(health.problems), health.own_problems, health.healthy, health.live) == (2, (), False, True)
    stuck = judge(away._replace(handler_s=301), LIMITS)
    assert len(stuck.problems) == 3
    assert stuck.own_problems == stuck.problems[2:]
    assert not stuck.live
    stopped = judge(away._replace(unusable="the consumer has been stopped"), LIMITS)
    assert stopped.problems == stopped.own_problems == ("the consumer has been stopped",)


def test_a_coordinator_in_doubt_is_a_problem_when_it_lasts_and_none_of_this_process() -> None:
    doubted = FINE._replace(doubted_s=2.0, doubted_for="broker 1: it loads")
    health = judge(doubted, LIMITS)
    assert (health.healthy, health.coordinator_doubted_ms) == (True, 2000)
    health = judge(doubted._replace(doubted_s=31.0), LIMITS)
    assert health.problems == ("no broker has acted as group coordinator for 31.0 s: broker 1: it loads",)
    assert health.live
    assert judge(FINE, LIMITS).coordinator_doubted_ms is None

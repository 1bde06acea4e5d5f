"""Return to the bootstrap servers: rules 24 to 26 of the leadership rules."""

from __future__ import annotations

import math

import pytest

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.metadata.rebootstrap import RebootstrapCause, RebootstrapPolicy

TRIGGER_MS = 300_000.0


def policy(strategy: str = "rebootstrap") -> RebootstrapPolicy:
    return RebootstrapPolicy(strategy, TRIGGER_MS, Backoff(50, 1000, lambda: 0.5))  # type: ignore[arg-type]


def test_rule_24_nobody_reachable() -> None:
    assert policy().judge(1.0, reachable=False, bootstrapping=False) is RebootstrapCause.UNAVAILABLE


def test_rule_24_somebody_reachable() -> None:
    assert policy().judge(1.0, reachable=True, bootstrapping=False) is None


def test_rule_24_the_bootstrap_servers_themselves_are_not_replaced_by_themselves() -> None:
    assert policy().judge(1.0, reachable=False, bootstrapping=True) is None


@pytest.mark.parametrize("reachable", [True, False])
def test_rule_24_strategy_none_never_does(reachable: bool) -> None:
    never = policy("none")
    never.attempted(0.0)
    assert never.judge(1e9, reachable=reachable, bootstrapping=False) is None
    assert never.times_out_at() == math.inf


def unavailable(decides: RebootstrapPolicy, now: float) -> bool:
    cause = decides.judge(now, reachable=False, bootstrapping=False)
    return cause is RebootstrapCause.UNAVAILABLE


def test_rule_25_the_backoff_survives_rebootstraps() -> None:
    again = policy()
    now = 0.0
    assert unavailable(again, now)
    for wait_s in (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        again.rebootstrapped(now)
        # A bootstrap server that names only unreachable brokers is no recovery.
        again.answered(by_bootstrap_server=True)
        assert not unavailable(again, now + wait_s - 0.001)
        now += wait_s + 0.001
        assert unavailable(again, now)
    again.answered(by_bootstrap_server=False)
    again.rebootstrapped(now)
    assert unavailable(again, now + 0.051)


def test_rule_26_the_timer_starts_at_the_first_attempt_after_the_last_success() -> None:
    timed = policy()
    assert timed.times_out_at() == math.inf
    timed.attempted(100.0)
    timed.attempted(200.0)
    assert timed.times_out_at() == 400.0
    assert timed.judge(399.0, reachable=True, bootstrapping=False) is None
    assert timed.judge(400.0, reachable=True, bootstrapping=False) is RebootstrapCause.TIMED_OUT
    timed.answered(by_bootstrap_server=False)
    assert timed.times_out_at() == math.inf


def test_rule_26_the_timer_starts_anew_after_a_rebootstrap() -> None:
    timed = policy()
    timed.attempted(0.0)
    timed.rebootstrapped(300.0)
    timed.attempted(301.0)
    assert timed.times_out_at() == 601.0


def test_rule_26_the_timer_counts_while_bootstrapping_too() -> None:
    timed = policy()
    timed.attempted(0.0)
    assert timed.judge(300.0, reachable=False, bootstrapping=True) is RebootstrapCause.TIMED_OUT

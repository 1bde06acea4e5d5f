"""Backoff, and the count of failures of each address."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.metadata.reachability import REMEMBERED_ADDRESSES, Reachability
from aiokafka_lead._options.addresses import Search
from aiokafka_lead.errors import (
    KafkaConnectionError,
    KafkaError,
    MisroutedConnectionError,
    SaslAuthenticationFailedError,
    SslAuthenticationError,
)

A, B = ("a", 9092), ("b", 9092)
REFUSED = KafkaConnectionError("refused")


FORKING = """
import os
from aiokafka_lead._core.backoff import Backoff
for _ in range(2):
    child = os.fork()
    if not child:
        break
    os.waitpid(child, 0)
print(Backoff(50, 1000).delay_s(1))
"""
"""Two children and their parent, each with its first wait."""


def middle() -> float:
    return 0.5  # no jitter


def reachability() -> Reachability:
    return Reachability(
        reconnect_backoff_ms=50,
        reconnect_backoff_max_ms=1000,
        setup_timeout_ms=10_000,
        setup_timeout_max_ms=30_000,
        refused_login_ms=30_000,
        rng=middle,
    )


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(50, 1000, middle)
    assert [round(backoff.delay_s(failures) * 1000) for failures in range(8)] == [0, 50, 100, 200, 400, 800, 1000, 1000]


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_waits_stay_within_a_fifth(failures: int, chance: float) -> None:
    wait = Backoff(50, 1000, lambda: chance).delay_s(failures)
    assert wait == 0 if failures == 0 else 0.04 <= wait <= 1.2


def test_an_address_that_leads_astray_is_tried_again_within_600_ms() -> None:
    """Then records continue within a second of the repair, whatever the jitter (KIP-1242)."""
    known, now, waits_s = reachability(), 0.0, []
    for _ in range(10):
        known.failed(A, now, MisroutedConnectionError("another broker"))
        waits_s.append(known.retry_at(A) - now)
        now = known.retry_at(A)
    assert waits_s[-1] == 0.5


def test_an_address_backs_off_alone_and_recovers_at_once() -> None:
    known = reachability()
    assert known.retry_at(A) == 0.0
    known.failed(A, 100.0, REFUSED)
    assert known.retry_at(A) == pytest.approx(100.05)
    assert known.last_error(A) is REFUSED
    assert known.retry_at(B) == 0.0
    assert known.last_error(B) is None
    known.failed(A, 101.0, REFUSED)
    assert known.retry_at(A) == pytest.approx(101.1)
    known.succeeded(A, 100.0)
    assert known.retry_at(A) == 0.0
    assert known.last_error(A) is None
    known.lost(A, 200.0, REFUSED)
    assert known.retry_at(A) == pytest.approx(200.05)


def test_connections_lost_together_are_one_failure() -> None:
    known = reachability()
    for delay in (0.0, 0.001, 0.002):
        known.lost(A, 100.0 + delay, KafkaConnectionError(f"after {delay}"))
    assert known.retry_at(A) == pytest.approx(100.05)
    assert str(known.last_error(A)) == "after 0.002"


def test_the_setup_timeout_grows_with_failed_connects_only() -> None:
    known = reachability()
    assert known.setup_timeout_s(A) == 10
    known.lost(A, 1.0, REFUSED)
    assert known.setup_timeout_s(A) == 10
    known.failed(A, 2.0, REFUSED)
    assert known.setup_timeout_s(A) == pytest.approx(20)
    known.failed(A, 3.0, REFUSED)
    assert known.setup_timeout_s(A) == pytest.approx(30)
    known.succeeded(A, 100.0)
    assert known.setup_timeout_s(A) == 10


def test_memory_is_bounded_and_the_latest_failures_are_kept() -> None:
    known = reachability()
    for port in range(REMEMBERED_ADDRESSES + 10):
        known.failed(("host", port), 1.0, REFUSED)
    assert known.last_error(("host", 0)) is None
    assert known.last_error(("host", REMEMBERED_ADDRESSES)) is REFUSED


def test_a_login_that_never_worked_is_refused_for_good() -> None:
    known = reachability()
    refused = SaslAuthenticationFailedError()
    known.failed(A, 1.0, refused)
    assert not refused.retriable
    assert known.final_error(A) is refused


def test_a_login_that_some_broker_has_accepted_may_be_refused_for_a_while() -> None:
    known = reachability()
    known.succeeded(B, 100.0)
    for at, retriable in ((1.0, True), (30.9, True), (31.0, False)):
        refused = SaslAuthenticationFailedError()
        known.failed(A, at, refused)
        assert refused.retriable is retriable
        assert known.last_error(A) is refused
        assert known.final_error(A) is None
    known.failed(A, 32.0, KafkaConnectionError("refused"))
    refused = SaslAuthenticationFailedError()
    known.failed(A, 33.0, refused)
    assert refused.retriable


def test_tls_is_trusted_where_it_has_worked() -> None:
    """One broker may have a wrong certificate, whatever certificates the rest have."""
    known = reachability()
    known.succeeded(B, 100.0)
    search: Search[KafkaError, None] = known.search(B)
    search.found = {"10.0.0.1": None}
    search.candidates()
    search.begin("10.0.0.1")
    search.reached("10.0.0.1")
    search.succeeded()
    for endpoint, retriable in ((A, False), (B, True)):
        refused = SslAuthenticationError()
        known.lost(endpoint, 1.0, refused)
        assert refused.retriable is retriable
        assert (known.final_error(endpoint) is None) is retriable


def test_a_broker_that_knows_no_more_is_left_after_a_while() -> None:
    known = reachability()
    known.succeeded(A, 100.0)
    assert not known.may_lead_elsewhere(A, 100.5)
    assert known.may_lead_elsewhere(A, 102.5)
    assert known.may_lead_elsewhere(A, 102.5, loss_s=16)
    assert not known.may_lead_elsewhere(A, 102.5, loss_s=60)
    known.succeeded(A, 103.0)
    assert not known.may_lead_elsewhere(A, 103.5)


def test_waits_do_not_follow_from_the_programs_seed() -> None:
    """Many programs seed ``random`` with the same number in each of their processes."""
    waits = []
    for _ in range(2):
        random.seed(1)
        before = random.getstate()
        waits.append([Backoff(50, 1000).delay_s(1) for _ in range(10)])
        assert random.getstate() == before
    assert waits[0] != waits[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_each_child_of_a_fork_has_other_waits() -> None:
    waits = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, check=True, text=True).stdout.split()
    assert len(waits) == len(set(waits)) == 3

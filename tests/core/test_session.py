"""Reauthentication of a connection, and the end of its session (KIP-368)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.connection.sasl.oauthbearer import RefreshWindow
from aiokafka_lead._core.connection.session import ENDLESS, LEAST_USE_S, MAX_LIFETIME_S, MIN_SESSION_S, session_of


def test_a_session_is_renewed_in_time_and_retired_before_its_end() -> None:
    early, late = (session_of(100_000, 10, 10, lambda share=share: share) for share in (0.0, 1.0))  # type: ignore[misc]
    assert (early.renew_at, late.renew_at) == (95, 103)
    assert early.retire_at == late.retire_at == 107


def test_sessions_that_do_not_end() -> None:
    assert session_of(0, 1, 1) == session_of(-1, 1, 1) == session_of(-(2**63), 1, 1) == ENDLESS


@given(st.integers(1, 2**63 - 1), st.floats(0, 1e9), st.floats(0, 60), st.floats(0, 0.999))
def test_no_lifetime_makes_a_client_do_nothing_but_log_in(
    lifetime_ms: int, asked_at: float, took_s: float, share: float
) -> None:
    lasts = session_of(lifetime_ms, asked_at, asked_at + took_s, lambda: share)
    ready_at = asked_at + took_s
    assert ready_at + MIN_SESSION_S <= min(lasts.renew_at, max(lasts.next_login_at, lasts.retire_at))
    if lasts.renew_at > lasts.retire_at:
        assert (lasts.renew_at, lasts.next_login_at) == (math.inf, ready_at + MIN_SESSION_S)
    assert ready_at < lasts.retire_at <= max(asked_at + MAX_LIFETIME_S, ready_at + LEAST_USE_S)


@pytest.mark.parametrize("lifetime_ms", [300, 600, 900, 1050])
def test_a_session_that_is_too_short_is_not_used_to_its_end_and_the_next_login_is_a_second_later(
    lifetime_ms: int,
) -> None:
    lasts = session_of(lifetime_ms, 10, 10.01)
    assert lasts.renew_at == math.inf
    assert lasts.retire_at == pytest.approx(lasts.ends_at - 0.1)
    assert lasts.next_login_at == pytest.approx(11.01)


def test_a_session_that_is_over_at_once_is_used_for_a_moment() -> None:
    assert session_of(1, 10, 12).retire_at == 12 + LEAST_USE_S
    assert session_of(30, 10, 10).retire_at == 10 + LEAST_USE_S


WINDOW = RefreshWindow(0.8, 0.05, 60, 300)


def test_a_token_is_refreshed_as_java_does() -> None:
    assert WINDOW.refresh_after_s(3600, lambda: 0) == pytest.approx(2880)
    assert WINDOW.refresh_after_s(3600, lambda: 1) == pytest.approx(3060)
    # 300 s of its life are reserved...
    assert WINDOW.refresh_after_s(1000, lambda: 0) == 700
    # ... and it serves for at least 60 s...
    assert RefreshWindow(0.8, 0, 1200, 0).refresh_after_s(1300, lambda: 0) == 1200
    # ... if both fit into it.
    assert WINDOW.refresh_after_s(359, lambda: 0) == 359 * 0.8
    assert WINDOW.refresh_after_s(-5, lambda: 0) == 0

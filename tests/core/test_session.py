"""When the connection of a session is made anew, and when it stops taking requests (KIP-368)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.connection.sasl.refresh_window import RefreshWindow
from aiokafka_lead._core.connection.session import ENDLESS, MAX_LIFETIME_S, MIN_SESSION_S, session_of


def test_a_session_is_renewed_in_time_and_retired_before_its_end() -> None:
    early, late = (session_of(100_000, 10, 10, lambda share=share: share) for share in (0.0, 1.0))  # type: ignore[misc]
    assert (early.renew_at, late.renew_at) == (95, 103)
    assert early.retire_at == late.retire_at == 107


def test_sessions_that_do_not_end() -> None:
    assert session_of(0, 1, 1) == session_of(-1, 1, 1) == session_of(-(2**63), 1, 1) == ENDLESS


@given(st.integers(1, 2**63 - 1), st.floats(0, 1e9), st.floats(0, 60), st.floats(0, 0.999))
def test_no_lifetime_makes_a_client_do_nothing_but_log_in(
    lifetime_ms: int, begun_at: float, took_s: float, share: float
) -> None:
    lasts = session_of(lifetime_ms, begun_at, begun_at + took_s, lambda: share)
    assert begun_at + took_s + MIN_SESSION_S <= lasts.renew_at <= lasts.retire_at
    assert lasts.retire_at <= begun_at + max(MAX_LIFETIME_S, took_s + MIN_SESSION_S)


WINDOW = RefreshWindow(0.8, 0.05, 60, 300)


def test_a_token_is_refreshed_as_java_does() -> None:
    assert WINDOW.refresh_after_s(3600, lambda: 0) == pytest.approx(2880)
    assert WINDOW.refresh_after_s(3600, lambda: 1) == pytest.approx(3060)
    # 300 s of its life are to be left...
    assert WINDOW.refresh_after_s(1000, lambda: 0) == 700
    # ... and it is used for 60 s at least...
    assert RefreshWindow(0.8, 0, 1200, 0).refresh_after_s(1300, lambda: 0) == 1200
    # ... where both fit into it.
    assert WINDOW.refresh_after_s(359, lambda: 0) == 359 * 0.8
    assert WINDOW.refresh_after_s(-5, lambda: 0) == 0

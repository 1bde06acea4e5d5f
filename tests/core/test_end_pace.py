"""Delay before a coordinator is first asked for the completion of a transaction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.transactions.errand import ENDED_FOR_SURE_S, LONGEST_S, SHORTEST_S, EndPace


def test_nothing_goes_on_before_the_first_end_and_long_after_one() -> None:
    pace = EndPace()
    assert not pace.goes_on(0.0)
    assert pace.left_s(0.0) == 0.0
    pace.ended(10.0)
    assert pace.goes_on(10.0 + ENDED_FOR_SURE_S * 0.99)
    assert not pace.goes_on(10.0 + ENDED_FOR_SURE_S)


def test_what_was_asked_too_often_is_asked_later_and_what_need_not_wait_sooner() -> None:
    pace = EndPace()
    pace.ended(0.0)
    assert pace.left_s(0.0) == SHORTEST_S
    pace.asked(5)
    later = pace.left_s(0.0)
    assert later > SHORTEST_S
    assert pace.left_s(later / 2) == pytest.approx(later / 2)
    assert pace.left_s(later * 2) == 0.0
    pace.asked(2)
    assert SHORTEST_S <= pace.left_s(0.0) < later


@given(st.lists(st.integers(0, 20)))
def test_the_first_question_is_never_far_off(times: list[int]) -> None:
    pace = EndPace()
    pace.ended(0.0)
    for number in times:
        pace.asked(number)
        assert SHORTEST_S <= pace.left_s(0.0) <= LONGEST_S


@pytest.mark.parametrize("markers_ms", [2, 7, 15])
def test_two_questions_are_enough_in_the_end(markers_ms: int) -> None:
    pace = EndPace()
    pace.ended(0.0)
    asked = []
    for _ in range(60):
        early = pace.left_s(0.0) * 1000 < markers_ms
        asked.append(4 if early else 2)
        pace.asked(asked[-1])
    assert sum(asked[30:]) / 30 < 3

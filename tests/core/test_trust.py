"""End of patience with a broker (rule 33)."""

from __future__ import annotations

from aiokafka_lead._core.trust import DOUBT_AFTER, Trust, patience_of

PATIENCE_S = patience_of(1000)


def test_three_refusals_in_a_row_lead_to_doubt() -> None:
    trust = Trust()
    assert not trust.in_doubt(0.0, PATIENCE_S)
    assert [trust.refused(now, now, PATIENCE_S) for now in (1.0, 1.1, 1.2)] == [False, False, True]
    assert trust.refusals == DOUBT_AFTER
    assert trust.refused_since == 1.0


def test_a_first_refusal_leads_to_doubt_when_two_of_the_longest_backoffs_have_passed() -> None:
    trust = Trust()
    assert not trust.refused(1.0, 1.5, PATIENCE_S)
    assert not trust.in_doubt(2.9, PATIENCE_S)
    assert trust.in_doubt(3.0, PATIENCE_S)


def test_a_refusal_that_took_long_leads_to_doubt_at_once() -> None:
    assert Trust().refused(1.0, 31.0, PATIENCE_S)


def test_success_ends_the_doubt() -> None:
    trust = Trust()
    for now in (1.0, 1.1, 1.2):
        trust.refused(now, now, PATIENCE_S)
    trust.confirmed()
    assert not trust.in_doubt(9.0, PATIENCE_S)
    assert not trust.refused(9.0, 9.0, PATIENCE_S)
    assert trust.refused_since == 9.0

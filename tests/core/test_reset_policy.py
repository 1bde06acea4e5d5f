from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.consumer.reset_policy import EARLIEST, LATEST, parse_reset_policy
from aiokafka_lead.errors import ConfigError


def test_the_plain_names() -> None:
    assert parse_reset_policy("earliest") is EARLIEST
    assert parse_reset_policy("latest") is LATEST
    assert parse_reset_policy("none") is None
    assert EARLIEST.timestamp_at(5) == -2
    assert LATEST.timestamp_at(5) == -1


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT1H", 3_600_000),
        ("P1D", 86_400_000),
        ("P1DT12H30M5S", 131_405_000),
        ("PT0.250S", 250),
        ("PT0,5S", 500),
        ("pt90m", 5_400_000),
        ("PT0S", 0),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    policy = parse_reset_policy(f"by_duration:{text}")
    assert policy is not None
    assert policy.duration_ms == duration_ms
    assert policy.timestamp_at(200_000_000) == 200_000_000 - duration_ms


def test_a_duration_before_the_epoch_asks_from_the_epoch_on() -> None:
    policy = parse_reset_policy("by_duration:P3650000D")
    assert policy is not None
    assert policy.timestamp_at(1_000) == 0


@pytest.mark.parametrize(
    "text", ["", "Earliest", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1H",
             "by_duration:P1DT", "by_duration:-PT1H", "by_duration:PT1H ", "by_duration:P1Y"]
)  # fmt: skip
def test_anything_else_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="auto_offset_reset"):
        parse_reset_policy(text)


@given(st.text())
def test_no_text_gets_another_error(text: str) -> None:
    try:
        parse_reset_policy(f"by_duration:{text}")
    except ConfigError:
        pass

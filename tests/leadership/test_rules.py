"""Names of tests refer to rules that the package states."""

from __future__ import annotations

import re
from pathlib import Path

from aiokafka_lead._core import leadership

RULES = {int(number) for number in re.findall(r"^    (\d+)\. ", leadership.__doc__ or "", re.MULTILINE)}
TESTS = Path(__file__).parents[1]


def test_the_rules_are_numbered_without_a_gap() -> None:
    assert set(range(1, len(RULES) + 1)) == RULES


def test_each_rule_that_a_test_names_stands_in_the_text_and_each_rule_has_a_test() -> None:
    named = {
        int(number)
        for path in TESTS.rglob("test_*.py")
        for numbers in re.findall(r"def test_rule_(\d+(?:_and_\d+)*)_", path.read_text())
        for number in numbers.split("_and_")
    }
    assert named <= RULES
    untested = RULES - named
    assert not untested, f"no test named after rule {sorted(untested)}"

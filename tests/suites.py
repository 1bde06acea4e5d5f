"""Parameters of tests that only the larger suites run; see ``--suite`` in conftest.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

ALL = pytest.mark.suite("all")


def crossed(cases: Iterable[Any], first: int = 1) -> list[Any]:
    """Return the cases for ``parametrize``: the ``first`` run in the suite "test", all of them in "all".

    Use it for combinations that test nothing new: another command, another signal, another codec.
    """
    return [
        case if number < first else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=ALL)
        for number, case in enumerate(cases)
    ]

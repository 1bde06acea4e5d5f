"""Tests of the codec run on both variants: compiled if available, and the plain Python source."""

from __future__ import annotations

from typing import Any

import pytest

from .variants import VARIANTS


@pytest.fixture(params=list(VARIANTS), scope="session")
def codec(request: pytest.FixtureRequest) -> Any:
    """`aiokafka_lead._records`, once compiled and once pure."""
    return VARIANTS[request.param]

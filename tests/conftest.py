"""What every test shares: the two event loops, and Hypothesis profiles that never flake."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# "default" draws the same examples each time, so that a run says something about the code and not about luck;
# HYPOTHESIS_PROFILE=deep looks further with new random examples. No deadline: the machine may be busy.
settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loop that a test marked ``anyio`` runs on: each one in turn."""
    backend: str = request.param
    return backend

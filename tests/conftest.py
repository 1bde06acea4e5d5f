"""What every test shares: the two event loops, and Hypothesis profiles that never flake."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings

from . import kerberos

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


_NO_KERBEROS = "no Kerberos here"


@pytest.fixture(scope="session")
def realm() -> Iterator[kerberos.Realm]:
    """A Kerberos realm with a KDC that runs."""
    wanting = kerberos.missing()
    if wanting is not None:
        # In CI these tests are the proof, so that a machine without Kerberos must not pass.
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(f"CI needs Kerberos: {wanting}")
        pytest.skip(f"{_NO_KERBEROS}: {wanting}")
    found = kerberos.Realm()
    try:
        found.start()
        yield found
    finally:
        found.stop()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Say aloud how many tests did not run for want of Kerberos."""
    reasons = [
        report.longrepr[2].partition(f"{_NO_KERBEROS}: ")[2]
        for report in terminalreporter.stats.get("skipped", ())
        if isinstance(report.longrepr, tuple) and _NO_KERBEROS in report.longrepr[2]
    ]
    if reasons:
        text = f"{len(reasons)} tests of Kerberos were SKIPPED: {reasons[0]}"
        terminalreporter.write_sep("!", text, red=True, bold=True)

"""What every test shares: the two event loops, and Hypothesis profiles that never flake."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings

from . import kerberos
from .names import Names, resolving
from .oidc import certified_provider
from .ports import PortPool

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


@pytest.fixture
def handler_of_python() -> Iterator[None]:
    """Ctrl-C is as Python has it, here and in processes of the test.

    Another library's handler may stay in this process, and a shell has its background jobs ignore Ctrl-C.
    """
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.fixture
def ports() -> Iterator[PortPool]:
    """Ports that nobody listens on, but a broker or a server that the test starts there."""
    with PortPool() as pool:
        yield pool


@pytest.fixture
def names() -> Iterator[Names]:
    """Names of the test's own, and their addresses."""
    with resolving() as table:
        yield table


_NO_KERBEROS = "no Kerberos here"
_NO_PROVIDER = "no OpenID provider here"


def _skip(reason: str, wanting: str) -> NoReturn:
    # In CI these tests are the proof, so that a machine that lacks something must not pass.
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(f"CI must not skip: {reason}: {wanting}")
    pytest.skip(f"{reason}: {wanting}")


@pytest.fixture(scope="session")
def openid_provider() -> Path:
    """Where the certified OpenID provider is installed."""
    try:
        return certified_provider.install()
    except certified_provider.ProviderUnavailableError as error:
        _skip(_NO_PROVIDER, str(error))


@pytest.fixture(scope="session")
def realm() -> Iterator[kerberos.Realm]:
    """A Kerberos realm with a KDC that runs."""
    wanting = kerberos.missing()
    if wanting is not None:
        _skip(_NO_KERBEROS, wanting)
    found = kerberos.Realm()
    try:
        found.start()
        yield found
    finally:
        found.stop()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Say aloud how many tests did not run for want of Kerberos, or of an OpenID provider."""
    for lacking in (_NO_KERBEROS, _NO_PROVIDER):
        reasons = [
            report.longrepr[2].partition(f"{lacking}: ")[2]
            for report in terminalreporter.stats.get("skipped", ())
            if isinstance(report.longrepr, tuple) and lacking in report.longrepr[2]
        ]
        if reasons:
            text = f"{len(reasons)} tests were SKIPPED, {lacking}: {reasons[0]}"
            terminalreporter.write_sep("!", text, red=True, bold=True)

"""What every test shares: the two event loops, and Hypothesis profiles that never flake."""

from __future__ import annotations

import functools
import gc
import os
import re
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import HealthCheck, settings

from . import kerberos
from .names import Names, resolving
from .oidc import certified_provider
from .outbox.postgres import Postgres, programs
from .ports import PortPool
from .proxies import NO_PROXIES

# "all" draws the same examples each time, so that a run says something about the code and not about luck. The smaller
# suites draw some of them, HYPOTHESIS_PROFILE=deep many new ones. No deadline: the machine may be busy.
settings.register_profile("all", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("test", settings.get_profile("all"), max_examples=50)
settings.register_profile("quick", settings.get_profile("all"), max_examples=34)

_SUITES = ("quick", "test", "all")
"""Each has what those before it have, and more."""
_QUICK = ("core", "records", "smoke", "wire")
"""The folders of the quick suite: what a change needs first."""
_ON_BOTH_LOOPS = ("io", "leadership", "smoke")
"""The folders whose tests run on trio in the suite "test", since they are of sockets and tasks. Elsewhere, where policy
is tested through clients, those marked ``both_loops`` do; ``both_loops(False)`` leaves out one test of such a file."""
_TOGETHER = ("tests/spark/", "tests/schema/")
"""Folders that share what takes long to start, Spark or a registry: each is the work of one process."""
_KAFKA = "tests/kafka/"
_OTHER_KAFKA = re.compile(r"\[[^]]*kafka_|/test_(acls|admin_quorum|assignors_agree|telemetry)\.py")
"""Tests of other clusters than the largest one, and of none: they are the work of a second process."""
_LONGEST = (_KAFKA, *_TOGETHER)
"""What begins first, so that no process is left with it at the end."""
_HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--suite",
        choices=_SUITES,
        default="all",
        help="quick: what a change needs first; test: all but what is only crossed with more; all (the default)",
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or str(config.getoption("suite")))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector of garbage from what stays until the end: tests that call it would wait half a second each."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave what is not in the quick suite alone: to import it takes half of the time."""
    is_quick = collection_path.parent != _HERE or collection_path.name in _QUICK
    return None if is_quick or config.getoption("suite") != "quick" else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep those of the suite that was asked for, the longest folders first."""
    asked = _SUITES.index(config.getoption("suite"))
    parts: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        parts[_SUITES.index(_suite(item)) <= asked].append(item)
    items[:] = sorted(parts[True], key=lambda item: not item.nodeid.startswith(_LONGEST))
    config.hook.pytest_deselected(items=parts[False])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist=loadfile``, more than a file is the work of one process if its tests share what starts slowly."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrMore(LoadFileScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(_KAFKA):
                return "other Kafka" if _OTHER_KAFKA.search(nodeid) else "Kafka"
            return next((folder for folder in _TOGETHER if nodeid.startswith(folder)), super()._split_scope(nodeid))

    return ByFileOrMore(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let Apache Kafka go first where tests run side by side: brokers that starve lose sessions."""
    if "PYTEST_XDIST_WORKER" in os.environ and not item.nodeid.startswith(_KAFKA):
        _step_back()


@functools.cache
def _step_back() -> None:
    if hasattr(os, "nice"):
        os.nice(5)


def _suite(item: pytest.Item) -> str:
    """The first suite that has a test."""
    marker = item.get_closest_marker("suite")
    if marker is not None:
        (suite,) = marker.args
        return str(suite)
    folder = item.nodeid.split("/")[1]
    if _is_second_loop(item) and not _is_on_both_loops(item, folder):
        return "all"
    return "quick" if folder in _QUICK else "test"


def _is_on_both_loops(item: pytest.Item, folder: str) -> bool:
    marker = item.get_closest_marker("both_loops")
    return folder in _ON_BOTH_LOOPS if marker is None else marker.args != (False,)


def _is_second_loop(item: pytest.Item) -> bool:
    """Whether a test runs on trio, and on asyncio as well: it has not chosen its loop itself."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    chosen = any("anyio_backend" in marker.args[0] for marker in item.iter_markers("parametrize"))
    return parameters.get("anyio_backend") == "trio" and not chosen


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
_NO_POSTGRES = "no PostgreSQL here"


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server that runs."""
    if programs() is None:
        _skip(_NO_POSTGRES, "apt-get install postgresql")
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.close()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Say aloud how many tests did not run for want of Kerberos, an OpenID provider, PostgreSQL or proxies."""
    for lacking in (_NO_KERBEROS, _NO_PROVIDER, _NO_POSTGRES, NO_PROXIES):
        reasons = [
            report.longrepr[2].partition(f"{lacking}: ")[2]
            for report in terminalreporter.stats.get("skipped", ())
            if isinstance(report.longrepr, tuple) and lacking in report.longrepr[2]
        ]
        if reasons:
            text = f"{len(reasons)} tests were SKIPPED, {lacking}: {reasons[0]}"
            terminalreporter.write_sep("!", text, red=True, bold=True)

"""Setup shared by all tests: the two event loops, and Hypothesis profiles that never flake."""

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

# "all" draws the same examples each time, so that a failure comes from the code and not from chance. The smaller suites
# draw some of these examples, and HYPOTHESIS_PROFILE=deep draws many new examples. There is no deadline, because the
# machine may be busy.
settings.register_profile("all", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", deadline=None, max_examples=5000, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("test", settings.get_profile("all"), max_examples=50)
settings.register_profile("quick", settings.get_profile("all"), max_examples=34)

_SUITES = ("quick", "test", "all")
"""Suites; each includes all previous suites."""
_QUICK = ("core", "records", "smoke", "wire")
"""Folders of the quick suite, which is run first after a change."""
_ON_BOTH_LOOPS = ("io", "smoke")
"""Folders whose tests also run on trio in the suite "test", because they exercise sockets and tasks.

In other folders, files and tests marked ``both_loops`` run on trio: tests of cancellation, and one file of each folder.
"""
_TOGETHER = {
    "other Kafka": re.compile(
        r"tests/kafka/(.*\[[^]]*kafka_|test_(acls|admin_quorum|assignors_agree|telemetry)\.py|.*before_the_markers)"
    ),
    "Kafka": re.compile("tests/kafka/"),
    "Spark's programs": re.compile(r"tests/spark/test_(connect|pipeline|standalone)\.py"),
    "Spark": re.compile(r"tests/spark/|\[docs/spark"),
    "registries": re.compile("tests/schema/"),
}
"""Groups of tests that share something slow to start, such as the largest cluster or Spark. One process runs each."""
_LONGEST = ("Kafka", "Spark", "other Kafka", "Spark's programs", "registries")
"""Groups in the order in which they start, before all other tests, so that no group runs alone at the end."""
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
    """Exclude permanent objects from garbage collection, which would take 0.5 s longer in each test that collects."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files outside the quick suite: importing them takes half of its time."""
    is_quick = collection_path.parent != _HERE or collection_path.name in _QUICK
    return None if is_quick or config.getoption("suite") != "quick" else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the selected suite."""
    asked = _SUITES.index(config.getoption("suite"))
    parts: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        parts[_SUITES.index(_suite(item)) <= asked].append(item)
    items[:] = parts[True]
    config.hook.pytest_deselected(items=parts[False])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With ``--dist=loadfile``, run each of the groups `_TOGETHER` in one process, before all other tests."""
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrMore(LoadFileScheduling):  # type: ignore[misc]  # it has no types
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid) or super()._split_scope(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            first = next((group for group in _LONGEST if group in self.workqueue), None)
            if first is not None:
                self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    return ByFileOrMore(config, log) if config.getoption("dist") == "loadfile" else None


def _group(nodeid: str) -> str | None:
    return next((group for group, tests in _TOGETHER.items() if tests.search(nodeid)), None)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give Kafka and Spark priority over concurrent tests.

    Starved brokers lose sessions, and Spark abandons a Python worker that takes 10 s to start. They get three times a
    test's share of the processor. A lower priority of the tests would instead starve them if other programs are busy.
    """
    if "PYTEST_XDIST_WORKER" in os.environ and _group(item.nodeid) in (None, "registries"):
        _step_back()


@functools.cache
def _step_back() -> None:
    if hasattr(os, "nice"):
        os.nice(5)


def _suite(item: pytest.Item) -> str:
    """Return the first suite that includes the test."""
    marker = item.get_closest_marker("suite")
    if marker is not None:
        (suite,) = marker.args
        return str(suite)
    folder = item.nodeid.split("/")[1]
    if _is_second_loop(item) and folder not in _ON_BOTH_LOOPS and item.get_closest_marker("both_loops") is None:
        return "all"
    return "quick" if folder in _QUICK else "test"


def _is_second_loop(item: pytest.Item) -> bool:
    """Return True for the trio run of a test that also runs on asyncio, unless the test chooses its loop itself."""
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    chosen = any("anyio_backend" in marker.args[0] for marker in item.iter_markers("parametrize"))
    return parameters.get("anyio_backend") == "trio" and not chosen


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Event loop of a test marked ``anyio``: each test runs on asyncio and on trio."""
    backend: str = request.param
    return backend


@pytest.fixture
def handler_of_python() -> Iterator[None]:
    """Restore Python's handler of Ctrl-C, here and in processes that the test starts.

    Another library may have left its handler in this process, and background jobs of a shell ignore Ctrl-C.
    """
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


@pytest.fixture
def ports() -> Iterator[PortPool]:
    """Ports without a listener until the test starts a broker or a server there."""
    with PortPool() as pool:
        yield pool


@pytest.fixture
def names() -> Iterator[Names]:
    """Host names that exist only in the test, and their addresses."""
    with resolving() as table:
        yield table


_NO_KERBEROS = "no Kerberos here"
_NO_PROVIDER = "no OpenID provider here"
_NO_POSTGRES = "no PostgreSQL here"


def _skip(reason: str, wanting: str) -> NoReturn:
    # CI has to run these tests, so it must not pass on a machine that lacks a dependency.
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(f"CI must not skip: {reason}: {wanting}")
    pytest.skip(f"{reason}: {wanting}")


@pytest.fixture(scope="session")
def openid_provider() -> Path:
    """Installation of the certified OpenID provider."""
    try:
        return certified_provider.install()
    except certified_provider.ProviderUnavailableError as error:
        _skip(_NO_PROVIDER, str(error))


@pytest.fixture(scope="session")
def realm() -> Iterator[kerberos.Realm]:
    """Kerberos realm with a running KDC."""
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
    """Running PostgreSQL server."""
    if programs() is None:
        pytest.skip(f"{_NO_POSTGRES}: apt-get install postgresql")
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.close()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Report how many tests were skipped for lack of Kerberos, an OpenID provider, PostgreSQL or proxies."""
    for lacking in (_NO_KERBEROS, _NO_PROVIDER, _NO_POSTGRES, NO_PROXIES):
        reasons = [
            report.longrepr[2].partition(f"{lacking}: ")[2]
            for report in terminalreporter.stats.get("skipped", ())
            if isinstance(report.longrepr, tuple) and lacking in report.longrepr[2]
        ]
        if reasons:
            text = f"{len(reasons)} tests were SKIPPED, {lacking}: {reasons[0]}"
            terminalreporter.write_sep("!", text, red=True, bold=True)

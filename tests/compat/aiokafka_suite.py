"""aiokafka's own tests of its producer, consumer and admin client, against `aiokafka_lead.compat`:

    python -m tests.compat.aiokafka_suite CHECKOUT [--kafka BROKERS] [--client compat|aiokafka] [-- OPTIONS]

CHECKOUT is a clone of aiokafka's repository; the command does not fetch it. The tests run on an embedded cluster; with
``--kafka``, on this many brokers of a real Apache Kafka, and then include TLS, SASL and access control lists.
``--client aiokafka`` runs the same tests on the installed aiokafka, for comparison. Tests that use or replace internals
of aiokafka are left out, since they do not apply to another implementation (``--list`` prints their names and the
internals).
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import gc
import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .aiokafka_brokers import Brokers, embedded, kafka

FILES = (
    "test_admin",
    "test_consumer",
    "test_helpers",
    "test_partitioner",
    "test_pep492",
    "test_producer",
    "test_transactional_consumer",
    "test_transactional_producer",
)
SECURITY_FILES = ("test_sasl",)
"""Files for brokers with users and access control lists."""

DOCUMENTED = {
    "_client", "_closed", "_coordinator", "_get_cluster_metadata", "_group_id", "_loop", "_subscription",
    "_wait_on_metadata",
}  # fmt: skip
"""Private attributes that `compat` has for other libraries."""

PUBLIC_ROOMS = {
    "aiokafka", "aiokafka.abc", "aiokafka.admin", "aiokafka.admin.config_resource", "aiokafka.client",
    "aiokafka.consumer", "aiokafka.errors", "aiokafka.helpers", "aiokafka.partitioner", "aiokafka.producer",
    "aiokafka.structs", "aiokafka.util",
}  # fmt: skip

KERBEROS = {"kerberos_utils"}
"""Features of the tests' own containers that no broker here has."""
TLS = {"kafka_ssl_port", "create_ssl_context"}
"""Features of a real Kafka that the embedded cluster lacks in the form that these tests use."""


def files(*, security: bool) -> tuple[str, ...]:
    """Return the test files for such brokers."""
    return FILES + SECURITY_FILES if security else FILES


def internal_names(module: ast.Module) -> set[str]:
    """Return a test file's imports from outside aiokafka's interface."""
    found: set[str] = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "aiokafka":
            if node.module not in PUBLIC_ROOMS or node.module == "aiokafka.consumer":
                found |= {name.asname or name.name for name in node.names} - {"AIOKafkaConsumer"}
        elif isinstance(node, ast.ImportFrom) and node.module == "unittest":
            found |= {name.name for name in node.names}
    return found


def touched(test: ast.AST, internal: set[str], needs: set[str]) -> set[str]:
    """Return the features a test uses that other implementations, or these brokers, lack."""
    found: set[str] = set()
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute):
            name = node.attr
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            if (
                name.startswith("_") and not name.startswith("__") and not own and name not in DOCUMENTED
            ) or name in needs:
                found.add(name)
        elif isinstance(node, ast.Name) and node.id in internal:
            found.add(node.id)
    return found


def left_out(folder: Path, *, security: bool) -> dict[str, set[str]]:
    """Return the tests that use internals, or features the brokers lack, by "file::test", with the names used."""
    needs = KERBEROS if security else KERBEROS | TLS
    found = {}
    for name in files(security=security):
        module = ast.parse((folder / f"{name}.py").read_text())
        internal = internal_names(module)
        helpers = {
            node.name: touched(node, internal, needs)
            for node in ast.walk(module)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("test_")
        }
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                uses = touched(node, internal, needs)
                for call in ast.walk(node):
                    if isinstance(call, ast.Attribute):
                        uses |= helpers.get(call.attr, set())
                if uses:
                    found[f"{name}::{node.name}"] = uses
    return found


class _Internal(types.ModuleType):
    """A module of aiokafka's internals: test files can import its names, but not use them."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class Suite:
    """The pytest plugin, in place of the tests' own conftest."""

    def __init__(self, brokers: Brokers, out: dict[str, set[str]]) -> None:
        self._brokers = brokers
        self._out = out
        self.results: dict[str, str] = {}
        self.why: dict[str, str] = {}

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out the tests that use internals, or need other brokers."""
        out = [item for item in items if f"{Path(item.path).stem}::{item.name.partition('[')[0]}" in self._out]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]

    @pytest.fixture(scope="class")
    def loop(self) -> Iterator[asyncio.AbstractEventLoop]:
        """Event loop of a class of tests."""
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        yield loop
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        gc.collect()
        asyncio.set_event_loop(None)

    @pytest.fixture
    def ssl_folder(self) -> Path:
        """Certificates of the tests' own containers."""
        if self._brokers.ssl_folder is None:
            pytest.skip("needs certificates")
        return self._brokers.ssl_folder

    @pytest.fixture(scope="class")
    def setup_test_class_serverless(self, request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
        """Set up tests without a broker."""
        tests: Any = request.cls
        tests.loop = loop

    @pytest.fixture(scope="class")
    def setup_test_class(self, request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> None:
        """Set up tests with a broker."""
        tests: Any = request.cls
        tests.loop = loop
        self._brokers.give(tests)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of each test."""
        if report.when == "call" or report.outcome != "passed":
            self.results[report.nodeid] = report.outcome
            if report.outcome == "failed":
                self.why[report.nodeid] = str(report.longrepr).strip().splitlines()[-1]


def main() -> int:
    """Run the tests; return the number of failed tests."""
    parser = argparse.ArgumentParser(prog="python -m tests.compat.aiokafka_suite", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--kafka", type=int, metavar="BROKERS", help="so many brokers of a real Apache Kafka")
    parser.add_argument("--client", choices=["compat", "aiokafka"], default="compat")
    parser.add_argument("--list", action="store_true", help="name the tests that are left out, and why")
    own, rest = sys.argv[1:], []
    if "--" in own:
        rest = own[own.index("--") + 1 :]
        own = own[: own.index("--")]
    given = parser.parse_args(own)
    folder = given.checkout.resolve() / "tests"
    security = given.kafka is not None
    out = left_out(folder, security=security)
    if given.list:
        for name, uses in sorted(out.items()):
            print(name, "touches", ", ".join(sorted(uses)))
        return 0
    with kafka(given.kafka) if security else embedded() as brokers:
        _have_client(given.client, given.checkout.resolve())
        suite = Suite(brokers, out)
        paths = [str(folder / f"{name}.py") for name in files(security=security)]
        options = ["--noconftest", "-p", "no:cacheprovider", "-p", "no:asyncio", "-o", "addopts=", "-W", "default"]
        options += ["--rootdir", str(folder.parent), "-o", "filterwarnings=", "--timeout", "150", "-q"]
        pytest.main([*options, *rest, *paths], plugins=[suite])
    failed = [name for name, outcome in suite.results.items() if outcome == "failed"]
    outcomes = list(suite.results.values())
    for name in failed:
        print(f"failed: {name}: {suite.why.get(name, '')}")
    passed, skipped = outcomes.count("passed"), outcomes.count("skipped")
    print(f"{given.client}: {passed} passed, {len(failed)} failed, {skipped} skipped, {len(out)} left out")
    return len(failed)


def _have_client(client: str, checkout: Path) -> None:
    """Make ``import aiokafka`` give this client, and ``tests`` the checkout's."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    if client == "aiokafka":
        import aiokafka

        assert "site-packages" in aiokafka.__file__
    else:
        import aiokafka_lead.compat

        aiokafka_lead.compat.install()
        for name in ("consumer.fetcher", "conn", "record", "record.default_records", "protocol.produce",
                     "protocol.commit", "protocol.group", "producer.transaction_manager"):  # fmt: skip
            sys.modules.setdefault(f"aiokafka.{name}", _Internal(f"aiokafka.{name}"))
        for package, names in {"client": ("ConnectionGroup", "CoordinationType"), "consumer": ("fetcher",),
                               "consumer.group_coordinator": ("CoordinatorGroupRebalance", "NoGroupCoordinator"),
                               "util": ("NO_EXTENSIONS",)}.items():  # fmt: skip
            for name in names:
                module: Any = importlib.import_module(f"aiokafka.{package}")
                if not hasattr(module, name):
                    setattr(module, name, type(name, (), {}))
    sys.path.insert(0, str(checkout))


if __name__ == "__main__":
    sys.exit(main())

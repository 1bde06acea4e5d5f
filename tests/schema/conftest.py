"""A cluster for each test, and registries: the embedded one, and a real one if Java is installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from _pytest.terminal import TerminalReporter

from aiokafka_lead.testing import EmbeddedSchemaRegistry
from tests.embedded import cluster_with

from ..kafka.harness import JavaUnavailableError
from . import apicurio

cluster = cluster_with(brokers=1, orders=1)

_NO_JAVA = "no real schema registry here"


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Report how many tests were skipped for lack of Java."""
    reports = terminalreporter.stats.get("skipped", ())
    missing = [r for r in reports if isinstance(r.longrepr, tuple) and _NO_JAVA in r.longrepr[2]]
    if missing:
        text = f"{len(missing)} tests against a real schema registry were SKIPPED: {_NO_JAVA}"
        terminalreporter.write_sep("!", text, red=True, bold=True)


@pytest.fixture(scope="session")
def real_registry() -> Iterator[apicurio.Apicurio]:
    """Apicurio's registry, for the session."""
    try:
        with apicurio.running() as registry:
            yield registry
    except JavaUnavailableError as error:
        # CI has to run these tests, so it must not pass on a machine without Java.
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(f"CI needs a real schema registry: {error}")
        pytest.skip(f"{_NO_JAVA}: {error}")


@pytest.fixture(scope="session")
def java_serdes(real_registry: apicurio.Apicurio) -> Iterator[apicurio.JavaSerdes]:
    """Java's serializers of Avro and JSON, in one process for the session."""
    with real_registry.serdes() as program:
        yield program


@pytest.fixture(scope="session")
def java_protobuf(real_registry: apicurio.Apicurio) -> Iterator[apicurio.JavaProtobuf]:
    """Java's serializer of Protobuf, in one process for the session."""
    with real_registry.protobuf() as program:
        yield program


class Place(NamedTuple):
    """A registry of either kind."""

    url: str
    has_guids: bool


@pytest.fixture(params=["embedded", "apicurio"])
def any_registry(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Both registries in turn: the embedded one behaves like the real one."""
    if request.param == "apicurio":
        registry: apicurio.Apicurio = request.getfixturevalue("real_registry")
        yield Place(registry.url, has_guids=False)
        return
    with EmbeddedSchemaRegistry(compatibility="NONE") as embedded:
        yield Place(embedded.url, has_guids=True)


@pytest.fixture
def name() -> str:
    """A topic or subject that no other test uses."""
    return f"orders-{os.urandom(4).hex()}"

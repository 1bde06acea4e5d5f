"""Tests of third-party libraries, on aiokafka and on `aiokafka_lead.compat`, against an embedded cluster."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aiokafka_lead.testing import ClusterThread, EmbeddedCluster


@dataclass(frozen=True, slots=True)
class Suite:
    """Place of a library's tests of Kafka in its repository."""

    paths: Sequence[str]
    folder: str = "."
    imports: str = "."
    """Folder of modules that the tests share."""
    options: Sequence[str] = ()
    port: int = 0
    """Port of the cluster, for tests with an address of their own; 0 for any."""


SUITES = {
    "faststream": Suite(["tests/brokers/kafka"], options=["-o", "asyncio_mode=auto", "-m", "kafka"], port=9092),
    "taskiq-aio-kafka": Suite(["tests"], port=9092),
    "ktables": Suite(["tests"], options=["--noconftest", "-o", "asyncio_mode=auto"]),
    "kstreams": Suite(["tests"], options=["-o", "asyncio_mode=auto", "--ignore", "tests/test_benchmarks.py"]),
    "amgi-aiokafka": Suite(
        ["tests_amgi_aiokafka"],
        folder="packages/amgi-aiokafka",
        imports="packages/test-utils/src",
        options=["-o", "asyncio_mode=auto"],
    ),
    "opentelemetry-instrumentation-aiokafka": Suite(
        ["tests"], folder="instrumentation/opentelemetry-instrumentation-aiokafka"
    ),
    "broadcaster": Suite(["tests"], options=["-k", "kafka"], port=9092),
}
"""Suites by distribution."""

PLUGIN = """
import os

if os.environ["CLIENT"] == "compat":
    import aiokafka_lead.compat

    aiokafka_lead.compat.install()

import pytest

@pytest.fixture(scope="session")
def bootstrap():
    return os.environ["SERVERS"]
"""
"""Loaded by the tests' pytest. The fixture replaces ktables' own, which starts a container."""
CONTAINERS = """
import os

class KafkaContainer:
    def __init__(self, *_, **__): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def get_bootstrap_server(self): return os.environ["SERVERS"]
"""
"""In place of testcontainers.kafka."""


def compared(python: str, name: str, checkout: Path) -> tuple[int, int, list[str]]:
    """Run a suite on both clients; return the numbers of passed tests, and the tests with different outcomes."""
    suite = SUITES[name]
    outcomes = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "lead_trial.py").write_text(PLUGIN)
        (folder / "testcontainers").mkdir()
        (folder / "testcontainers" / "kafka.py").write_text(CONTAINERS)
        (folder / "aiokafka_lead").symlink_to(Path(__file__).parents[2] / "aiokafka_lead")
        for client in ("aiokafka", "compat"):
            cluster = EmbeddedCluster(1, ports=[suite.port] if suite.port else None)
            with ClusterThread(cluster) as thread:
                outcomes.append(_outcomes(python, suite, checkout, client, thread.bootstrap_servers, folder))
    on_aiokafka, on_compat = outcomes
    differences = [
        f"{test}: {on_aiokafka.get(test)} on aiokafka, {on_compat.get(test)} on compat"
        for test in sorted(on_aiokafka.keys() | on_compat.keys())
        if on_aiokafka.get(test) != on_compat.get(test)
    ]
    passed = [sum(outcome == "PASSED" for outcome in one.values()) for one in outcomes]
    return passed[0], passed[1], differences


def _outcomes(python: str, suite: Suite, checkout: Path, client: str, servers: str, plugins: Path) -> dict[str, str]:
    """Return the outcome of each test."""
    paths = os.pathsep.join([str(plugins), str(checkout.resolve() / suite.imports)])
    environment = os.environ | {"CLIENT": client, "SERVERS": servers, "PYTHONPATH": paths}
    options = [
        "-p",
        "lead_trial",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        "-rA",
        "-q",
        "--tb",
        "native",
        "--timeout",
        "120",
    ]
    done = subprocess.run(
        [python, "-m", "pytest", *options, *suite.options, *suite.paths],
        cwd=checkout / suite.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {}
    for line in done.stdout.splitlines():
        outcome, _, rest = line.partition(" ")
        if outcome in ("PASSED", "FAILED", "ERROR", "XFAIL", "XPASS") and "::" in rest:
            found[rest.partition(" - ")[0]] = outcome
    return found

"""Fixtures of the Spark tests: an embedded cluster for each module, and one Spark session for all of them.

Most tests call the readers as Spark's Python workers do, without a JVM; the rest request ``spark``.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _pytest.terminal import TerminalReporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aiokafka_lead.testing.thread import ClusterThread

_ROOT = Path(__file__).parents[2]
_NO_JAVA = "no Java for Spark"
SPARK_TIMEOUT_S = 600
"""Timeout of a test that uses Spark: the first one starts it."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that use a JVM a longer timeout, and run them last, when fewer of Kafka's JVMs run beside Spark's."""
    places = [index for index, item in enumerate(items) if item.nodeid.startswith("tests/spark/")]
    for index, item in zip(places, sorted((items[index] for index in places), key=_uses_spark), strict=True):
        items[index] = item
        if _uses_spark(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))


def _uses_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Report how many tests were skipped for lack of Java."""
    reports = terminalreporter.stats.get("skipped", ())
    missing = [r for r in reports if isinstance(r.longrepr, tuple) and _NO_JAVA in r.longrepr[2]]
    if missing:
        text = f"{len(missing)} tests of the Spark data source were SKIPPED: {_NO_JAVA}"
        terminalreporter.write_sep("!", text, red=True, bold=True)


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of `lean_home`, in the environment, too."""
    from .standalone import lean_home

    home = lean_home(tmp_path_factory.mktemp("spark"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(home))
        yield home


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, spark_home: Path) -> Iterator[SparkSession]:
    """A small local Spark that finds the format automatically."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(f"CI needs Java 17+: {_NO_JAVA}")
        pytest.skip(_NO_JAVA)
    from pyspark.sql import SparkSession

    # As in an installation: the module that PySpark looks for is at the top level.
    paths = [str(_ROOT), str(_ROOT / "aiokafka_lead/spark/autoload")]
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # queries of a second
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = SparkSession.builder.master("local[2]").appName("aiokafka-lead tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    """Three embedded brokers; all clients of this process are gone at the end."""
    from aiokafka_lead.spark.client_loop import client_loop
    from aiokafka_lead.testing import EmbeddedCluster
    from aiokafka_lead.testing.thread import ClusterThread

    with ClusterThread(EmbeddedCluster(brokers=3)) as running:
        yield running
        client_loop().close_idle()


@pytest.fixture
def new_topic(request: pytest.FixtureRequest, cluster: ClusterThread) -> Callable[..., str]:
    """A function that creates topics of the module's cluster, named after the test."""
    counter = itertools.count(1)

    def create(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        stem = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
        name = f"{stem[:80]}-{next(counter)}"
        cluster.create_topic(name, partitions, configs=configs)
        return name

    return create

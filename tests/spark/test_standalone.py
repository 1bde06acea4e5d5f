"""Ways to deploy the package to a standalone cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokafka_lead.testing.thread import ClusterThread

from .deployments import archived, bare_python, check_zip, on_a_cluster, submitted, zipped
from .standalone import StandaloneSpark
from .support import fill, numbered

_READ = """
import sys, types
from pyspark.sql.datasource import CaseInsensitiveDict
import aiokafka_lead.spark
from aiokafka_lead.spark.data_source import KafkaDataSource

options = {"kafka.bootstrap.servers": sys.argv[1], "subscribe": sys.argv[2]}
source = KafkaDataSource(CaseInsensitiveDict(options))
reader = source.reader(source.schema())
print(sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task)))
context = types.SimpleNamespace(environment={"PYTHONPATH": "/before"})
conf = types.SimpleNamespace(get=lambda name: None, set=lambda name, value: None)
source = types.SimpleNamespace(register=print)
session = types.SimpleNamespace(conf=conf, sparkContext=context, dataSource=source)
aiokafka_lead.spark.register(session)
print(context.environment["PYTHONPATH"])
"""


@pytest.fixture(scope="module")
def standalone() -> Iterator[StandaloneSpark]:
    with StandaloneSpark() as running:
        yield running


def test_a_zip_is_enough_for_python(cluster: ClusterThread, tmp_path: Path) -> None:
    cluster.create_topic("read-by-a-zip")
    fill(cluster, "read-by-a-zip", numbered(50))
    bare_python(tmp_path / "bare")
    archive = zipped(tmp_path)
    done = subprocess.run(
        [tmp_path / "bare/bin/python", "-c", _READ, cluster.bootstrap_servers, "read-by-a-zip"],
        cwd=tmp_path, env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows, _, paths = done.stdout.splitlines()
    assert rows == "50"
    assert paths == f"{archive}:/before"


@on_a_cluster
def test_a_zip_on_a_cluster(standalone: StandaloneSpark, cluster: ClusterThread, tmp_path: Path) -> None:
    check_zip(standalone, cluster, tmp_path)


@on_a_cluster
def test_an_archive_of_an_environment(standalone: StandaloneSpark, cluster: ClusterThread, tmp_path: Path) -> None:
    # The driver's machine has the environment at the same relative path.
    found = submitted(
        standalone, cluster, "archived", "--archives", f"{archived(tmp_path)}#environment", folder=tmp_path,
        python="./environment/bin/python",
    )  # fmt: skip
    assert found
    assert all("/environment/lib/" in path and str(tmp_path) not in path for path in found)

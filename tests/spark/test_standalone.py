"""The ways of bringing the package to a cluster that has nothing of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiokafka_lead.testing.thread import ClusterThread

from .conftest import SPARK_TIMEOUT_S
from .standalone import StandaloneSpark
from .support import fill, numbered

_ROOT = Path(__file__).parents[2]
_PROGRAM = Path(__file__).with_name("deployment_program.py")
_PACKAGES = Path(sysconfig.get_path("purelib"))
_PURE = ("anyio", "idna", "typing_extensions.py")
"""The dependencies that a zip of Python files may contain."""
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
session = types.SimpleNamespace(sparkContext=context, dataSource=types.SimpleNamespace(register=print))
aiokafka_lead.spark.register(session)
print(context.environment["PYTHONPATH"])
"""


def on_a_cluster(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that starts six JVMs."""
    for mark in (
        pytest.mark.skipif(shutil.which("java") is None, reason="no Java for Spark"),
        pytest.mark.suite("all"),
        pytest.mark.timeout(SPARK_TIMEOUT_S),
    ):
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def standalone() -> Iterator[StandaloneSpark]:
    with StandaloneSpark() as running:
        yield running


def bare_python(folder: Path) -> Path:
    """Create a virtual environment with PySpark and pyarrow; return its packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    (packages,) = folder.glob("lib/python*/site-packages")
    link(packages, "pyspark", "py4j", "pyarrow")
    return packages


def link(packages: Path, *names: str) -> None:
    for name in names:
        (packages / name).symlink_to(_PACKAGES / name)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A zip of the package and of its dependencies, without compiled modules."""
    found = tmp_path / "lead.zip"
    with zipfile.ZipFile(found, "w") as made:
        for top in (_ROOT / "aiokafka_lead", *(_PACKAGES / name for name in _PURE)):
            for path in [top] if top.is_file() else sorted(top.rglob("*.py")):
                made.write(path, path.relative_to(top.parent))
    return found


def submitted(
    standalone: StandaloneSpark, cluster: ClusterThread, topic: str, python: str, *options: str, folder: Path
) -> set[str]:
    """Run the program; return the places of the package in its tasks."""
    for name in (topic, f"{topic}-copy"):
        cluster.create_topic(name, 2)
    done = standalone.submit(
        _PROGRAM, cluster.bootstrap_servers, topic, options=options, folder=folder,
        environment={"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert "rows: 200" in done.stdout
    return {line.removeprefix("package: ") for line in done.stdout.splitlines() if line.startswith("package: ")}


def test_a_zip_is_enough_for_python(cluster: ClusterThread, archive: Path, tmp_path: Path) -> None:
    cluster.create_topic("read-by-a-zip")
    fill(cluster, "read-by-a-zip", numbered(50))
    bare_python(tmp_path / "bare")
    done = subprocess.run(
        [tmp_path / "bare/bin/python", "-c", _READ, cluster.bootstrap_servers, "read-by-a-zip"],
        cwd=tmp_path, env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows, _, paths = done.stdout.splitlines()
    assert rows == "50"
    assert paths == f"{archive}:/before"


@on_a_cluster
def test_a_zip_on_a_cluster(standalone: StandaloneSpark, cluster: ClusterThread, archive: Path, tmp_path: Path) -> None:
    bare_python(tmp_path / "bare")
    python = str(tmp_path / "bare/bin/python")
    found = submitted(standalone, cluster, "zipped", python, "--py-files", str(archive), folder=tmp_path)
    assert found
    assert all("lead.zip/aiokafka_lead/" in path for path in found)


@on_a_cluster
def test_an_archive_of_an_environment(standalone: StandaloneSpark, cluster: ClusterThread, tmp_path: Path) -> None:
    packages = bare_python(tmp_path / "environment")
    link(packages, *_PURE, "crc32c", "cramjam")
    shutil.copytree(_ROOT / "aiokafka_lead", packages / "aiokafka_lead")
    # A .tar would be refused: Spark unpacks it itself, without links that leave it, like the one to the base Python.
    with tarfile.open(tmp_path / "lead.tar.gz", "w:gz", compresslevel=1) as made:
        for path in (tmp_path / "environment").iterdir():
            made.add(path, path.name)
    # The driver's machine has the environment at the same relative path.
    found = submitted(
        standalone, cluster, "archived", "./environment/bin/python",
        "--archives", f"{tmp_path}/lead.tar.gz#environment", folder=tmp_path,
    )  # fmt: skip
    assert found
    assert all("/environment/lib/" in path and str(tmp_path) not in path for path in found)

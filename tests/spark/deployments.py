"""The package as deployed to a cluster without it: as a zip, and in an archive of an environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from aiokafka_lead.testing.thread import ClusterThread

from .conftest import SPARK_TIMEOUT_S

_ROOT = Path(__file__).parents[2]
_PROGRAM = Path(__file__).with_name("deployment_program.py")
_PACKAGES = Path(sysconfig.get_path("purelib"))
_PURE = ("anyio", "idna", "typing_extensions.py")
"""The dependencies that a zip of Python files may contain."""


class SparkCluster(Protocol):
    """A cluster that runs programs given to ``spark-submit``."""

    def submit(
        self,
        program: Path,
        *arguments: str,
        options: Sequence[str] = (),
        folder: Path,
        environment: Mapping[str, str],
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in a folder, to its end; the result has the output of the driver."""
        ...


def on_a_cluster(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that starts several JVMs."""
    for mark in (
        pytest.mark.skipif(shutil.which("java") is None, reason="no Java for Spark"),
        pytest.mark.suite("all"),
        pytest.mark.timeout(SPARK_TIMEOUT_S),
    ):
        test = mark(test)
    return test


def bare_python(folder: Path) -> Path:
    """Create a virtual environment with PySpark and pyarrow; return its packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    (packages,) = folder.glob("lib/python*/site-packages")
    link(packages, "pyspark", "py4j", "pyarrow")
    return packages


def link(packages: Path, *names: str) -> None:
    """Make installed packages part of an environment."""
    for name in names:
        (packages / name).symlink_to(_PACKAGES / name)


def zipped(folder: Path) -> Path:
    """Return a zip of the package and of its dependencies, without compiled modules."""
    found = folder / "lead.zip"
    with zipfile.ZipFile(found, "w") as made:
        for top in (_ROOT / "aiokafka_lead", *(_PACKAGES / name for name in _PURE)):
            for path in [top] if top.is_file() else sorted(top.rglob("*.py")):
                made.write(path, path.relative_to(top.parent))
    return found


def archived(folder: Path) -> Path:
    """Return an archive of the folder's ``environment``, a virtual environment with the package."""
    packages = bare_python(folder / "environment")
    link(packages, *_PURE, "crc32c", "cramjam")
    shutil.copytree(_ROOT / "aiokafka_lead", packages / "aiokafka_lead")
    # A .tar would be refused: Spark unpacks it itself, and rejects links to the outside, such as to the base Python.
    found = folder / "lead.tar.gz"
    with tarfile.open(found, "w:gz", compresslevel=1) as made:
        for path in (folder / "environment").iterdir():
            made.add(path, path.name)
    return found


def submitted(
    spark: SparkCluster, cluster: ClusterThread, topic: str, *options: str, folder: Path, python: str | None = None
) -> set[str]:
    """Run the program, by a Python of the submitter's environment; return the places of the package in its tasks."""
    for name in (topic, f"{topic}-copy"):
        cluster.create_topic(name, 2)
    environment = {} if python is None else {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python}
    done = spark.submit(
        _PROGRAM, cluster.bootstrap_servers, topic, options=options, folder=folder, environment=environment
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "rows: 200" in done.stdout, done.stdout[-4000:] + done.stderr[-4000:]
    return {line.removeprefix("package: ") for line in done.stdout.splitlines() if line.startswith("package: ")}


def check_zip(spark: SparkCluster, cluster: ClusterThread, folder: Path, *options: str) -> None:
    """Run the program with a Python that lacks the package: all tasks have it from a zip."""
    bare_python(folder / "bare")
    options = (*options, "--py-files", str(zipped(folder)))
    found = submitted(spark, cluster, "zipped", *options, folder=folder, python=str(folder / "bare/bin/python"))
    assert found
    assert all("lead.zip/aiokafka_lead/" in path for path in found)

"""Spark Connect: the same calls, another kind of session."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aiokafka_lead.testing.thread import ClusterThread

from .conftest import SPARK_TIMEOUT_S

pytest.importorskip("grpc", reason="pyspark[connect] is not installed")
_ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java for Spark")
@pytest.mark.timeout(SPARK_TIMEOUT_S)
def test_write_and_stream(cluster: ClusterThread, spark_home: Path) -> None:
    for topic in ("connect", "connect-copy"):
        cluster.create_topic(topic)
    # As in an installation: the module that PySpark looks for is at the top level.
    paths = [str(_ROOT), str(_ROOT / "aiokafka_lead/spark/autoload")]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))},
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home),
        "SPARK_TESTING": "1",  # the server listens at a free port
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_program", cluster.bootstrap_servers, "connect"],
        cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=SPARK_TIMEOUT_S - 10, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = sorted(record.value or b"" for record in cluster.records("connect-copy"))
    assert found == [b"v%d" % number for number in range(10)]

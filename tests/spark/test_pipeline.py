"""The example pipeline, with its streaming job killed in between: the report is exact."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aiokafka_lead.testing.thread import ClusterThread
from examples.pipeline.orders import DAY, Order, takings

from .conftest import SPARK_TIMEOUT_S

_ROOT = Path(__file__).parents[2]


def test_what_the_report_must_say() -> None:
    at = DAY.isoformat()
    sold = takings([Order("1", "tea", 100, at), Order("2", "jam", 1, at), Order("3", "tea", 10, at)])
    assert [(entry.product, entry.orders, entry.cents) for entry in sold] == [("jam", 1, 1), ("tea", 2, 110)]
    assert {entry.start for entry in sold} == {at}


@pytest.mark.skipif(shutil.which("java") is None, reason="no Java for Spark")
@pytest.mark.timeout(SPARK_TIMEOUT_S)
@pytest.mark.usefixtures("spark_home")
def test_a_killed_driver_neither_loses_nor_repeats(cluster: ClusterThread, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.pipeline", "--bootstrap", cluster.bootstrap_servers, "--kill", "1",
         "--orders", "2000", "--rate", "500", "--out", str(tmp_path / "out")],
        cwd=_ROOT, env={**os.environ, "PYTHONPATH": str(_ROOT)}, capture_output=True, text=True,
        timeout=SPARK_TIMEOUT_S - 10, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "driver killed after" in done.stdout
    said = " ".join(done.stdout.split())
    in_topic, sent = re.findall(r"([\d,]+) events are in the topic, ([\d,]+) were sent", said)[0]
    assert in_topic == sent
    verdict = (
        r"Each of [\d,]+ orders was counted exactly once, and every sum is right; the streaming job was killed once"
    )
    assert re.search(verdict, said)
    assert max(map(len, done.stdout.splitlines())) <= 80

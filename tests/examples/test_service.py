"""The project to copy: a copy passes its own tests, and its timings match the documentation."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "examples" / "service"


@pytest.mark.timeout(400)
def test_a_copy_passes_its_tests(tmp_path: Path) -> None:
    copy = shutil.copytree(PROJECT, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=380, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert " passed" in ended.stdout


def test_manifests_and_image_have_the_times_of_the_documentation() -> None:
    documented = (ROOT / "docs" / "deployment.md").read_text()
    manifests, image = (PROJECT / "deploy" / "shop.yaml").read_text(), (PROJECT / "Dockerfile").read_text()
    for pattern in (r"terminationGracePeriodSeconds: \d+", r"preStop: \{sleep: \{seconds: \d+\}\}"):
        (wanted,) = {*re.findall(pattern, documented)}
        assert {*re.findall(pattern, manifests)} == {wanted}
    graceful = re.search(r'"--timeout-graceful-shutdown", "\d+"', documented)
    assert graceful is not None
    assert graceful[0] in image

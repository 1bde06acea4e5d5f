"""The build of the hot modules ends well whatever is missing; then the package is plain Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECK = "import aiokafka_lead._accel, aiokafka_lead._records; print(aiokafka_lead._accel.ACCELERATED)"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The package as it is in a fresh clone."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "aiokafka_lead", tmp_path / "aiokafka_lead", ignore=shutil.ignore_patterns("*.so", "*.pyd"))
    return tmp_path


def build(checkout: Path, *prelude: str, **environment: str) -> str:
    """Build in place; what was said about it."""
    arguments = ["setup.py", "--quiet", "build_ext", "--inplace"]
    script = [*prelude, f"import sys, runpy; sys.argv = {arguments}; runpy.run_path('setup.py', run_name='__main__')"]
    done = subprocess.run(
        [sys.executable, "-c", "; ".join(script)],
        cwd=checkout,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    return done.stdout + done.stderr


def assert_pure_and_working(checkout: Path) -> None:
    assert [path for path in checkout.rglob("*") if path.suffix in {".so", ".pyd"}] == []
    done = subprocess.run(
        [sys.executable, "-c", CHECK], cwd=checkout, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.mark.timeout(180)
def test_without_a_compiler(checkout: Path) -> None:
    pytest.importorskip("Cython")
    assert "stay plain Python" in build(checkout, CC=str(checkout / "no-such-compiler"))
    assert_pure_and_working(checkout)


def test_without_cython(checkout: Path) -> None:
    build(checkout, "import sys; sys.modules['Cython'] = None")
    assert_pure_and_working(checkout)


def test_when_told_so(checkout: Path) -> None:
    build(checkout, AIOKAFKA_LEAD_PURE="1")
    assert_pure_and_working(checkout)

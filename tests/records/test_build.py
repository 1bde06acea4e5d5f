"""The build of the hot modules succeeds whatever is missing; the package is then plain Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.suite("test")  # it compiles

ROOT = Path(__file__).parents[2]
TRANSLATED = ROOT / "build" / "cython"
SHARING = [
    "_core/run/order", "_core/run/work", "_core/share/delivered", "_core/share/jobs", "_core/share/record",
    "_io/share/acknowledging", "_io/share/records",
]  # fmt: skip
"""Other modules that handle records after reading."""
READING = ["batch", "decoder", "record"]
CHECK = "import aiokafka_lead._accel, aiokafka_lead._records; print(aiokafka_lead._accel.ACCELERATED)"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package like a fresh clone."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "aiokafka_lead", tmp_path / "aiokafka_lead", ignore=shutil.ignore_patterns("*.so", "*.pyd"))
    return tmp_path


def build(checkout: Path, *prelude: str, **environment: str) -> str:
    """Build in place; return the build's messages, without progress."""
    arguments = ["setup.py", "--quiet", "build_ext", "--inplace"]
    script = [*prelude, f"import sys, runpy; sys.argv = {arguments}; runpy.run_path('setup.py', run_name='__main__')"]
    done = subprocess.run(
        [sys.executable, "-c", "; ".join(script)],
        cwd=checkout,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=True,
    )
    return re.sub(r"Compiling the hot modules: \d+ of \d+\n", "", done.stdout + done.stderr)


def assert_pure_and_working(checkout: Path) -> None:
    assert [path for path in checkout.rglob("*") if path.suffix in {".so", ".pyd"}] == []
    done = subprocess.run(
        [sys.executable, "-c", CHECK], cwd=checkout, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "False"


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """A fast C compiler: its output is empty, and it logs its arguments in a file beside it."""
    path = tmp_path / "compiler"
    path.write_text(
        """#!/bin/sh
echo "$@" >> "$0.log"
while [ $# -gt 1 ]; do
    if [ "$1" = -o ]; then : > "$2"; fi
    shift
done
"""
    )
    path.chmod(0o755)
    return path


def compiled(compiler: Path) -> list[str]:
    """Return the modules compiled since the last call, sorted, since they are compiled in parallel."""
    log = Path(f"{compiler}.log")
    asked_for = [line.split() for line in log.read_text().splitlines()]
    log.unlink()
    sources = [line[line.index("-c") + 1] for line in asked_for if "-c" in line]
    return sorted(source.rpartition("aiokafka_lead/")[2].removesuffix(".c") for source in sources)


@pytest.mark.timeout(900)
def test_two_builds_at_once_compile_each_module_once_and_a_change_those_that_it_reaches(
    checkout: Path, compiler: Path
) -> None:
    pytest.importorskip("Cython")
    if TRANSLATED.is_dir():  # skip the translation to C, which takes most of the time and is not under test
        shutil.copytree(TRANSLATED, checkout / TRANSLATED.relative_to(ROOT))
    with ThreadPoolExecutor() as threads:
        said = [*threads.map(lambda _: build(checkout, CC=str(compiler)), range(2))]
    assert said == ["", ""]
    everything = compiled(compiler)
    assert len(everything) == len({*everything}) > 20
    assert len([*(checkout / "aiokafka_lead").rglob("*.so")]) == len(everything)
    for changed, reached in [
        (["_records/batch.py", "_cpython/calling.pxd"], ["_io/producer/send_methods", "_records/batch"]),
        (["_cpython/slots.pxd"], [*SHARING, *(f"_records/{name}" for name in READING), "compat/consumer/read_record"]),
    ]:
        for name in changed:
            (checkout / "aiokafka_lead" / name).touch()
        build(checkout, CC=str(compiler))
        assert compiled(compiler) == reached


@pytest.mark.timeout(900)
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


def test_links_of_the_description_lead_to_the_repository(checkout: Path) -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "--long-description"],
        cwd=checkout,
        env=os.environ | {"AIOKAFKA_LEAD_PURE": "1", "AIOKAFKA_LEAD_REPOSITORY": "https://example.org/owner/name"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    places = re.findall(r"\]\(([^)]+)\)", done.stdout)
    assert "https://example.org/owner/name/raw/main/benchmarks/results/each_move.svg" in places
    assert [place for place in places if not place.startswith("https://example.org/owner/name/")] == []

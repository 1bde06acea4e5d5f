"""Every sample of README.md and the documentation runs, each page with its own embedded cluster at ``localhost:9092``.

The samples of a page share their names in order, so that a later sample need not repeat imports. Tests in a sample are
also called, with a cluster. Later samples can import a sample that begins with the name of a file, ``# billing.py``. A
sample after ``<!-- shown only: REASON -->`` is only compiled.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import pytest

import aiokafka_lead.compat
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster, EmbeddedSchemaRegistry

ROOT = Path(__file__).parents[1]
OTHERS = {"security.md"}
"""Pages whose samples reach clouds: tests/test_recipes.py compares their names and options with the package."""
PAGES = [
    path
    for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if "```python" in path.read_text() and path.name not in OTHERS
]
SAMPLE = re.compile(r"(?:^<!-- shown only: ([^>]+) -->\n+)?^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# (\w+)\.py\n")
SECONDS = 60


class Sample(NamedTuple):
    code: CodeType
    shown_only: bool
    module: str | None
    """Name by which later samples may import it."""


def samples(page: Path, servers: str, registry: str) -> Iterator[Sample]:
    text = page.read_text()
    for found in SAMPLE.finditer(text):
        source = "\n" * text.count("\n", 0, found.start(2)) + found[2].replace("localhost:9092", servers)
        source = source.replace("http://localhost:8081", registry)
        code = compile(source, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        file = FILE.match(found[2])
        yield Sample(code, found[1] is not None, file and file[1])


async def run(sample: Sample, names: dict[str, Any], folder: Path) -> None:
    before = set(names)
    if "asyncio" in sample.code.co_names and "run" in sample.code.co_names:
        await asyncio.to_thread(exec, sample.code, names)
        return
    running = eval(sample.code, names)
    if inspect.iscoroutine(running):
        await running
    for name in sorted(set(names) - before):
        if name.startswith("test_"):
            with ClusterThread(EmbeddedCluster(3)) as own:
                fixtures = {"kafka_cluster": own, "tmp_path": folder}
                await names[name](*(fixtures[wanted] for wanted in inspect.signature(names[name]).parameters))


@pytest.fixture
def cluster() -> Iterator[ClusterThread]:
    with ClusterThread(EmbeddedCluster(3)) as running:
        yield running


@pytest.fixture(autouse=True)
def spark_runs_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run Spark's workers with this Python; the first one in the path has other packages."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


@pytest.fixture(autouse=True)
def aiokafka_kept_apart() -> Iterator[None]:
    """Restore aiokafka afterwards: a page may install its stand-in, and other tests in this process import aiokafka."""
    imported = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "aiokafka"}
    for name in imported:
        del sys.modules[name]
    yield
    aiokafka_lead.compat.uninstall()
    sys.modules.update(imported)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_samples_run(
    page: Path,
    cluster: ClusterThread,
    schema_registry: EmbeddedSchemaRegistry,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    names: dict[str, Any] = {"__name__": page.stem}

    async def all_of_them() -> None:
        for sample in samples(page, cluster.bootstrap_servers, schema_registry.url):
            if not sample.shown_only:
                async with asyncio.timeout(SECONDS):
                    await run(sample, names, tmp_path)
                if sample.module is not None:
                    monkeypatch.setitem(sys.modules, sample.module, ModuleType(sample.module))
                    vars(sys.modules[sample.module]).update(names)

    asyncio.run(all_of_them())


def test_what_is_shown_only_is_little() -> None:
    every = [sample for page in PAGES for sample in samples(page, "localhost:9092", "http://localhost:8081")]
    assert len(every) > 20
    assert sum(sample.shown_only for sample in every) < len(every) / 4

"""Names in the documents exist: paths, modules, classes and their members, options, targets of make."""

from __future__ import annotations

import ast
import builtins
import fnmatch
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import aiokafka_lead
from aiokafka_lead.prometheus import METRICS
from benchmarks import pictures

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "aiokafka_lead"
DOCUMENTS = [
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    *(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/**/*.md") if p.name not in ("errors.md", "options.md")),
]
"""Generated pages."""
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.*-]*(/[\w.*-]+)+/?|[\w-]+\.(py|pxd|md|toml|txt)")
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


@pytest.fixture(scope="module", params=DOCUMENTS)
def document(request: pytest.FixtureRequest) -> Path:
    return ROOT / str(request.param)


OF_OTHERS = {"534", "618"}
"""KIPs of the brokers' log cleaner and of Kafka Connect, which comments mention."""
FOREIGN = re.compile(r"^\|.*\|(?=[^|]*\|$)", re.MULTILINE)
"""All columns of a table except the last."""


def spans(document: Path) -> list[str]:
    """Yield the text between backticks. In guides from other clients, only the last column of a table counts."""
    text = FENCED.sub("", document.read_text())
    if document.parent.name == "migration":
        text = FOREIGN.sub("|", text)
    return [re.sub(r"\s+", " ", found) for found in SPAN.findall(text)]


def exists(path: str) -> bool:
    """Return True if the path exists in the project or the package; a bare file name may be anywhere in them."""
    if "/" not in path:
        return path in file_names() or bool(fnmatch.filter(file_names(), path))
    return any(any(True for _ in folder.glob(path.rstrip("/"))) for folder in (ROOT, PACKAGE))


@cache
def file_names() -> frozenset[str]:
    """Return the names of all files of the project, without what was installed or downloaded into it."""
    found: set[str] = set()
    for _, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name == ".github" or name[0] != "."]
        found.update(files)
    return frozenset(found)


@cache
def members() -> dict[str, set[str]]:
    """Return the members of each class and module of the package, inherited ones included, by name."""
    found: dict[str, set[str]] = {}
    bases: list[tuple[str, str]] = []
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        stem = path.parent.name if path.name == "__init__.py" else path.stem
        found.setdefault(stem, set()).update(defined(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(defined(node))
                bases += [(node.name, base.id) for base in node.bases if isinstance(base, ast.Name)]
    for _ in range(2):  # from the facade of a client through one class to the next
        for name, base in bases:
            found[name] |= found.get(base, set())
    return found


def defined(scope: ast.Module | ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@cache
def words() -> frozenset[str]:
    """Return every word of the sources, and the names that a scrape contains."""
    files = [ROOT / "setup.py", ROOT / "Makefile", ROOT / "pyproject.toml"]
    for folder in ("aiokafka_lead", "tests", "benchmarks"):
        files += [*ROOT.glob(f"{folder}/**/*.py"), *ROOT.glob(f"{folder}/**/*.pxd")]
    scraped = (metric.name for metrics in METRICS.values() for metric in metrics)
    return frozenset((*scraped, *(word for path in files for word in re.findall(r"\w+", path.read_text()))))


def is_module(name: str) -> bool:
    return exists(f"{name.replace('.', '/')}.py") or exists(f"{name.replace('.', '/')}/__init__.py")


def test_paths_exist(document: Path) -> None:
    paths = [span for span in spans(document) if PATH.fullmatch(span) and not span.startswith((".", "dist/"))]
    assert [path for path in paths if not exists(path)] == []


def test_names_exist(document: Path) -> None:
    names = [span.removesuffix("()") for span in spans(document) if NAME.fullmatch(span.removesuffix("()"))]
    missing = []
    for name in names:
        *owners, last = name.split(".")
        if owners and owners[-1] in members() and owners[-1][0].isupper():
            inherited = hasattr(getattr(aiokafka_lead, owners[-1], None), last)
            known = inherited or last in members()[owners[-1]]
        else:
            known = all(part in words() or hasattr(builtins, part) for part in (*owners, last))
        if not known and not is_module(name) and not PATH.fullmatch(name):
            missing.append(name)
    assert missing == []


def test_the_map_for_changes_gives_the_place_of_each_name() -> None:
    _, page = (ROOT / "docs/architecture.md").read_text().split("## A map for changes")
    rows = [set(SPAN.findall(row)) for row in page.split("## Glossary")[0].splitlines() if row.startswith("| ")]
    wrong = []
    for row in rows:
        places = [path for span in row if PATH.fullmatch(span) for root in (PACKAGE, ROOT) for path in root.glob(span)]
        files = [file for path in places for file in (path.rglob("*.py") if path.is_dir() else (path,))]
        text = "".join(file.read_text() for file in files)
        names = [span for span in row if NAME.fullmatch(span) and not PATH.fullmatch(span)]
        wrong += [name for name in names if not re.search(rf"\b{name.rpartition('.')[2]}\b", text)]
    assert wrong == []


def test_commands_exist(document: Path) -> None:
    text = document.read_text()
    targets = {*re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)}
    assert {*re.findall(r"(?:`|\$ )make (\w+)", text)} - targets == set()
    modules = {*re.findall(r"python -m ((?:aiokafka_lead|tests|benchmarks|examples)[\w.]*)", text)}
    assert [name for name in modules if not is_module(name)] == []


def test_each_kip_of_the_sources_is_in_the_list() -> None:
    page = {*re.findall(r"\b\d+\b", (ROOT / "docs/kips.md").read_text())}
    sources = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "testing" not in path.parents]
    named = {number for path in sources for number in re.findall(r"KIP-(\d+)", path.read_text())}
    assert sorted(named - page - OF_OTHERS, key=int) == []


def test_each_folder_of_tests_has_its_place() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    folders = [path.parent.relative_to(ROOT) for path in ROOT.glob("tests/*/test_*.py")]
    assert [folder for folder in folders if f"`{folder}`" not in page] == []


def test_a_file_that_is_gone_is_noticed() -> None:
    assert not exists("_core/producer/no_such_file.py")
    assert "no_such_method" not in members()["Accumulator"]


def test_the_version_stands_in_two_places() -> None:
    (version,) = re.findall(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert aiokafka_lead.__version__ == version


def test_the_messages_are_those_of_the_sources() -> None:
    """The page on troubleshooting quotes messages exactly as the sources have them."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    quoted = re.findall(r"^\| `([^`]+)`", page, re.MULTILINE)
    said = [
        node.value
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert len(quoted) > 20
    assert [text for text in quoted if not any(text in one for one in said)] == []


def test_the_pictures_are_those_of_the_results() -> None:
    """``python -m benchmarks pictures`` has been run since a result or the table of costs changed."""
    stored = {name: (pictures.RESULTS / name).read_text() for name in pictures.pictures()}
    assert stored == pictures.pictures()


def test_the_manifests_of_a_deployment_have_the_environment_of_its_programs() -> None:
    text = (ROOT / "docs/deployment.md").read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    reads = [names for program in programs if (names := set(re.findall(r'os\.environ\["(\w+)"\]', program)))]
    manifests = re.findall(r"^```yaml\n(apiVersion.*?)^```", text, re.DOTALL | re.MULTILINE)
    given = [set(re.findall(r"name: (\w+)", manifest)) for manifest in manifests]
    assert len(reads) == len(given) == 2
    assert [names - known for names, known in zip(reads, given, strict=True)] == [set(), set()]


def test_the_times_of_a_deployment_fit_each_other() -> None:
    text = (ROOT / "docs/deployment.md").read_text()
    services = (ROOT / "docs/services.md").read_text()

    def number(pattern: str, page: str = text) -> int:
        found = re.search(pattern, page)
        assert found is not None, pattern
        return int(found[1].replace("_", "").replace(",", ""))

    graceful_s, close_ms = number(r'graceful-shutdown", "(\d+)"'), number(r"close_timeout_ms=([\d_]+)", services)
    block_ms, delivery_ms = (number(rf"{name}=([\d_]+)", services) for name in ("max_block_ms", "delivery_timeout_ms"))
    grace_s = number(r"terminationGracePeriodSeconds: (\d+)") - number(r"preStop: \{sleep: \{seconds: (\d+)")
    assert grace_s * 1000 > graceful_s * 1000 + close_ms
    assert graceful_s * 1000 >= block_ms + delivery_ms
    assert delivery_ms > 9_600
    for name, given in (
        ("max_block_ms", block_ms),
        ("delivery_timeout_ms", delivery_ms),
        ("close_timeout_ms", close_ms),
    ):
        assert number(rf"`{name}` \| ([\d,]+)") == given

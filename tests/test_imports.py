"""No module of the package takes part in an import cycle."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import aiokafka_lead

PACKAGE = Path(aiokafka_lead.__file__).parent
CIMPORT = re.compile(r"^from +([\w.]+) +cimport +(?:\(([^)]*)\)|(.*))", re.MULTILINE)


def imports() -> dict[str, set[str]]:
    """Return the imports of each module, also within functions, for type checkers alone, and in its ``.pxd``."""
    graph = grimp.build_graph("aiokafka_lead", cache_dir=None)
    found = {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}
    for path in PACKAGE.rglob("*.pxd"):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for source, several, one in CIMPORT.findall(path.read_text()):
            names = {f"{source}.{name}" for name in re.findall(r"\w+", several or one)}
            taken = (names | {source}) & found.keys()
            found[module] |= taken - {source} or taken
    return found


def test_imports_make_no_circle() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_what_compiled_modules_take_is_counted() -> None:
    taken = imports()["aiokafka_lead._core.producer.answers"]
    assert "aiokafka_lead._core.producer.counters" in taken  # named only in the .pxd

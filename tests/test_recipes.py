"""What the documentation shows can be pasted: it is Python, and its options, names and arguments exist."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from aiokafka_lead.config import AdminConfig, ConsumerConfig, ProducerConfig

DOCS = Path(__file__).parent.parent / "docs"
CONFIGS = {"Producer": ProducerConfig, "Consumer": ConsumerConfig, "AdminClient": AdminConfig}


def blocks() -> Iterator[tuple[str, str]]:
    for page in sorted(DOCS.glob("*.md")):
        text = page.read_text()
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            yield f"{page.name}:{text.count(chr(10), 0, found.start()) + 1}", found[1]


BLOCKS = dict(blocks())


def test_there_are_recipes() -> None:
    assert len(BLOCKS) >= 14


@pytest.mark.parametrize("place", BLOCKS)
def test_a_block_can_be_pasted(place: str) -> None:
    tree = ast.parse(BLOCKS[place])
    names: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("aiokafka_lead"):
            names |= {alias.name: getattr(import_module(str(node.module)), alias.name) for alias in node.names}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in names:
            continue
        given = {keyword.arg for keyword in node.keywords}
        config = CONFIGS.get(node.func.id)
        if config is not None:
            assert given <= config.__dataclass_fields__.keys(), place
        else:
            called = names[node.func.id]
            assert callable(called)
            inspect.signature(called).bind(*node.args, **{str(name): None for name in given})

"""``import aiokafka`` gives the stand-in, with aiokafka installed and without."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from typing import Any

import aiokafka
import aiokafka.admin
import pytest

import aiokafka_lead.compat

PROGRAM = """
import sys
import aiokafka_lead.compat
aiokafka_lead.compat.install()
aiokafka_lead.compat.install()
import aiokafka, aiokafka.errors, aiokafka.admin.client
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
assert AIOKafkaProducer is aiokafka.producer.producer.AIOKafkaProducer is aiokafka_lead.compat.AIOKafkaProducer
assert aiokafka.__version__ == aiokafka_lead.compat.__version__
assert aiokafka.errors.__name__ == "aiokafka.errors" and not hasattr(aiokafka.errors, "__path__")
try:
    import aiokafka.no_such_module
except ModuleNotFoundError:
    pass
else:
    raise AssertionError
aiokafka_lead.compat.uninstall()
assert not any(name.partition(".")[0] == "aiokafka" for name in sys.modules)
"""

HOOKED = """
import sys
import aiokafka_lead.compat

class Watcher:  # as tracers do it: the loader is wrapped, and the hook gets the module by its name
    seen = []

    def find_spec(self, fullname, path, target=None):
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path, target)) is not None:
                self.loader, spec.loader = spec.loader, self
                return spec

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        self.seen.append((module.__name__, hasattr(module, "AIOKafkaProducer")))

def watch():
    sys.meta_path.insert(0, Watcher())

for order in (watch, aiokafka_lead.compat.install), (aiokafka_lead.compat.install, watch):
    for step in order:
        step()
    import aiokafka
    assert Watcher.seen.pop() == ("aiokafka", True)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Watcher)]
    aiokafka_lead.compat.uninstall()
"""

LAZY = """
import sys
import aiokafka_lead.compat
aiokafka_lead.compat.install()
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
assert "aiokafka_lead.admin" not in sys.modules
"""

TOO_LATE = """
import sys, types
sys.modules["aiokafka"] = types.ModuleType("aiokafka")
import aiokafka_lead.compat
aiokafka_lead.compat.install()
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_programs_import_it() -> None:
    found = run(PROGRAM)
    assert (found.returncode, found.stderr) == (0, "")


def test_a_program_without_an_admin_client_imports_none() -> None:
    found = run(LAZY)
    assert (found.returncode, found.stderr) == (0, "")


def test_hooks_that_wait_for_aiokafka_see_it() -> None:
    found = run(HOOKED)
    assert (found.returncode, found.stderr) == (0, "")


def test_aiokafka_itself_must_not_be_imported_yet() -> None:
    found = run(TOO_LATE)
    assert found.returncode == 1
    assert "aiokafka is already imported" in found.stderr


def names_of(module: str) -> set[str]:
    """Return the public classes and functions that aiokafka's module defines."""
    path = importlib.import_module(module).__file__
    assert path is not None
    with open(path) as source:
        body = ast.parse(source.read()).body
    return {
        node.name
        for node in body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")
    }


@pytest.mark.parametrize(
    "room", ["abc", "admin", "errors", "helpers", "partitioner", "producer.producer", "consumer.consumer", "structs"]
)
def test_every_name_is_there(room: str) -> None:
    own = importlib.import_module(f"aiokafka_lead.compat.{room}")
    assert names_of(f"aiokafka.{room}") - set(dir(own)) == set()
    assert set(getattr(importlib.import_module(f"aiokafka.{room}"), "__all__", ())) - set(dir(own)) == set()


def test_the_root_and_its_admin_packages_are_whole() -> None:
    assert set(aiokafka.__all__) <= set(dir(aiokafka_lead.compat))
    for found in pkgutil.iter_modules(aiokafka.admin.__path__):
        own = importlib.import_module(f"aiokafka_lead.compat.admin.{found.name}")
        assert names_of(f"aiokafka.admin.{found.name}") <= set(dir(own))


def arguments(method: Any) -> list[tuple[str, Any]]:
    """Return names and kinds of a method's arguments after ``self``, which compiled methods take by position only."""
    _, *others = inspect.signature(method).parameters.values()
    return [(one.name, one.kind) for one in others]


@pytest.mark.parametrize(("room", "name"), [
    ("producer", "AIOKafkaProducer"), ("consumer", "AIOKafkaConsumer"), ("admin.client", "AIOKafkaAdminClient"),
])  # fmt: skip
def test_options_have_their_defaults(room: str, name: str) -> None:
    theirs, own = (
        inspect.signature(getattr(importlib.import_module(f"{root}.{room}"), name).__init__).parameters
        for root in ("aiokafka", "aiokafka_lead.compat")
    )
    assert list(theirs) == list(own)
    plain = (str, int, bool, type(None))
    for option, parameter in theirs.items():
        if isinstance(parameter.default, plain):
            assert own[option].default == parameter.default, option


@pytest.mark.parametrize(("room", "name"), [
    ("producer", "AIOKafkaProducer"), ("consumer", "AIOKafkaConsumer"), ("admin.client", "AIOKafkaAdminClient"),
    ("producer.message_accumulator", "BatchBuilder"),
])  # fmt: skip
def test_methods_take_the_same_arguments(room: str, name: str) -> None:
    theirs, own = (
        getattr(importlib.import_module(f"{root}.{room}"), name) for root in ("aiokafka", "aiokafka_lead.compat")
    )
    for method, found in inspect.getmembers(theirs, inspect.isfunction):
        if not method.startswith("_"):
            assert arguments(getattr(own, method)) == arguments(found), method
            assert inspect.iscoroutinefunction(found) == inspect.iscoroutinefunction(getattr(own, method)), method

"""``import aiokafka`` gives the package that stands in for it, whether aiokafka is installed or not."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys

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
assert aiokafka is aiokafka_lead.compat
assert AIOKafkaProducer is aiokafka.producer.producer.AIOKafkaProducer
assert all(module.__name__.startswith("aiokafka_lead.") for name, module in sys.modules.items()
           if name.partition(".")[0] == "aiokafka")
aiokafka_lead.compat.uninstall()
assert "aiokafka" not in sys.modules and "aiokafka.errors" not in sys.modules
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


def test_aiokafka_itself_must_not_be_imported_yet() -> None:
    found = run(TOO_LATE)
    assert found.returncode == 1
    assert "aiokafka is imported already" in found.stderr


def names_of(module: str) -> set[str]:
    """The public classes and functions that aiokafka's module defines."""
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
            expected = [(p.name, p.kind) for p in inspect.signature(found).parameters.values()]
            assert [(p.name, p.kind) for p in inspect.signature(getattr(own, method)).parameters.values()] == expected
            assert inspect.iscoroutinefunction(found) == inspect.iscoroutinefunction(getattr(own, method)), method

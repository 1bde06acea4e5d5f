"""`install`, after which ``import aiokafka`` imports this package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

__all__ = ["install", "uninstall"]

_HERE = __name__.rpartition(".")[0]

_ROOMS = (
    "abc",
    "admin",
    "admin.client",
    "admin.config_resource",
    "admin.new_partitions",
    "admin.new_topic",
    "admin.records_to_delete",
    "client",
    "cluster",
    "consumer",
    "consumer.consumer",
    "consumer.group_coordinator",
    "consumer.subscription_state",
    "coordinator",
    "coordinator.assignors",
    "coordinator.assignors.abstract",
    "coordinator.assignors.range",
    "coordinator.assignors.roundrobin",
    "coordinator.assignors.sticky",
    "coordinator.assignors.sticky.sticky_assignor",
    "coordinator.protocol",
    "errors",
    "helpers",
    "partitioner",
    "producer",
    "producer.message_accumulator",
    "producer.producer",
    "protocol",
    "protocol.admin",
    "protocol.api",
    "protocol.metadata",
    "structs",
    "util",
)
"""Maps each module of aiokafka to the module that implements it."""


_HOMES = {
    "aiokafka": _HERE,
    "aiokafka.conn": f"{_HERE}.abc",  # programs import AbstractTokenProvider from there
    **{f"aiokafka.{room}": f"{_HERE}.{room}" for room in _ROOMS},
}
_PACKAGES = {name.rpartition(".")[0] for name in _HOMES}


def install() -> None:
    """Make ``import aiokafka`` and imports of its modules import this package, in the whole process.

    Call this before the first import of aiokafka. It may be called again. Raises RuntimeError if aiokafka itself is
    already imported, because names imported from it could not be replaced.
    """
    if sys.modules.get("aiokafka") is not _FINDER.made.get("aiokafka"):
        raise RuntimeError(
            "aiokafka is already imported; call aiokafka_lead.compat.install() before the first import of aiokafka"
        )
    if _FINDER not in sys.meta_path:
        # Before the finder that would find aiokafka itself, but after the finders of tracers, which watch imports.
        files = sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0
        sys.meta_path.insert(files, _FINDER)


def uninstall() -> None:
    """Undo `install`, so that later imports find aiokafka itself if it is installed.

    Names that are already imported do not change.
    """
    if _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)
    for name, module in _FINDER.made.items():
        if sys.modules.get(name) is module:
            del sys.modules[name]
    _FINDER.made.clear()


class _Finder:
    """Finder and loader that creates a module of aiokafka when it is imported, so import hooks of tracers see it.

    It does not inherit from the classes in `importlib.abc`, which takes longer to import than this module.
    """

    def __init__(self) -> None:
        self.made: dict[str, ModuleType] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _HOMES:
            return None
        return ModuleSpec(fullname, self, is_package=fullname in _PACKAGES)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Let the import system create an ordinary module."""

    def exec_module(self, module: ModuleType) -> None:
        """Copy the contents of the module that implements this module, and the structures of aiokafka."""
        home, structs = import_module(_HOMES[module.__name__]), import_module(f"{_HERE}.structs")
        # Editors complete imports of structures from any module of aiokafka that uses them.
        module.__dict__.update({name: getattr(structs, name) for name in structs.__all__})
        module.__dict__.update({name: value for name, value in vars(home).items() if name not in _ITS_OWN})
        self.made[module.__name__] = module


_ITS_OWN = {"__builtins__", "__cached__", "__loader__", "__name__", "__package__", "__path__", "__spec__"}
_FINDER = _Finder()

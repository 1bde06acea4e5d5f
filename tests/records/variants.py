"""The package's modules twice: as installed, and their plain Python source, even beside a compiled one."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import aiokafka_lead
import aiokafka_lead._records.arrow
import aiokafka_lead.errors
import aiokafka_lead.types
from aiokafka_lead import _accel, _records

_PURE = "aiokafka_lead_pure"


class _SourceOnly:
    """Finds modules under `_PURE` in the package's own folders, from sources only."""

    @staticmethod
    def find_spec(name: str, path: Any, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith(f"{_PURE}."):
            return None
        loader = (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)
        for folder in path:
            spec = importlib.machinery.FileFinder(folder, loader).find_spec(name)
            if spec is not None:
                return spec
        return None


def _load_pure() -> Any:
    package = ModuleType(_PURE)
    package.__path__ = [str(Path(aiokafka_lead.__path__[0]))]
    sys.modules[_PURE] = package
    # Both share the classes of errors and values.
    sys.modules[f"{_PURE}.errors"] = aiokafka_lead.errors
    sys.modules[f"{_PURE}.types"] = aiokafka_lead.types
    pure_module("_records.arrow")
    return sys.modules[f"{_PURE}._records"]


def pure_module(name: str) -> Any:
    """Return a module of the package from its source, with all that it imports."""
    sys.meta_path.insert(0, _SourceOnly)
    try:
        return importlib.import_module(f"{_PURE}.{name}")
    finally:
        sys.meta_path.remove(_SourceOnly)


installed: Any = _records
pure: Any = _load_pure()
VARIANTS = {"compiled": installed, "pure": pure} if _accel.ACCELERATED else {"pure": pure}
"""Variants that every test of the codec runs on."""

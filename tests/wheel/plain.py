"""Imports the package as plain Python: ``sys.meta_path.insert(0, SourceOnly)`` before its first import."""

from __future__ import annotations

import importlib.machinery
from types import ModuleType
from typing import Any


class SourceOnly:
    """Finds the package's sources, and ignores compiled modules."""

    @staticmethod
    def find_spec(name: str, path: Any, target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if not name.startswith("aiokafka_lead."):
            return None
        loader = (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)
        for folder in path:
            spec = importlib.machinery.FileFinder(folder, loader).find_spec(name)
            if spec is not None:
                return spec
        return None

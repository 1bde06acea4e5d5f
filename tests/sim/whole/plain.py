"""Prepares a process for virtual time: import this before anything of the package.

Compiled modules read C's clock, so the package is imported from its sources. Everything that an event loop can see of
time and chance then follows from `clock` and a seed.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import random
import sys
import time
from pathlib import Path

HASHED_BY = "0"
"""Value of PYTHONHASHSEED: the order of sets is part of a run."""

_PACKAGE = str(Path(__file__).parents[3] / "aiokafka_lead")
_WALL_S = 1_700_000_000


class Clock:
    """Virtual time, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0


clock = Clock()


def _sources_only(folder: str) -> importlib.machinery.FileFinder:
    if not folder.startswith(_PACKAGE):
        raise ImportError(folder)
    return importlib.machinery.FileFinder(
        folder, (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)
    )


def _ns() -> int:
    return round((_WALL_S + clock.now) * 1e9)


def seed(number: int) -> None:
    """Restart time and chance."""
    clock.now = 1000.0
    random.seed(number)
    _bytes.seed(number)
    importlib.import_module("aiokafka_lead._core.chance").generator.seed(number)


_bytes = random.Random()


def _begin() -> None:
    assert "aiokafka_lead" not in sys.modules, "too late: the package has been imported"
    if os.environ.get("PYTHONHASHSEED") != HASHED_BY:
        os.environ["PYTHONHASHSEED"] = HASHED_BY
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    sys.path_hooks.insert(0, _sources_only)
    sys.path_importer_cache.clear()
    time.monotonic = time.perf_counter = lambda: clock.now
    time.time = lambda: _WALL_S + clock.now
    time.time_ns = _ns
    os.urandom = _bytes.randbytes


_begin()

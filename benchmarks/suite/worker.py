"""Run a measurement in a separate process: ``python -m benchmarks.suite.worker WORKLOAD`` prints figures as JSON."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Awaitable
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from typing import Any

from .workload import Workload

PACKAGE = Path(__file__).resolve().parents[2] / "aiokafka_lead"


def hide_compiled_modules() -> None:
    """Let imports of this client ignore compiled modules."""
    sources_only = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))

    def hook(path: str) -> Any:
        if not Path(path).is_relative_to(PACKAGE):
            raise ImportError
        return sources_only(path)

    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()


async def perform(work: Workload) -> Any:
    """Run the coroutine for the work of the workload."""
    module = "latency" if work.client == "bare" else f"clients.{work.client}"
    action = "bare" if work.client == "bare" else work.work
    coroutine: Awaitable[Any] = getattr(importlib.import_module(f"benchmarks.suite.{module}"), action)(work)
    return await coroutine


def run(work: Workload) -> Any:
    """Run the workload on its event loop."""
    if work.loop == "trio":
        import trio

        return trio.run(perform, work)
    if work.loop == "uvloop":
        import uvloop

        return uvloop.run(perform(work))
    return asyncio.run(perform(work))


if __name__ == "__main__":
    workload = Workload.from_json(sys.argv[1])
    if workload.pure:
        hide_compiled_modules()
    json.dump(run(workload), sys.stdout)

"""Gain from each module of `aiokafka_lead._cpython`: nanoseconds of CPU time for one use, with and without it.

``python -m benchmarks tricks`` compiles a small module that uses all of these modules, and again without each of them.
This needs Cython and a C compiler, and takes a minute of CPU time.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MODULE = ROOT / "tests/cpython/every_trick.py"
ROUNDS = 60


def compiled(folder: Path, without: str) -> Any:
    """Compile the small module without the module named ``without``, and import it."""
    package = folder / "aiokafka_lead"
    if not package.exists():
        shutil.copytree(ROOT / "aiokafka_lead/_cpython", package / "_cpython")
        (package / "__init__.py").touch()
        for source in (MODULE, MODULE.with_suffix(".pxd")):
            shutil.copy(source, package)
        setup = (ROOT / "setup.py").read_text()
        setup = setup.replace("PER_RECORD = {", 'PER_RECORD = {"aiokafka_lead.every_trick"} | {')
        (folder / "setup.py").write_text(setup)
    environment = os.environ | {"AIOKAFKA_LEAD_WITHOUT": without}
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], cwd=folder, env=environment, check=True
    )
    (made,) = package.glob("every_trick.*.*")
    made = made.rename(folder / f"{without or 'all'}-{made.name}")
    spec = importlib.util.spec_from_file_location(f"{without or 'all'}.every_trick", made)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits")


Use = Callable[[Any, int], Callable[[], None]]
"""Function that takes the small module and a count, and returns a function that repeats a use ``count`` times."""


def copies(module: Any, count: int) -> Callable[[], None]:
    like, sample = module.like, module.Sample(7, b"key", b"value", None)

    def work() -> None:
        for _ in range(count):
            like(sample)

    return work


def kept_pairs(module: Any, count: int) -> Callable[[], None]:
    pair = module.pair

    def work() -> None:
        kept = [pair(b"first", b"second") for _ in range(count)]
        del kept

    return work


def again(module: Any, count: int) -> Callable[[], None]:
    take = module.Owner().take

    def work() -> None:
        for _ in range(count):
            take()

    return work


def attributes(module: Any, count: int) -> Callable[[], None]:
    samples = [module.Sample(7, b"key", b"value", None)] * count

    def work() -> None:
        for sample in samples:
            sample.key  # noqa: B018
            sample.value  # noqa: B018
            sample.note  # noqa: B018

    return work


def awaits(module: Any, count: int) -> Callable[[], None]:
    results = [module.Result(7, True)] * count

    async def steps() -> None:
        for result in results:
            await result

    return lambda: run(steps())


def calls(module: Any, count: int) -> Callable[[], None]:
    method = module.Method()

    async def steps() -> None:
        for _ in range(count):
            await method("first", second=None)

    return lambda: run(steps())


def places(module: Any, count: int) -> Callable[[], None]:
    place = module.place

    def work() -> None:
        for _ in range(count):
            place("topic", 3, 4, 5)

    return work


def times(module: Any, count: int) -> Callable[[], None]:
    read = module.times

    def work() -> None:
        for _ in range(count):
            read()

    return work


def headers(module: Any, count: int) -> Callable[[], None]:
    read, data = module.read, bytes(64)

    def work() -> None:
        for _ in range(count):
            read(data)

    return work


def arrays(module: Any, count: int) -> Callable[[], None]:
    make = module.arrays

    def work() -> None:
        make(count)

    return work


USES: list[tuple[str, str, Use]] = [
    ("awaiting", "await of an available result", awaits),
    ("calling", "an awaited call that ends at its first step", calls),
    ("clock", "both clocks and the thread", times),
    ("collector", "a tuple kept among many others", kept_pairs),
    ("raw", "three numbers read from bytes", headers),
    ("raw", "an item of two arrays, created and filled", arrays),
    ("references", "an object created once and then reused", again),
    ("slots", "three attributes, read by Python code", attributes),
    ("slots", "a copy, created and dropped", copies),
    ("tuples", "a named tuple of four, created and dropped", places),
]


def once_ns(work: Callable[[], None], count: int) -> float:
    began = time.process_time_ns()
    work()
    return (time.process_time_ns() - began) / count


def compare(name: str, text: str, works: list[Callable[[], None]], count: int) -> None:
    """Measure both builds in turn for several rounds, and print the best of each."""
    best = [float("inf"), float("inf")]
    for _ in range(ROUNDS):
        gc.collect()
        best = [min(known, once_ns(work, count)) for known, work in zip(best, works, strict=True)]
    print(f"{name:<10} {text:<55} {best[0]:>6.0f} {best[1]:>8.0f}", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser("benchmarks tricks", description=__doc__)
    parser.add_argument("--times", type=int, default=20_000)
    count = parser.parse_args(arguments).times
    with tempfile.TemporaryDirectory() as folder:
        modules = {name: compiled(Path(folder), name) for name in ("", *sorted({name for name, _, _ in USES}))}
        print(f"{'module':<10} {'use':<55} {'with':>6} {'without':>8}   ns")
        for name, text, use in USES:
            compare(name, text, [use(modules[""], count), use(modules[name], count)], count)

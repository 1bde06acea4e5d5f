"""Code that relies on CPython's internals gives the results of plain Python, and so does a build without it."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
import types
import weakref
from array import array
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from aiokafka_lead import _accel

from . import every_trick

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
pytestmark = pytest.mark.timeout(900)  # it compiles
FORMS = ["plain", "compiled", "without"]


class Place(str):
    """Text that supports weak references."""


def build(checkout: Path, without: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
        cwd=checkout,
        env=os.environ | {"AIOKAFKA_LEAD_WITHOUT": without},
        capture_output=True,
        text=True,
        timeout=400,
    )


def load(compiled: Path, form: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(f"{form}.every_trick", compiled)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_out(folder: Path) -> None:
    """Copy the files that the build needs, without the package's own modules."""
    for name in ("setup.py", "README.md"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "aiokafka_lead/_cpython", folder / "aiokafka_lead/_cpython")


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the same module three times: plain, compiled, and compiled without any of the tricks."""
    if not _accel.ACCELERATED:
        pytest.skip("the hot modules are not compiled here")
    checkout = tmp_path_factory.mktemp("checkout")
    package = checkout / "aiokafka_lead"
    check_out(checkout)
    (package / "__init__.py").touch()
    for name in ("every_trick.py", "every_trick.pxd"):
        shutil.copy(HERE / name, package)
    found: dict[str, Any] = {"plain": every_trick}
    for form, without in (("compiled", ""), ("without", "all")):
        said = build(checkout, without)
        assert (said.returncode, said.stdout) == (0, ""), said.stderr
        (compiled,) = package.glob("every_trick.*.*")
        found[form] = load(compiled.rename(checkout / f"{form}-{compiled.name}"), form)
    return found


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def module(forms: dict[str, Any], form: str) -> Any:
    return forms[form]


def test_an_unknown_name_stops_the_build(tmp_path: Path) -> None:
    check_out(tmp_path)
    said = build(tmp_path, "slots, slot")
    assert said.returncode == 1
    assert "AIOKAFKA_LEAD_WITHOUT names slot: it takes awaiting," in said.stderr


def test_bytes_and_numbers(module: Any) -> None:
    assert module.written(b"content", "Straße ☃") == (
        b"\xff\xfe"
        b"\xff\xff\xff\xfd"
        b"\xfe\xdc\xba\x98"
        b"\xc0\0\0\0\0\0\0\0"
        b"content" + "Straße ☃".encode() + b"ontent"
        b"\x80\0\x7f\xff\xff\xff"
        b"\x85\x80\x80\x80\x08"
        b"\0"
    )
    data = bytes(module.written(b"content", ""))
    assert module.read(data) == module.read(memoryview(data)) == (-2, -3, -(2**62))
    assert module.arrays(1000) == (array("i", range(1000)), array("q", range(0, 1000 << 32, 1 << 32)))
    assert module.arrays(0) == (array("i"), array("q"))


def test_a_released_view_is_refused(module: Any) -> None:
    view = memoryview(bytes(32))
    view.release()
    with pytest.raises(ValueError, match="released"):
        module.read(view)


def test_a_named_tuple(module: Any) -> None:
    for round_ in range(3):  # its memory is reused for the next one
        made = module.place("topic", 3, 4 + round_, 5)
        assert type(made) is module.Place
        assert (made, made.topic, made.offset, hash(made)) == (
            ("topic", 3, 4 + round_, 5), "topic", 4 + round_, hash(("topic", 3, 4 + round_, 5))
        )  # fmt: skip


def test_a_class_shows_the_module_of_its_users(module: Any, form: str) -> None:
    assert (module.Sample.__module__ == "public") is (form != "without")
    assert (module.Sample.__name__, module.Sample.__qualname__) == ("Sample", "Sample")


def test_a_copy(module: Any) -> None:
    sample = module.Sample(7, b"key", [1], None)
    for _ in range(3):  # its memory is reused for the next one
        made = module.like(sample)
        assert (made.number, made.key, made.value, made.note) == (7, b"key", [1], None)
        assert made.value is sample.value


def test_copies_keep_what_they_hold_no_longer_than_they_live(module: Any) -> None:
    value = Place("here")
    sample = module.Sample(7, None, value, None)
    made = [module.like(sample) for _ in range(10)]
    kept = weakref.ref(value)
    del value, sample
    made[:9] = []
    gc.collect()
    assert kept() is made[0].value
    made.clear()
    assert kept() is None


def test_what_the_garbage_collector_sees(forms: dict[str, Any]) -> None:
    # Since Python 3.14, a tuple of bytes alone is not tracked; lists always are, and so is a tuple of lists.
    tracked = {form: gc.is_tracked(module.pair([1], [2])) for form, module in forms.items()}
    assert tracked == {"plain": True, "compiled": False, "without": True}
    assert not gc.is_tracked(forms["compiled"].like(forms["compiled"].Sample(7, b"key", [1], None)))
    assert gc.is_tracked(forms["without"].like(forms["without"].Sample(7, b"key", [1], None)))


def test_the_only_owner(forms: dict[str, Any]) -> None:
    owner = forms["compiled"].Owner()
    assert owner.is_the_only_one() is getattr(sys, "_is_gil_enabled", lambda: True)()
    other = owner.kept
    assert not owner.is_the_only_one()
    assert other == bytes(8)
    for form in ("plain", "without"):
        assert forms[form].Owner().is_the_only_one() is False
    for module in forms.values():
        owner = module.Owner()
        kept = owner.take()
        assert owner.take() is not kept


def run(coroutine: Any) -> tuple[list[object], object]:
    """Return the objects that a coroutine asks its event loop to wait for, and its result."""
    asked: list[object] = []
    while True:
        try:
            asked.append(coroutine.send(True if asked else None))
        except StopIteration as end:
            return asked, end.value


async def awaited(what: Any) -> object:
    return await what


def test_await(module: Any) -> None:
    for _ in range(2):
        assert run(awaited(module.Result([1], True))) == ([], [1])
    assert run(awaited(module.Result([1], False))) == (["wait"], [1])


def steps() -> Generator[object, object, str]:
    yield 0
    yield 1
    return "later"


def test_a_call_that_is_a_coroutine(module: Any) -> None:
    method = module.Method()
    for _ in range(2):
        assert run(awaited(method("at once"))) == ([], "at once")
    assert run(awaited(method(None, second=steps()))) == ([0, 1], "later")
    assert run(method("at once")) == ([], "at once")
    assert method.calls == 4
    with pytest.raises(TypeError, match="make"):
        method()
    with pytest.raises(TypeError, match="third"):
        method(1, third=3)


def test_the_time_and_the_thread(module: Any) -> None:
    before = time.monotonic(), time.time_ns() // 1_000_000
    monotonic_s, wall_ms, thread = module.times()
    assert before[0] <= monotonic_s <= time.monotonic()
    assert before[1] <= wall_ms <= time.time_ns() // 1_000_000
    assert thread == threading.get_ident()

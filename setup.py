"""Compiles the hot modules where Cython and a C compiler are; everywhere else they stay plain Python.

Each of them is one ``.py`` with its C types in a sibling ``.pxd``. They are compiled all or none, because compiled
modules take each other's C types. ``AIOKAFKA_LEAD_PURE=1`` leaves them as they are. In place, for developers:
``python setup.py build_ext --inplace``; build again after a change, since Python prefers the compiled file.
"""

from __future__ import annotations

import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

INLINED = {"raw", "clock", "tuples", "awaiting", "slots", "calling"}
"""Modules whose ``.pxd`` holds C functions for others, and which are not compiled themselves."""
HOT_MODULES = sorted(p.with_suffix(".py") for p in Path("aiokafka_lead").rglob("*.pxd") if p.stem not in INLINED)
TYPES = {
    "aiokafka_lead._core.producer.delivery": {"no_gc": True, "freelist": 1024},
    "aiokafka_lead._records.encoder": {"no_gc": True, "freelist": 64},
}
"""Directives for the extension types of single modules: Cython ignores them in a ``.pxd`` that goes with a ``.py``.

``no_gc`` is for types whose instances are never part of a cycle for good: the encoder's hold bytes and numbers only."""
AUTOLOAD = Path("aiokafka_lead/spark/autoload/pyspark_aiokafka_lead.py")
DIRECTIVES = {
    "language_level": "3",
    "annotation_typing": False,
    "binding": False,
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "wraparound": False,
    "freethreading_compatible": True,
}


def hot_extensions() -> list[Extension]:
    if os.environ.get("AIOKAFKA_LEAD_PURE") == "1":
        return []
    try:
        from Cython.Build import cythonize
        from Cython.Compiler import Errors, Options
    except ImportError:
        return []
    Errors.LEVEL = 2  # it warns of functions that a .pxd declares inline, and makes them so
    Options.get_directive_defaults().update(no_gc=False, freelist=0)  # it takes for whole modules only what it has here
    extensions = {".".join(path.with_suffix("").parts): str(path) for path in HOT_MODULES}
    made = []
    for alike, directives in ((extensions.keys() - TYPES, {}), *(({name}, own) for name, own in TYPES.items())):
        modules = [Extension(name, [extensions[name]]) for name in sorted(alike)]
        made += cythonize(modules, build_dir="build/cython", compiler_directives={**DIRECTIVES, **directives})
    return made


class BuildOrStayPure(build_ext):
    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # whatever a missing or broken compiler raises
            self.warn(f"the hot modules stay plain Python, which is slower: {error}")
            for built in super().get_outputs():
                Path(built).unlink(missing_ok=True)
            self.extensions = []


class BuildWithAutoload(build_py):
    """Installs at the top level, too, what PySpark looks for there."""

    def find_modules(self) -> list[tuple[str, str, str]]:
        return [("", AUTOLOAD.stem, str(AUTOLOAD))]


setup(
    ext_modules=hot_extensions(),
    py_modules=[AUTOLOAD.stem],
    cmdclass={"build_ext": BuildOrStayPure, "build_py": BuildWithAutoload},
)

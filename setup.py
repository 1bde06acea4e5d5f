"""Compiles the hot modules if Cython and a C compiler are available; otherwise they stay plain Python.

Each of them is one ``.py`` with its C types in a sibling ``.pxd``. They are compiled all or none, because compiled
modules take each other's C types. ``AIOKAFKA_LEAD_PURE=1`` leaves them plain, and ``AIOKAFKA_LEAD_WITHOUT=a,b``
compiles them without these modules of ``aiokafka_lead/_cpython`` (or without ``all``). In place, for developers:
``python setup.py build_ext --inplace``; build again after a change, since Python prefers the compiled file.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

INLINED = Path("aiokafka_lead/_cpython")
"""Folder in which each ``.pxd`` holds C functions for the modules, and is not compiled itself."""
TRICKS = {path.stem for path in INLINED.glob("*.pxd")}
HOT_MODULES = sorted(p.with_suffix(".py") for p in Path("aiokafka_lead").rglob("*.pxd") if p.parent != INLINED)
PER_RECORD = {
    f"aiokafka_lead.{name}"
    for name in (
        "_core.producer.batches", "_core.producer.delivery", "_core.producer.outcome", "_core.share.acquired",
        "_core.share.delivered", "_core.share.record", "_io.consumer.records",
        "_io.producer.intake", "_io.producer.send_methods", "_io.share.acknowledging", "_io.share.records",
        "_records.batch", "_records.decoder", "_records.encoder", "_records.murmur2",
        "_records.reading", "_records.record", "compat.consumer.read_record", "compat.producer.futures",
        "compat.producer.message_accumulator",
    )
}  # fmt: skip
"""Modules that handle every record, with full C optimization. The rest, which works by batch and request, would double
the time of the build for a gain too small to measure."""
TYPES = {
    "aiokafka_lead._core.consumer.position": {"no_gc": True, "freelist": 1024},
    "aiokafka_lead._core.producer.delivery": {"no_gc": True, "freelist": 1024},
    "aiokafka_lead._io.share.acknowledging": {"freelist": 512},
    "aiokafka_lead._records.encoder": {"no_gc": True, "freelist": 64},
    "aiokafka_lead.compat.consumer.read_record": {"freelist": 1024},
    "aiokafka_lead.compat.producer.futures": {"freelist": 512},
}
"""Directives for the extension types of single modules: Cython ignores them in a ``.pxd`` that goes with a ``.py``.

``no_gc`` is for types whose instances are never part of a lasting cycle: the encoder's hold bytes and numbers only, a
partition's fetch a UUID and numbers."""
AUTOLOAD = Path("aiokafka_lead/spark/autoload/pyspark_aiokafka_lead.py")
DIRECTIVES = {
    "language_level": "3",
    "annotation_typing": False,
    "auto_pickle": False,
    "binding": False,
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "wraparound": False,
    "freethreading_compatible": True,
}
CIMPORT = re.compile(r"^(?:from +([\w.]+) +)?cimport +(?:\(([^)]*)\)|(.*))", re.MULTILINE)


def hot_extensions() -> list[Extension]:
    """Return the modules to compile: none if that is unwanted, or without Cython."""
    if os.environ.get("AIOKAFKA_LEAD_PURE") == "1":
        return []
    macros: list[tuple[str, str | None]] = [(f"AIOKAFKA_LEAD_WITHOUT_{name.upper()}", "1") for name in left_out()]
    try:
        import Cython.Build  # noqa: F401
    except ImportError:
        return []
    return [Extension(".".join(p.with_suffix("").parts), [str(p)], define_macros=macros) for p in HOT_MODULES]


def left_out() -> list[str]:
    """Return the modules of ``_cpython`` to leave out of compiled modules, which then use plainer ways."""
    asked = {name.strip() for name in os.environ.get("AIOKAFKA_LEAD_WITHOUT", "").split(",")} - {""}
    names = TRICKS if asked == {"all"} else asked
    if unknown := names - TRICKS:
        sys.exit(
            f"AIOKAFKA_LEAD_WITHOUT names {', '.join(sorted(unknown))}: it takes {', '.join(sorted(TRICKS))}, or all"
        )
    return sorted(names)


def note_left_out(note: Path) -> Path:
    """Write them down: every module is rebuilt when this changes."""
    names = ",".join(left_out())
    note.parent.mkdir(parents=True, exist_ok=True)
    if not note.exists() or note.read_text() != names:
        note.write_text(names)
    return note


@cache
def cimported(source: Path) -> frozenset[Path]:
    """Return the package's ``.pxd`` files that a file names, including its own sibling.

    Cython's own list of them leaves out the modules of ``from package cimport module``.
    """
    names = {source.with_suffix("")}
    for package, several, one in CIMPORT.findall(source.read_text()):
        places = [package, *(f"{package}.{name}".strip(".") for name in re.findall(r"[\w.]+", several or one))]
        names |= {Path(*place.split(".")) for place in places if place}
    return frozenset(path for name in names if (path := name.with_suffix(".pxd")).is_file())


def last_change(source: Path, note: Path) -> float:
    """Return the time of the last change to the sources of a module's C code, including `note_left_out`."""
    settings = {Path("setup.py"), note}
    made_of, seen = {source, *settings}, set[Path]()
    while unseen := made_of - seen:
        seen |= unseen
        made_of = made_of.union(*map(cimported, unseen - settings))
    return max(path.stat().st_mtime for path in made_of)


def translate(extension: Extension, folder: Path) -> None:
    """Generate a module's C code in the folder, unless it is up to date, and build the extension from it."""
    from Cython.Build import cythonize
    from Cython.Compiler import Errors, Options

    Errors.LEVEL = 2  # it warns of functions that a .pxd declares inline, and makes them so
    Options.emit_code_comments = False
    Options.get_directive_defaults().update(no_gc=False, freelist=0)  # directives missing here cannot be module-wide
    source = Path(extension.sources[0])
    made = folder / source.with_suffix(".c")
    note = note_left_out(folder / "left_out")
    types = {} if "collector" in left_out() else TYPES.get(extension.name, {})
    (translated,) = cythonize(
        [extension],
        build_dir=str(folder),
        compiler_directives={**DIRECTIVES, **types},
        force=made.exists() and made.stat().st_mtime <= last_change(source, note),
        quiet=True,
    )
    extension.sources = translated.sources


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other build uses the folder, and make other builds wait meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class BuildOrStayPure(build_ext):
    tenths_shown = -1

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count() or 1

    def run(self) -> None:
        try:
            with alone_in(Path(self.build_temp).parent):
                super().run()
        except Exception as error:  # whatever a missing or broken compiler raises
            self.warn(f"the hot modules stay plain Python, which is slower: {error}")
            for built in super().get_outputs():
                Path(built).unlink(missing_ok=True)
            self.extensions = []

    def build_extensions(self) -> None:
        """Translate the modules in turn, and compile each as soon as its C code exists."""
        compiled: list[Future[None]] = []
        compilers = ThreadPoolExecutor(self.parallel)
        try:
            for extension in self.extensions:
                translate(extension, Path(self.build_temp).parent / "cython")
                if self.compiler.compiler_type == "unix":
                    extension.extra_compile_args = ["-g0", "-O3" if extension.name in PER_RECORD else "-O1"]
                    extension.extra_link_args = ["-Wl,-S,-x"] if sys.platform == "darwin" else ["-Wl,-s"]  # no symbols
                compiled.append(compilers.submit(self.build_extension, extension))
                self.show_progress(compiled)
            for _ in as_completed(compiled):
                self.show_progress(compiled)
        finally:
            compilers.shutdown(cancel_futures=True)
            if sys.stderr.isatty():
                sys.stderr.write("\n")

    def show_progress(self, compiled: list[Future[None]]) -> None:
        """Show one line on a terminal, written over; ten elsewhere (``pip -v``). Raises a compiler's error."""
        done = [extension for extension in compiled if extension.done()]
        for extension in done:
            extension.result()
        text = f"Compiling the hot modules: {len(done)} of {len(self.extensions)}"
        tenths = len(done) * 10 // len(self.extensions)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{text}")
        elif tenths > self.tenths_shown:
            sys.stderr.write(f"{text}\n")
        self.tenths_shown = tenths
        sys.stderr.flush()


class BuildWithAutoload(build_py):
    """Also installs the module that PySpark looks for at the top level."""

    def find_modules(self) -> list[tuple[str, str, str]]:
        return [("", AUTOLOAD.stem, str(AUTOLOAD))]


@contextmanager
def build_options() -> Iterator[dict[str, dict[str, str]]]:
    """Build a wheel in a separate folder, free of other builds and of files left by older ones."""
    if "bdist_wheel" not in sys.argv:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="aiokafka-lead-") as folder:
        yield {"build": {"build_base": folder}}


REPOSITORY = os.environ.get("AIOKAFKA_LEAD_REPOSITORY", "").rstrip("/")
"""Address of a release's source, ``https://HOST/OWNER/NAME``, set by its build."""
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


def project_urls() -> dict[str, str]:
    if not REPOSITORY:
        return {}
    return {
        "Source": REPOSITORY,
        "Documentation": f"{REPOSITORY}/tree/main/docs",
        "Changelog": f"{REPOSITORY}/blob/main/CHANGELOG.md",
        "Issues": f"{REPOSITORY}/issues",
        "Security": f"{REPOSITORY}/blob/main/SECURITY.md",
    }


def long_description() -> str:
    """Return README.md for the package index, whose links and pictures within the repository would not work."""
    text = Path("README.md").read_text(encoding="utf-8")
    if not REPOSITORY:
        return text

    def absolute(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        return f"{picture}[{words}]({REPOSITORY}/{'raw' if picture else 'blob'}/main/{path})"

    return LINK.sub(absolute, text)


with build_options() as options:
    setup(
        long_description=long_description(),
        long_description_content_type="text/markdown",
        project_urls=project_urls(),
        ext_modules=hot_extensions(),
        py_modules=[AUTOLOAD.stem],
        cmdclass={"build_ext": BuildOrStayPure, "build_py": BuildWithAutoload},
        options=options,
    )

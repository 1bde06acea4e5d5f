"""Builds and tests an sdist, and a wheel for each Python on this machine: ``make dist``.

    python -m tools.dist [--python PATH ...]

For each interpreter, the wheel is built from the sdist and installed with its dependencies in a new environment, in
which the tests in ``tests/wheel`` run. Then the sdist is installed without a working C compiler in another environment,
and the tests run again. No installation may show output of a compiler. Wheels are written to ``dist/``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
MINORS = range(11, 16)
PLACES = ["~/.pyenv/versions/*/bin", "~/.local/share/uv/python/*/bin", "/opt/python/*/bin"]
"""Folders that may contain interpreters and need not be on the PATH."""
ABOUT = (
    "import json, sys, sysconfig; print(json.dumps([sys.version_info[:2], sysconfig.get_config_var('EXT_SUFFIX'),"
    " sys.version.split()[0] + ('t' if sysconfig.get_config_var('Py_GIL_DISABLED') else '')]))"
)
TEXT_OF_COMPILERS = ("error:", "warning:", "gcc", "clang", "cython")
MOST_BYTES = 4_000_000


def interpreters() -> dict[str, str]:
    """Return an interpreter for each supported ABI, by version. Interpreters without C headers are left out."""
    names = [f"python3.{minor}{flag}" for minor in MINORS for flag in ("", "t")]
    found = [path for name in names if (path := shutil.which(name))]
    for place in PLACES:
        folder = Path(place).expanduser()
        found += [str(path) for name in names for path in sorted(Path(folder.anchor).glob(f"{str(folder)[1:]}/{name}"))]
    by_abi: dict[str, tuple[str, str]] = {}
    for path in [sys.executable, *found]:
        said = subprocess.run([path, "-c", ABOUT], capture_output=True, text=True)
        if said.returncode == 0:  # a shim of an inactive pyenv version fails
            version, abi, name = json.loads(said.stdout)
            if tuple(version) >= (3, MINORS[0]):
                by_abi.setdefault(abi, (name, path))
    return dict(sorted(by_abi.values()))


def run(*command: str | Path, **environment: str) -> str:
    """Run a command, and return its output. If it fails, exit with its output."""
    done = subprocess.run(
        [*map(str, command)],
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        capture_output=True,
        text=True,
        cwd=tempfile.gettempdir(),
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def make_sdist() -> Path:
    shutil.rmtree(DIST, ignore_errors=True)
    script = f"import os; os.chdir({str(ROOT)!r}); from setuptools import build_meta; build_meta.build_sdist('dist')"
    run(sys.executable, "-c", script)
    (sdist,) = DIST.glob("*.tar.gz")
    return sdist


def environment_of(python: str, own: Path) -> Path:
    """Create a virtual environment, and return its interpreter. The Python of a distribution may lack pip."""
    run(python, "-m", "venv", own)
    return next(path for path in (own / "bin" / "python", own / "Scripts" / "python.exe") if path.exists())


def tried(python: str, what: Path, folder: Path, accelerated: bool, **environment: str) -> str:
    """Install the package in a new environment, run the tests, and return the last line of pytest's output."""
    own = folder / ("compiled" if accelerated else "plain")
    bin_python = environment_of(python, own)
    said = run(bin_python, "-m", "pip", "install", "--no-cache-dir", what, **environment).lower()
    if shown := [text for text in TEXT_OF_COMPILERS if text in said]:
        sys.exit(f"the installation of {what.name} shows {shown}:\n{said}")
    run(bin_python, "-m", "pip", "install", "--quiet", "pytest>=8.3", "pytest-timeout>=2.3")
    tests = own / "tests"
    shutil.copytree(ROOT / "tests" / "wheel", tests / "wheel")
    shutil.copy(ROOT / "tests" / "__init__.py", tests)
    expected = {"EXPECT_ACCELERATED": str(int(accelerated)), "PYTHONPATH": ""}
    options: list[str | Path] = ["-q", "-p", "no:cacheprovider", "--rootdir", tests, f"{tests}/wheel"]
    return run(bin_python, "-W", "error", "-m", "pytest", *options, **expected).strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", help="this interpreter alone; may be repeated")
    asked = parser.parse_args().python
    sdist = make_sdist()
    print(f"{sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB")
    for version, python in {path: path for path in asked}.items() if asked else interpreters().items():
        with tempfile.TemporaryDirectory(prefix="aiokafka-lead-dist-") as made:
            folder = Path(made)
            builder = environment_of(python, folder / "building")
            run(builder, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "wheel", sdist)
            (wheel,) = (folder / "wheel").glob("*.whl")
            size = wheel.stat().st_size
            if size > MOST_BYTES:
                sys.exit(f"{wheel.name} has {size} bytes, more than {MOST_BYTES}")
            print(f"{version}: {wheel.name}, {size / 1e6:.1f} MB: {tried(python, wheel, folder, True)}", flush=True)
            nothing = {"CC": "/bin/false", "CXX": "/bin/false"}
            print(f"{version}: sdist without a compiler: {tried(python, sdist, folder, False, **nothing)}", flush=True)
            shutil.copy(wheel, DIST)


if __name__ == "__main__":
    main()

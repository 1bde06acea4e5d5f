"""Java, and the jars of a Kafka release."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from .releases import Release

CACHE: Final = Path(__file__).resolve().parents[3] / ".cache" / "kafka"
"""Folder in which jars and compiled helpers are kept between runs: in the checkout, ignored by git."""

_POM: Final = Path(__file__).with_name("pom.xml")
_OLDEST_JAVA: Final = 17
_MAVEN_TIMEOUT_S: Final = 600


class JavaUnavailableError(Exception):
    """This machine cannot run Apache Kafka; the message names the missing programs."""


def require_java() -> None:
    """Raise `JavaUnavailableError` unless a JDK of version 17 or newer and Maven are here."""
    problem = _missing()
    if problem is not None:
        raise JavaUnavailableError(problem)


@cache
def _missing() -> str | None:
    for program in ("java", "javac", "mvn"):
        if shutil.which(program) is None:
            return f"no {program} on the PATH (a JDK {_OLDEST_JAVA}+ and Maven are needed)"
    if int(version().partition(".")[0] or 0) < _OLDEST_JAVA:
        return f"Java {_OLDEST_JAVA}+ is needed, and this is {version() or 'none that says its version'}"
    return None


@cache
def version() -> str:
    """Return Java's version, as in "17.0.15"."""
    answer = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'version "(?:1\.)?([\d.]+)', answer.stderr)
    return "" if found is None else found[1]


def class_path(release: Release, plugin: Path | None = None) -> str:
    """Return the release's jars, and a plugin compiled from this source, as a class path; Maven downloads jars once."""
    target = CACHE / f"jars-{release}"
    with lock(f"jars-{release}"):
        if not target.is_dir():
            partial = CACHE / f"jars-{release}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            what = (f"-Dkafka.version={release}", f"-DoutputDirectory={partial}")
            maven("-f", str(_POM), "dependency:copy-dependencies", *what)
            partial.rename(target)
    jars = os.pathsep.join(sorted(str(jar) for jar in target.glob("*.jar")))
    return jars if plugin is None else f"{jars}{os.pathsep}{compile_class(plugin, jars)}"


def maven(*arguments: str) -> None:
    """Run Maven; RuntimeError if it fails."""
    options = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {os.environ.get('MAVEN_OPTS', '')}"
    done = subprocess.run(
        ["mvn", "-q", "-B", *arguments],
        env={**os.environ, "MAVEN_OPTS": options},
        capture_output=True,
        text=True,
        timeout=_MAVEN_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"Maven could not bring {' '.join(arguments)}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def compile_class(source: Path, classes_from: str) -> Path:
    """Compile a Java source file if necessary; return the folder for the class path."""
    target = CACHE / source.stem
    with lock(source.stem):
        compiled = target / f"{source.stem}.class"
        if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
            command = ["javac", "-cp", classes_from, "-d", str(target), str(source)]
            subprocess.run(command, check=True, timeout=120)
    return target


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Prevent concurrent test runs from writing the same files."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

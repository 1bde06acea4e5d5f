"""Jars that PySpark lacks, fetched once by Maven."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

__all__ = ["fetched_jars"]

_CACHE = Path(__file__).parents[2] / ".cache" / "spark"


def fetched_jars(name: str, version: str) -> Sequence[Path]:
    """Return the jars of ``{name}_pom.xml`` and their dependencies, for a value of its property ``{name}.version``."""
    target = _CACHE / f"{name}-{version}"
    if not target.is_dir():
        partial = target.with_name(f"{target.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        pom = Path(__file__).with_name(f"{name}_pom.xml")
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        subprocess.run(
            [*command, f"-D{name}.version={version}", "-DincludeScope=runtime", f"-DoutputDirectory={partial}"],
            check=True, timeout=600,
        )  # fmt: skip
        partial.rename(target)
    return sorted(target.glob("*.jar"))

"""Loads in other languages that speak as `benchmarks.load` does: franz-go, and Apache Kafka's own client."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_GO_PROGRAM = _HERE.parents[1] / ".cache" / "franz_go_load"
FOREIGN = {"franz-go": "go", "java": "mvn"}
"""By client: the program that its build needs."""


def available() -> list[str]:
    """The clients that can be built on this machine."""
    return [client for client, program in FOREIGN.items() if shutil.which(program)]


def load_command(client: str) -> list[str]:
    """The command that is this client's load; its program is built first, where that is due."""
    if client == "franz-go":
        _GO_PROGRAM.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["go", "build", "-o", str(_GO_PROGRAM), "."], cwd=_HERE / "franz_go", check=True)
        return [str(_GO_PROGRAM)]
    if client == "java":
        from tests.kafka.harness import NEWEST
        from tests.kafka.harness.java import class_path, compile_class

        jars = class_path(NEWEST)
        classes = compile_class(_HERE / "JavaLoad.java", jars)
        return ["java", "-Xmx256m", "-cp", f"{classes}:{jars}", "JavaLoad"]
    return [sys.executable, "-m", "benchmarks.load", client]

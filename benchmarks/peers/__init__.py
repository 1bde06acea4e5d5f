"""Programs with franz-go and Apache Kafka's Java client, which do the same as the benchmarks with this client."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_HERE = Path(__file__).parent
_GO_PROGRAMS = _HERE.parents[1] / ".cache"
FOREIGN = {"franz-go": "go", "java": "mvn"}
"""Build program of each client."""


def available() -> list[str]:
    """Return the clients that can be built on this machine."""
    return [client for client, program in FOREIGN.items() if shutil.which(program)]


def load_command(client: str) -> list[str]:
    """Return the command of a client's program for a steady load. Builds the program if necessary."""
    if client in FOREIGN:
        return _built(client, "load", ".", "JavaLoad")
    return [sys.executable, "-m", "benchmarks.load", client]


def reader_command(client: str) -> list[str]:
    """Return the command of a client's consumer. Builds the program if necessary."""
    if client in FOREIGN:
        return _built(client, "read", "./read", "JavaRead")
    return [sys.executable, "-m", "benchmarks.reader", client]


def transactions_command(client: str) -> list[str]:
    """Return the command of a client's transactions. Builds the program, whose source lists the arguments."""
    return _built(client, "transactions", "./transactions", "JavaTransactions")


def share_command(client: str) -> list[str]:
    """Return the command of a client's share consumer. Builds the program, whose source lists the arguments."""
    return _built(client, "share", "./share", "JavaShare")


def _built(client: str, name: str, go_package: str, java_class: str) -> list[str]:
    if client == "franz-go":
        program = _GO_PROGRAMS / f"franz_go_{name}"
        _GO_PROGRAMS.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "CGO_ENABLED": "0"}
        command = ["go", "build", "-o", str(program), go_package]
        subprocess.run(command, cwd=_HERE / "franz_go", check=True, env=environment)
        return [str(program)]
    from tests.kafka.harness import NEWEST
    from tests.kafka.harness.java import class_path, compile_class

    jars = class_path(NEWEST)
    classes = compile_class(_HERE / f"{java_class}.java", jars)
    return ["java", "-Xmx256m", "-cp", f"{classes}:{jars}", java_class]

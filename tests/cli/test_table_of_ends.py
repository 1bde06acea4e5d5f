"""Each command ends as the table in docs/cli.md says: at terminals, in pipes, without descriptors, at signals."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from typer.main import get_command

from aiokafka_lead._core.run.failures import DEAD_LETTER_HEADERS
from aiokafka_lead.testing import ClusterThread

from ..suites import ALL
from .conftest import CommandLine, program
from .test_processes import PATIENCE_S, PROGRAM, environment
from .test_terminal import AtTerminal

pytestmark = pytest.mark.usefixtures("handler_of_python")

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
ROW = re.compile(r"\| `(?P<command>[^`]+)` \| (?P<codes>[\d |]+) \| (?P<left>[^|]+) \|")
ROWS = [
    (found["command"], [int(code) for code in found["codes"].split("|")], found["left"])
    for found in ROW.finditer(DOCUMENT.read_text("utf-8").partition("### Ends of commands")[2])
]
COLUMNS = {
    "80 columns": 0,
    "120 columns": 0,
    "ascii": 0,
    "2>&-": 0,
    "<&-": 1,
    ">&-": 2,
    ">/dev/full": 2,
    "no reader": 3,
}
"""Situations, and the columns with their exit codes."""

UNTESTED = {
    "serve",
    "groups topology",
    "cluster controllers",
    "cluster unregister-broker",
    "cluster unregister-controller",
}
FIRST = [
    ("consume TOPIC --until end", "ascii"),
    ("consume TOPIC --until end -O FILE", "80 columns"),
    ("copy TOPIC OTHER", "80 columns"),
    ("replay TOPIC --to OTHER", "80 columns"),
    ("topics list", "80 columns"),
    ("groups lag GROUP", ">&-"),
    ("cluster brokers", "2>&-"),
    ("doctor --watch 1ms", "80 columns"),
    ("bench -n 100", "120 columns"),
]
"""Cases of the suite "test": each kind of output at a terminal, and each redirection. All other cases take minutes."""


@pytest.fixture
def case(cli: CommandLine, cluster: ClusterThread, tmp_path: Path) -> Case:
    return Case(cli, cluster, tmp_path)


class Case:
    """A topic with a dead letter, and a group that has read it."""

    def __init__(self, cli: CommandLine, cluster: ClusterThread, folder: Path) -> None:
        self.cluster = cluster
        self.topic = f"topic-{os.urandom(4).hex()}"
        self.file = folder / "out.parquet"
        for name in (self.topic, f"{self.topic}.other"):
            cluster.create_topic(name, 1)
        cli.fine("produce", self.topic, "-H", f"{DEAD_LETTER_HEADERS[0]}=origin", stdin="1\n")
        cli.fine("consume", self.topic, "-g", self.topic, "-n", "1")
        cli.fine("acls", "add", "-u", "User:ann", "-o", "read", "-r", "topic", "-n", self.topic)
        self.before = set(cluster.topic_names())

    def arguments(self, command: str) -> list[str]:
        """Return a row's command for this case."""
        names = {"NEW": f"{self.topic}.new", "OTHER": f"{self.topic}.other", "TOPIC": self.topic, "GROUP": self.topic}
        names["FILE"] = str(self.file)
        return [names.get(word, word) for word in command.split()]

    def check_left(self, left: str) -> None:
        """Check what a signal has left behind."""
        assert [path.name for path in self.file.parent.iterdir()] in ([], [self.file.name])
        if self.file.exists():
            pyarrow.parquet.read_table(self.file)
        new, gone = set(self.cluster.topic_names()) - self.before, self.before - set(self.cluster.topic_names())
        if left == "nothing":
            assert not new
            assert not gone


def at_terminal(cli: CommandLine, arguments: list[str], columns: int) -> int:
    ran = AtTerminal(cli, *arguments, columns=columns)
    ran.type("n\n\x04")  # a record, or an answer
    code = ran.ended()
    assert "Traceback" not in ran.said
    return code


def begun(cli: CommandLine, arguments: list[str], situation: str) -> subprocess.Popen[bytes]:
    """Begin a command without a terminal."""
    encoding = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"} if situation == "ascii" else {}
    reader, writer = os.pipe()
    if situation == "no reader":
        os.close(reader)
    redirection = situation if "&" in situation or "/" in situation else ""
    try:
        return subprocess.Popen(
            ["bash", "-c", f'exec "$@" {redirection}', "bash", *PROGRAM, *arguments],
            env={**environment(cli), **encoding},
            stdin=subprocess.DEVNULL,
            stdout=writer if situation == "no reader" else subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    finally:
        os.close(writer)
        if situation != "no reader":
            os.close(reader)


def cases(situations: Iterable[str]) -> list[Any]:
    """Return a parameter for each row and situation."""
    pairs = [(row, situation) for row in ROWS for situation in situations]
    return [
        pytest.param(*row, situation, marks=() if (row[0], situation) in FIRST else ALL, id=f"{row[0]}, {situation}")
        for row, situation in pairs
    ]


@pytest.mark.parametrize(("command", "codes", "left", "situation"), cases(COLUMNS))
def test_exit_codes(case: Case, cli: CommandLine, command: str, codes: list[int], left: str, situation: str) -> None:
    arguments = case.arguments(command)
    if situation.endswith(" columns"):
        code = at_terminal(cli, arguments, int(situation.split()[0]))
    else:
        with begun(cli, arguments, situation) as process:
            _, said = process.communicate(timeout=PATIENCE_S)
        code = process.returncode
        assert b"Traceback" not in said
    assert code == codes[COLUMNS[situation]], command


@pytest.mark.parametrize(("command", "codes", "left", "situation"), cases(["pipe"]))
def test_what_a_signal_leaves(
    case: Case, cli: CommandLine, command: str, codes: list[int], left: str, situation: str
) -> None:
    with begun(cli, case.arguments(command), situation) as process:
        time.sleep(random.Random(command).uniform(0.1, 1.5))  # any time will do
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (143, -signal.SIGTERM, codes[0]), command
    assert b"Traceback" not in said
    case.check_left(left)


def test_the_table_has_every_command() -> None:
    named = {
        " ".join(word for word in command.split()[:2] if word.islower() and word[0] != "-") for command, _, _ in ROWS
    }
    assert named == set(commands(get_command(program()), "")) - UNTESTED


def commands(group: Any, before: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield f"{before}{name}"

"""Output at a terminal of 80 columns."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from aiokafka_lead.testing import ClusterThread

from .conftest import CommandLine
from .test_processes import PROGRAM, environment

CONTROLS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
LEAVES_SCREEN = "\x1b[?1049l"

pytestmark = pytest.mark.usefixtures("handler_of_python")


class AtTerminal:
    """A command with a terminal for its output and errors."""

    def __init__(self, cli: CommandLine, *arguments: str, columns: int = 80) -> None:
        self.said = ""
        self._here, there = pty.openpty()
        size = {"TERM": "xterm", "COLUMNS": str(columns), "LINES": "24"}
        self._process = subprocess.Popen(
            [*PROGRAM, *arguments],
            env={**environment(cli), **size},
            stdin=there,
            stdout=there,
            stderr=there,
            start_new_session=True,
        )
        os.close(there)

    def read_until(self, text: str) -> None:
        """Read until the output contains this text."""
        while text not in self.said:
            assert self._read(), self.said

    def ended(self) -> int:
        """Wait for its end; return its exit code."""
        while self._read():
            pass
        os.close(self._here)
        return self._process.wait()

    def type(self, text: str) -> None:
        """Type this text; "\\x04" is Ctrl-D."""
        os.write(self._here, text.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def _read(self) -> bool:
        try:
            more = os.read(self._here, 65_536)
        except OSError:  # Linux raises it once the other side is closed
            return False
        self.said += more.decode(errors="replace")
        return bool(more)


def test_errors_are_wrapped_between_words(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("nowhere-" + "n" * 21 + "-and-elsewhere", 1)
    command = AtTerminal(cli, "consume", "nowhere-" + "n" * 20 + "-and-elsewhere")
    assert command.ended() == 1
    lines = CONTROLS.sub("", command.said).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80
    words = " ".join(line.strip() for line in lines)
    assert words.startswith("error: there is no topic 'nowhere-")


def test_what_top_showed_last_stays(cli: CommandLine) -> None:
    command = AtTerminal(cli, "top", "--count", "1")
    assert command.ended() == 0
    assert "leader moves seen" in command.said.rpartition(LEAVES_SCREEN)[2]


def test_a_wait_for_new_records_is_announced(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("quiet", 1)
    command = AtTerminal(cli, "consume", "quiet")
    command.read_until("waiting for new records")
    command.interrupt()
    assert command.ended() == 130
    assert "Traceback" not in command.said


def test_records_are_typed_below_a_hint_and_beside_no_bar(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("typed", 1)
    command = AtTerminal(cli, "produce", "typed")
    command.read_until("type one record per line (Ctrl-D to finish)")
    command.type("hello\n\x04")
    assert command.ended() == 0
    assert "typed: 1 records" in command.said
    assert "to typed" not in command.said


_INTERRUPTED_AT_LOADING = """
import sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "aiokafka_lead.cli." + sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from aiokafka_lead.cli.entry import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["app", "signals"])
def test_ctrl_c_while_the_program_loads_leaves_no_traceback(module: str) -> None:
    command = [sys.executable, "-c", _INTERRUPTED_AT_LOADING, module]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")

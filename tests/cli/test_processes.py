"""Effects of a terminal and a pipe on a command: Ctrl-C at a question, and a reader that closes early."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aiokafka_lead.testing import ClusterThread

from ..suites import crossed
from .conftest import CommandLine

PROGRAM = (sys.executable, "-m", "aiokafka_lead.cli")
PATIENCE_S = 50

pytestmark = pytest.mark.usefixtures("handler_of_python")


@contextmanager
def questioned(cli: CommandLine, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command until it asks for a confirmation."""
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        env=environment(cli),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        said = b""
        while b"[y/N]:" not in said:
            more = os.read(process.stderr.fileno(), 4096)
            assert more, said
            said += more
        yield process


def test_rules_that_are_added_at_the_question_stay(cli: CommandLine) -> None:
    rule = ("-r", "topic", "-n", "asked", "-o", "read")
    cli.fine("acls", "add", "-u", "User:shown", *rule)
    with questioned(cli, "acls", "remove", "-n", "asked") as process:
        cli.fine("acls", "add", "-u", "User:later", *rule)
        assert process.stdin is not None
        process.stdin.write(b"y\n")
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
    assert [each["principal"] for each in cli.fine("acls", "list", "-n", "asked", "--json").json] == ["User:later"]
    cli.fine("acls", "remove", "-n", "asked", "-y")


@pytest.fixture
def topic(cli: CommandLine, cluster: ClusterThread) -> str:
    """A topic with a record, a group and a rule."""
    name = f"topic-{os.urandom(3).hex()}"
    cluster.create_topic(name, 1)
    cli.fine("produce", name, stdin="1\n")
    cli.fine("consume", name, "-g", name, "-n", "1")
    cli.fine("acls", "add", "-u", "User:ann", "-o", "read", "-r", "topic", "-n", name)
    return name


def environment(cli: CommandLine) -> dict[str, str]:
    return {**os.environ, **{name: value for name, value in cli.environment.items() if value is not None}}


@pytest.mark.parametrize(
    "command", crossed(["topics delete {}", "groups reset {} --to beginning", "acls remove -n {}"])
)
def test_ctrl_c_ends_a_question(cli: CommandLine, cluster: ClusterThread, topic: str, command: str) -> None:
    with questioned(cli, *command.format(topic).split()) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr is not None
        assert process.stderr.read().split() == b"not confirmed: nothing was changed".split()
    assert topic in cluster.topic_names()
    (row,) = cli.fine("groups", "lag", topic, "--json").json
    assert row["committed"] == 1
    assert len(cli.fine("acls", "list", "-n", topic, "--json").json) == 1


def test_ctrl_c_ends_a_wait_for_input(cli: CommandLine, cluster: ClusterThread, topic: str) -> None:
    with subprocess.Popen(
        [*PROGRAM, "produce", topic],
        env=environment(cli),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"2\n")
        process.stdin.flush()
        until = time.monotonic() + PATIENCE_S
        while len(cluster.records(topic)) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert re.fullmatch(
            rb"(1 records were written|0 records were written, and perhaps 1 more)\n", process.stderr.read()
        )


@pytest.mark.parametrize(
    "command",
    crossed(
        ["topics list", "consume {} -o beginning --until end", "topics list --json", "consume {} -g {} -n 1"], first=2
    ),
)
def test_a_reader_that_has_read_enough_is_no_failure(cli: CommandLine, topic: str, command: str) -> None:
    cli.fine("produce", topic, stdin="2\n")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as stdout:
        ended = subprocess.run(
            [*PROGRAM, *command.format(topic, topic).split()],
            env=environment(cli),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_partition_that_is_not_there_is_named(cli: CommandLine, topic: str) -> None:
    ran = cli("consume", topic, "--partition", "0", "--partition", "9", "-o", "beginning", "--until", "end")
    assert (ran.code, "has no partition 9" in ran.err) == (2, True), ran.err


def test_nothing_is_asked_about_rules_that_are_not_there(cli: CommandLine) -> None:
    ran = cli.fine("acls", "remove", "-n", "no-such-topic")
    assert "no rule matches" in ran.err


def test_a_broker_is_named_by_its_id(cli: CommandLine) -> None:
    ran = cli("configs", "show", "broker", "kafka-1.example.org")
    assert (ran.code, "the broker's id" in ran.err) == (2, True), ran.err


@pytest.mark.parametrize("wrong", [("--topic", "orders:many"), ("--port", "70000"), ("--brokers", "0")])
def test_wrong_options_of_serve_are_named(cli: CommandLine, wrong: tuple[str, str]) -> None:
    ran = cli("serve", *wrong)
    assert (ran.code, wrong[0] in ran.err) == (2, True), ran.err
    assert "aiokafka_lead.testing" not in ran.err

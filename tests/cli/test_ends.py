"""Ends of commands: by signals, without descriptors, with a full disk; and their output."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import termios
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet
import pytest

from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from ..suites import crossed
from .conftest import CommandLine
from .test_processes import PATIENCE_S, PROGRAM, environment

pytestmark = pytest.mark.usefixtures("handler_of_python")

UNWRITTEN = "error: cannot write to standard output:"
SIGNALS = [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]


@pytest.fixture(autouse=True)
def hangups_are_not_ignored() -> Iterator[None]:
    """Programs inherit ignored signals: nohup ignores SIGHUP."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def is_full(pipe: IO[bytes]) -> bool:
    """Return True if a pipe has no room for the largest write that is atomic (PIPE_BUF)."""
    waiting = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0] > fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - select.PIPE_BUF


@contextmanager
def begun(cli: CommandLine, *arguments: str, stdin: Any = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    """Begin a command; kill it if the test fails before its end."""
    with subprocess.Popen(
        [*PROGRAM, *arguments], env=environment(cli), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def wait_for_question(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    said = b""
    while b"[y/N]:" not in said:
        said += os.read(process.stderr.fileno(), 4096)


def type_line(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()


def in_shell(cli: CommandLine, command: str) -> subprocess.CompletedProcess[str]:
    text = command.replace("al ", f"{' '.join(PROGRAM)} ")
    return subprocess.run(
        ["bash", "-c", text], env=environment(cli), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize(("number", "code"), crossed(SIGNALS))
def test_a_signal_leaves_a_file_that_is_whole_and_no_other(
    cli: CommandLine, cluster: ClusterThread, tmp_path: Path, number: int, code: int
) -> None:
    topic = f"signal-{number}"
    cluster.create_topic(topic, 1)
    cli.fine("produce", topic, stdin="1\n2\n3\n")
    path = tmp_path / "out.parquet"
    path.write_bytes(b"an older file")
    with begun(cli, "consume", topic, "-o", "beginning", "-O", str(path)) as process:
        wait_for(lambda: len(os.listdir(tmp_path)) == 2)
        assert path.read_bytes() == b"an older file"
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == code
    assert os.listdir(tmp_path) == ["out.parquet"]
    assert pyarrow.parquet.read_table(path).num_rows <= 3


@pytest.mark.parametrize("options", ["-o beginning", "-g early"])
def test_a_reader_that_leaves_ends_a_wait_for_records(cli: CommandLine, cluster: ClusterThread, options: str) -> None:
    if "early" not in cluster.topic_names():
        cluster.create_topic("early", 1)
        cli.fine("produce", "early", stdin="1\n2\n")
    ran = in_shell(cli, f"set -o pipefail; al consume early {options} | head -1")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1\n", "")


def test_a_group_commits_what_is_in_a_file_once_that_is_whole(
    cli: CommandLine, cluster: ClusterThread, tmp_path: Path
) -> None:
    cluster.create_topic("filed", 1)
    cli.fine("produce", "filed", stdin="1\n2\n")
    path = tmp_path / "out.parquet"
    with begun(cli, "consume", "filed", "-g", "filing", "-O", str(path)) as process:
        wait_for(lambda: len(os.listdir(tmp_path)) == 1)
        process.kill()
    assert not path.exists()
    ran = cli("groups", "lag", "filing", "--json")
    assert all(row["committed"] is None for row in (ran.json if ran.out else []))
    cli.fine("consume", "filed", "-g", "filed", "-n", "2", "-O", str(path))
    assert cli.fine("groups", "lag", "filed", "--json").json[0]["committed"] == 2
    assert pyarrow.parquet.read_table(path).num_rows == 2


def test_a_group_commits_the_partitions_that_are_left_to_a_member_with_a_file(
    cli: CommandLine, cluster: ClusterThread, tmp_path: Path
) -> None:
    """Their records would be in the next file again."""
    cluster.create_topic("shared", 2)
    for partition, lines in enumerate(("1\n2\n", "3\n")):
        cli.fine("produce", "shared", "--partition", str(partition), stdin=lines)

    def read_by_first() -> bool:
        asked = {
            part.partition: part.fetch_offset
            for request in cluster.requests.select("Fetch", client_id="first")
            for topic in request.request.topics
            if topic.topic_id == cluster.topic_id("shared")
            for part in topic.partitions
        }
        return asked == {0: 2, 1: 1}

    def left_to_first() -> list[str]:
        members = cli.fine("groups", "describe", "shared", "--json").json
        return [where for row in members if row["client"] == "first" and len(members) == 2 for where in row["has"]]

    def member(name: str) -> tuple[str, ...]:
        also = ("-X", f"client_id={name}", "-X", "heartbeat_interval_ms=100", "-O", str(tmp_path / f"{name}.parquet"))
        return ("consume", "shared", "-g", "shared", *also)

    with begun(cli, *member("first"), "-n", "4") as first:
        wait_for(read_by_first)
        with begun(cli, *member("second")):
            wait_for(lambda: len(left_to_first()) == 1)
            kept = int(left_to_first()[0].rpartition("-")[2])
            cli.fine("produce", "shared", "--partition", str(kept), stdin="4\n")
            _, said = first.communicate(timeout=PATIENCE_S)
    assert (first.returncode, b"not committed" in said) == (0, True), said
    committed = {row["partition"]: row["committed"] for row in cli.fine("groups", "lag", "shared", "--json").json}
    assert committed[kept] == cluster.end_offset("shared", kept)


def test_a_member_waits_for_brokers_that_take_no_commit(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        cluster.create_topic("late", 1)
        servers = ("-b", cluster.bootstrap_servers)
        limits = ("-X", "default_api_timeout_ms=1000", "-X", "request_timeout_ms=1000")
        cluster.faults.add("OffsetCommit", drop=True)
        cli.fine("produce", "late", *servers, stdin="1\n")
        with begun(cli, "consume", "late", "-g", "late", *servers, *limits) as process:
            cluster.wait_for_requests("OffsetCommit", count=2)  # another follows without another record
            cluster.faults.clear()
            wait_for(lambda: [row["lag"] for row in cli.fine("groups", "lag", "late", *servers, "--json").json] == [0])
            process.terminate()
            assert process.wait(PATIENCE_S) == 143


def test_a_file_that_is_whole_without_a_commit_is_a_failure(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        cluster.create_topic("unsaid", 1)
        servers = ("-b", cluster.bootstrap_servers)
        cli.fine("produce", "unsaid", *servers, stdin="1\n")
        cluster.faults.add("OffsetCommit", drop=True)
        ran = cli("consume", "unsaid", "-g", "unsaid", "-n", "1", "-O", str(path), *servers)
    assert (ran.code, "its offsets are not committed" in ran.err) == (3, True), ran.err
    assert pyarrow.parquet.read_table(path).num_rows == 1


@pytest.mark.parametrize(("number", "code"), crossed(SIGNALS[:2]))
def test_a_signal_ends_a_membership(cli: CommandLine, cluster: ClusterThread, number: int, code: int) -> None:
    name = f"member-{number}"
    cluster.create_topic(name, 1)
    cli.fine("produce", name, stdin="1\n")
    with begun(cli, "consume", name, "-g", name) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == code
    (row,) = cli.fine("groups", "describe", name, "--json").json
    assert row["member"] is None


@pytest.mark.parametrize(("number", "code"), SIGNALS[:1])
def test_a_signal_has_bench_delete_its_topic(cli: CommandLine, cluster: ClusterThread, number: int, code: int) -> None:
    before = set(cluster.topic_names())
    with begun(cli, "bench", "-n", "100000000") as process:
        wait_for(lambda: set(cluster.topic_names()) - before)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == code
    assert set(cluster.topic_names()) == before


@pytest.mark.parametrize(("number", "code"), SIGNALS[2:])
def test_a_signal_ends_a_question(cli: CommandLine, cluster: ClusterThread, number: int, code: int) -> None:
    name = f"asked-{number}"
    cluster.create_topic(name, 1)
    with begun(cli, "topics", "delete", name, stdin=subprocess.PIPE) as process:
        wait_for_question(process)
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == code
    assert name in cluster.topic_names()


def test_a_refused_record_ends_a_wait_for_input(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("small", 1, configs={"max.message.bytes": "200"})
    with begun(cli, "produce", "small", stdin=subprocess.PIPE) as process:
        assert process.stderr is not None
        type_line(process, b"1")
        wait_for(lambda: cluster.end_offset("small"))
        type_line(process, b"x" * 1000)
        assert process.wait(PATIENCE_S) == 1
        first, *_, last = process.stderr.read().decode().splitlines()
        assert first.startswith("error: line 2: "), first
        assert last == "1 records were written; 1 failed"


@pytest.mark.parametrize(("number", "code"), SIGNALS[:1])
def test_an_error_is_reported_though_brokers_stay_away(cli: CommandLine, number: int, code: int) -> None:
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        cluster.create_topic("away", 1)
        command = ("produce", "away", "--input-json", "-b", cluster.bootstrap_servers)
        with begun(cli, *command, stdin=subprocess.PIPE) as process:
            assert process.stderr is not None
            type_line(process, b'{"value": 1}')
            wait_for(lambda: cluster.end_offset("away"))
            cluster.stop_broker(1)
            type_line(process, b'{"value": 2}')
            type_line(process, b"no JSON")
            while not (line := process.stderr.readline()).startswith(b"error: line 3 is not JSON"):
                assert line
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == code
            assert process.stderr.read().endswith(b"1 records were written, and perhaps 1 more\n")


def test_an_input_that_another_program_has_made_non_blocking(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("unblocked", 1)

    def wait_for_record(process: subprocess.Popen[bytes]) -> None:
        wait_for(lambda: cluster.end_offset("unblocked") or process.poll() is not None)

    for command, first, wait, then in (
        (("produce", "unblocked"), b"1\n", wait_for_record, b"2"),
        (("topics", "delete", "unblocked"), b"", wait_for_question, b"y"),
    ):
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        with begun(cli, *command, stdin=reader) as process, open(writer, "wb", buffering=0) as typed:
            os.close(reader)
            typed.write(first)
            wait(process)
            typed.write(then + b"\n")
            typed.close()
            assert process.wait(PATIENCE_S) == 0
    assert "unblocked" not in cluster.topic_names()


def test_a_signal_that_is_ignored_stays_ignored(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("nohup", 1)
    cli.fine("produce", "nohup", stdin="1\n")
    command = ["bash", "-c", f"trap '' HUP; exec {' '.join(PROGRAM)} consume nohup -o beginning"]
    with subprocess.Popen(command, env=environment(cli), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.send_signal(signal.SIGHUP)
        cli.fine("produce", "nohup", stdin="2\n")
        assert process.stdout.readline() == b"2\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 143


def test_a_stuck_reader_does_not_hold_up_the_end(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("stuck", 1)
    cli.fine("produce", "stuck", stdin=f"{'x' * 1000}\n" * 1000)
    with begun(cli, "consume", "stuck", "-o", "beginning") as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        process.terminate()
        assert process.wait(PATIENCE_S) == 143


@pytest.mark.parametrize(
    ("command", "code", "said"),
    crossed(
        [
            ("al produce {} <&-", 0, ""),
            ("al consume {} --until end --json >&-", 1, f"{UNWRITTEN} Bad file descriptor\n"),
            ("al consume {} --until end >/dev/full", 1, f"{UNWRITTEN} No space left on device\n"),
            ("al topics describe nowhere 2>&-", 1, ""),
            ("al topics list <&- >&- 2>&-", 1, ""),
            ("al topics list <&- >&-", 1, f"{UNWRITTEN} Bad file descriptor\n"),
            ("al --help >/dev/full", 1, f"{UNWRITTEN} No space left on device\n"),
            ("al topics describe nowhere 2>/dev/full", 1, ""),
            ("al topics describe 2>/dev/full", 2, ""),
            ("al nothing 2>&-", 2, ""),
        ],
        first=8,
    ),
)
def test_descriptors_that_are_closed_or_full(
    cli: CommandLine, cluster: ClusterThread, command: str, code: int, said: str
) -> None:
    if "closed" not in cluster.topic_names():
        cluster.create_topic("closed", 1)
        cli.fine("produce", "closed", stdin="1\n")
    ran = in_shell(cli, command.format("closed"))
    assert (ran.returncode, ran.stderr) == (code, said)


def test_a_question_needs_no_standard_output(cli: CommandLine, cluster: ClusterThread) -> None:
    for name, to in (("asked-closed", ">&-"), ("asked-piped", "--json | cat")):
        cluster.create_topic(name, 1)
        ran = in_shell(cli, f"(echo what; echo Y) | al topics delete {name} {to}")
        assert name not in cluster.topic_names(), ran
        assert ran.stderr.count("with all records? [y/N]: ") == 2
        assert ran.stdout.startswith("{") or not ran.stdout


def test_a_reader_of_errors_that_pauses_delays_no_signal(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("muted", 1)
    cli.fine("produce", "muted", stdin="no schema\n" * 2000)
    skipping = ("--value-as", "schema", "-X", "schema_registry_url=http://127.0.0.1:1", "--on-error", "skip")
    with begun(cli, "consume", "muted", "-o", "beginning", *skipping) as process:
        assert process.stderr is not None
        assert process.stderr.read(1) == b"s"
        while not is_full(process.stderr):
            pass
        process.terminate()
        assert process.wait(PATIENCE_S) == 143


def test_a_pipe_is_no_terminal_though_colors_are_forced(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("colors", 1)
    cli.environment["FORCE_COLOR"] = "1"
    ran = in_shell(cli, "al topics list; al top --count 1")
    assert "\x1b" not in ran.stdout
    assert "\x1b" not in ran.stderr


def test_what_was_done_is_said_though_it_cannot_be_printed(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("done", 1)
    ran = in_shell(cli, "echo 1 | al produce done >/dev/full")
    assert ran.returncode == 1
    assert "done: 1 records" in ran.stderr
    assert len(cluster.records("done")) == 1


@pytest.mark.parametrize("encoding", ["cp1252"])
def test_output_lacks_characters(cli: CommandLine, cluster: ClusterThread, encoding: str) -> None:
    topic = f"price-{encoding}"
    cluster.create_topic(topic, 1)
    values = ["one", "5 €", "né \U0001f600"]
    cli.fine("produce", topic, stdin="\n".join(values))
    cli = CommandLine({**cli.environment, "PYTHONIOENCODING": encoding})
    ran = in_shell(cli, f"al consume {topic} --until end --json")
    assert [json.loads(line)["value"] for line in ran.stdout.splitlines()] == values
    assert ran.stdout.isascii()
    ran = in_shell(cli, f"al consume {topic} --until end")
    assert (ran.returncode, ran.stdout.splitlines()) == (0, values)


def test_piped_tables_have_a_row_on_a_line(cli: CommandLine, cluster: ClusterThread) -> None:
    name = "payments." + "settlement-" * 20
    cluster.create_topic(name, 1)
    cli.environment["COLUMNS"] = "40"
    ran = in_shell(cli, "al topics list")
    assert len([line for line in ran.stdout.splitlines() if line.startswith(f"{name} ")]) == 1

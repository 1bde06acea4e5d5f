"""Unreachable brokers, unknown names, and output that cannot be written."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import anyio
import pytest

from aiokafka_lead import ShareConsumer, TopicPartition
from aiokafka_lead._core.run.failures import DEAD_LETTER_HEADERS
from aiokafka_lead.cli.output import Output
from aiokafka_lead.cli.session import Session
from aiokafka_lead.errors import CoordinatorNotAvailableError, TopicAuthorizationFailedError
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from .conftest import CommandLine, Ran
from .test_ends import begun, wait_for
from .test_processes import PATIENCE_S

pytestmark = pytest.mark.usefixtures("handler_of_python")


def hasty(cli: CommandLine, command: str, timeout_ms: int, holds: Callable[[Ran], bool]) -> None:
    """Check what a command with this ``request_timeout_ms`` does; on a busy machine, it may need a longer one."""
    for limit_ms in (timeout_ms, 10_000):
        ran = cli(*command.split(), "-X", f"request_timeout_ms={limit_ms}")
        if holds(ran):
            return
    raise AssertionError((command, ran))


@pytest.mark.parametrize("command", ["consume lonely -o beginning", "produce lonely"])
def test_a_cluster_that_goes_away_is_named(cli: CommandLine, command: str) -> None:
    with ExitStack() as stack:
        with ClusterThread(EmbeddedCluster(1)) as alone:
            alone.create_topic("lonely", 1)
            servers = alone.bootstrap_servers
            cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = servers
            cli.fine("produce", "lonely", stdin="1\n")
            process = stack.enter_context(begun(cli, *command.split(), "--timeout", "6s", stdin=subprocess.PIPE))
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            if command.startswith("consume"):
                assert process.stdout.readline() == b"1\n"
            else:
                process.stdin.write(b"2\n")
                process.stdin.flush()
                wait_for(lambda: len(alone.records("lonely")) == 2)
        said = process.stderr.readline().decode()
        assert said.startswith(f"no broker can be reached: {servers} (")
        assert process.wait(PATIENCE_S) == 3
        assert b"no broker could be reached for 6 s" in process.stderr.read()


def test_one_of_two_clusters_that_goes_away_is_named(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("moved", 1)
    with ClusterThread(EmbeddedCluster(1)) as source:
        source.create_topic("moving", 1)
        servers = source.bootstrap_servers
        cli.fine("produce", "moving", "-b", servers, stdin="1\n")
        source.faults.add("Fetch", drop=True)
        to = ("--to-bootstrap-servers", cluster.bootstrap_servers)
        with begun(cli, "copy", "moving", "moved", "-b", servers, *to, "--timeout", "1s") as process:
            wait_for(lambda: source.requests.count("Fetch"))
            source.kill_broker(1)
            _, said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, f"no broker could be reached for 1 s: {servers}" in said.decode()) == (3, True), said


@pytest.mark.parametrize(
    "command",
    [
        "consume ordres -o beginning",
        "consume ordres -g g",
        "produce ordres",
        "replay ordres",
        "copy ordres orders",
        "copy orders ordres",
        "topics describe ordres",
        "topics delete ordres -y",
        "topics add-partitions ordres 5",
        "configs show topic ordres",
        "configs set topic ordres retention.ms=1",
        "groups reset g --to end -t ordres -y",
    ],
)
def test_a_mistyped_topic_is_named_with_what_is_close(cli: CommandLine, fixed: ClusterThread, command: str) -> None:
    cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = fixed.bootstrap_servers
    ran = cli(*command.split(), stdin="x\n")
    assert (ran.code, ran.err) == (1, "error: there is no topic 'ordres'; did you mean 'orders'?\n")
    assert fixed.topic_names() == ["orders"]


@pytest.fixture(scope="module")
def fixed() -> Iterator[ClusterThread]:
    """A cluster that does not create topics automatically."""
    with ClusterThread(EmbeddedCluster(1, auto_create_topics=False)) as made:
        made.create_topic("orders", 1)
        yield made


def test_dead_letters_of_a_topic_that_is_gone_do_not_hold_up_the_others(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(1, auto_create_topics=False)) as cluster:
        cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = cluster.bootstrap_servers
        for topic in ("letters", "orders"):
            cluster.create_topic(topic, 1)
        for origin in ("ordres", "orders", "ordres"):
            cli.fine("produce", "letters", "-H", f"{DEAD_LETTER_HEADERS[0]}={origin}", stdin=origin)
        ran = cli("replay", "letters", "--json")
        assert (ran.code, ran.err.count("there is no topic 'ordres'")) == (1, 1), ran.err
        assert [(row["topic"], row["records"], row["written"]) for row in ran.json] == [
            ("orders", 1, True),
            ("ordres", 2, False),
        ]
        assert [record.value for record in cluster.records("orders")] == [b"orders"]


def test_a_partition_without_a_leader_does_not_hide_the_others(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(2)) as cluster:
        cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = cluster.bootstrap_servers
        for topic in ("half", "away", "copy"):
            cluster.create_topic(topic, assignments=[[1] if topic == "copy" else [2], [1]])
        cli.fine("produce", "half", "--partition", "1", "-H", f"{DEAD_LETTER_HEADERS[0]}=copy", stdin="1\n2\n")
        cluster.stop_broker(2)
        for command in (
            "consume half -o beginning --until end --json",
            "consume half -o -5 -n 2 --json",
            "consume half --until @0s --json",
            "copy half copy --json",
            "replay half --to copy --json",
        ):
            ran = cli(*command.split())
            first = "error: half-0 not read: the partition has no leader"
            assert (ran.code, ran.err.splitlines()[0]) == (1, first), command
            assert '"half"' in ran.out or '"copy"' in ran.out, command
        assert cluster.end_offset("copy", 0) + cluster.end_offset("copy", 1) == 4
        ran = cli("consume", "away", "--partition", "0", "--until", "end")
        assert (ran.code, ran.out) == (1, "")
        hasty(
            cli,
            "groups reset idle -t half --to end --dry-run",
            500,
            lambda ran: (ran.code, "half-0 currently has no leader" in ran.err) == (3, True),
        )


def test_of_several_names_those_that_are_there_are_shown(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("here", 1)
    cli.fine("produce", "here", stdin="1\n")
    cli.fine("consume", "here", "-g", "reader", "-n", "1")
    for command, shown in (
        ("topics describe here gone", "here"),
        ("groups describe reader raeder", "reader"),
        ("groups lag reader raeder", "reader"),
        ("consume here gone -o beginning --until end", "1"),
        ("groups delete reader raeder -y", "deleted: reader"),
        ("topics delete here gone -y", "deleted: here"),
    ):
        ran = cli(*command.split())
        assert (ran.code, shown in ran.out, "there is no" in ran.err) == (1, True, True), (command, ran)
        assert "raeder" not in command or "did you mean 'reader'?" in ran.err or "delete" in command


def test_a_broker_out_of_reach_hides_no_group_of_the_others(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(2)) as pair:
        cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = pair.bootstrap_servers
        pair.create_topic("led", assignments=[[1]])
        cli.fine("produce", "led", stdin="1\n2\n")
        for group in ("near", "spare"):
            cli.fine("consume", "led", "-g", group, "-n", "1")
            pair.move_coordinator(group, 1)
        pair.faults.add("ListGroups", broker=2, disconnect=True)
        for command, code in (
            ("groups list", 3),
            ("groups describe near", 0),
            ("groups lag near --fail-above 1", 0),
            ("groups lag", 3),
            ("groups lag --watch --count 2 --interval 1ms", 3),
            ("groups reset near --to beginning -y", 0),
            ("top --count 1", 0),
            ("groups delete naer spare -y", 1),
            ("groups forget near -t led -y", 0),
        ):
            hasty(cli, command, 1_500, partial(shows_what_is_near, code))


def shows_what_is_near(code: int, ran: Ran) -> bool:
    shown = "near" in ran.out or "led" in ran.out or "deleted: spare" in ran.out
    return ran.code == code and shown and "there are no groups" not in ran.err


def test_a_group_without_a_coordinator_hides_no_other(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(1)) as alone:
        cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = alone.bootstrap_servers
        alone.create_topic("led", 1)
        cli.fine("produce", "led", stdin="1\n2\n")
        for group in ("here", "away"):
            cli.fine("consume", "led", "-g", group, "-n", "1")
        alone.faults.add("FindCoordinator", topic="away", error_code=CoordinatorNotAvailableError)
        for command in ("groups lag", "groups describe here away", "groups lag --watch --count 2 --interval 1ms"):
            hasty(
                cli,
                command,
                3_000,
                lambda ran: (ran.code, "here" in ran.out, "'away'" in ran.err) == (3, True, True),
            )


def test_a_share_group_whose_offsets_are_refused_hides_no_other(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(1)) as alone:
        cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = alone.bootstrap_servers
        alone.create_topic("led", 1)
        cli.fine("produce", "led", stdin="1\n")
        cli.fine("consume", "led", "-g", "readers", "-n", "1")

        async def work() -> None:
            async with ShareConsumer("led", bootstrap_servers=alone.bootstrap_servers, group_id="workers"):
                alone.faults.add("DescribeShareGroupOffsets", topic="led", error_code=TopicAuthorizationFailedError)
                ran = await anyio.to_thread.run_sync(cli, "groups", "lag")
                assert (ran.code, "readers" in ran.out, "TopicAuthorizationFailed" in ran.err) == (4, True, True), ran

        anyio.run(work)


def test_a_deletion_whose_answer_was_lost_is_no_typing_error(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(1, auto_create_topics=False)) as alone:
        cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = alone.bootstrap_servers
        alone.create_topic("orders", 1)
        alone.faults.add("DeleteTopics", disconnect=True, after=True, count=1)
        ran = cli("topics", "delete", "orders", "-y")
        assert ran.code == 1
        assert "there is no topic 'orders'" in ran.err
        assert "may have been executed: DeleteTopics" in ran.err


def test_groups_clone_and_alert(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("cloned", 1)
    cli.fine("produce", "cloned", stdin="1\n2\n3\n")
    cli.fine("consume", "cloned", "-g", "blue", "-n", "1")
    assert cli.fine("groups", "clone", "blue", "green", "--dry-run", "--json").json[0]["after"] == 1
    assert cli("groups", "clone", "blue", "green", stdin="n\n").code == 1
    cli.fine("groups", "clone", "blue", "green", "-y")
    assert cli.fine("consume", "cloned", "-g", "green", "-n", "2").lines == ["2", "3"]
    cli.fine("groups", "clone", "blue", "red", "-y", "--move")
    ran = cli("groups", "clone", "blue", "pink", "-y")
    assert (ran.code, "no group 'blue'" in ran.err or "no offsets" in ran.err) == (1, True)
    assert "red has no offset in clonde" in cli("groups", "clone", "red", "pink", "-t", "clonde", "-y").err
    assert cli("groups", "lag", "red", "red", "--fail-above", "2").code == 0
    ran = cli("groups", "lag", "red", "green", "--fail-above", "1")
    assert (ran.code, ran.err) == (5, "error: group 'red' is 2 records behind, more than 1\n")
    assert "green" in ran.out


def test_offsets_are_not_cloned_into_themselves_nor_forgotten_by_a_slip(
    cli: CommandLine, cluster: ClusterThread
) -> None:
    cluster.create_topic("slips", 1)
    cli.fine("produce", "slips", stdin="1\n")
    cli.fine("consume", "slips", "-g", "slip", "-n", "1")
    ran = cli("groups", "clone", "slip", "slip", "--move", "-y")
    assert (ran.code, "into itself" in ran.err) == (2, True)
    ran = cli("groups", "clone", "slip", "slip-2", "-t", "slips", "-t", "slisp", "-y", "--json")
    assert (ran.code, ran.err) == (1, "error: slip has no offset in slisp; did you mean 'slips'?\n")
    assert [row["after"] for row in ran.json] == [1]
    ran = cli("groups", "forget", "slip", "-t", "slips", "-t", "slisp", "-y", "--json")
    assert (ran.code, ran.err) == (1, "error: slip has no offset in slisp; did you mean 'slips'?\n")
    assert ran.json == {"group": "slip", "forgotten": ["slips"]}
    assert cli.fine("groups", "lag", "slip-2", "--json").json[0]["committed"] == 1


def test_lag_that_is_unknown_is_no_success_of_an_alert(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(2)) as pair:
        cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = pair.bootstrap_servers
        pair.create_topic("led", assignments=[[1]])
        cli.fine("produce", "led", stdin="1\n2\n")
        cli.fine("consume", "led", "-g", "behind", "-n", "1")
        pair.move_coordinator("behind", 2)
        assert cli("groups", "lag", "behind", "--fail-above", "1").code == 0
        pair.kill_broker(1)
        cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = pair.address(2)
        ran = cli("groups", "lag", "behind", "--fail-above", "1")
        assert (ran.code, "the lag of group 'behind' in led-0 is unknown" in ran.err) == (1, True), ran


def test_a_topic_that_is_deleted_while_it_is_read_is_named(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("ending", 1)
    cli.fine("produce", "ending", stdin="1\n")
    with begun(cli, "consume", "ending", "-o", "beginning", "-X", "allow_auto_create_topics=false") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"1\n"
        cluster.delete_topic("ending")
        assert process.stderr.readline() == b"topic ending no longer exists\n"
        process.terminate()
        assert process.wait(PATIENCE_S) == 143


@pytest.mark.parametrize("chosen", [(), ("--partition", "0")])
def test_partitions_that_are_created_while_it_reads_are_read(
    cli: CommandLine, cluster: ClusterThread, chosen: tuple[str, ...]
) -> None:
    topic = f"growing-{len(chosen)}"
    cluster.create_topic(topic, 1)
    cli.fine("produce", topic, stdin="1\n")
    reading = ("consume", topic, "-o", "beginning", "-X", "metadata_max_age_ms=100", "-f", "%p %v\\n", *chosen)
    with begun(cli, *reading) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"0 1\n"
        cluster.add_partitions(topic, 3)
        cli.fine("produce", topic, "--partition", "2", stdin="2\n")
        if not chosen:
            assert process.stdout.readline() == b"2 2\n"
        cli.fine("produce", topic, "--partition", "0", stdin="3\n")
        assert process.stdout.readline() == b"0 3\n"
        process.terminate()
        assert process.wait(PATIENCE_S) == 143
        said = f"reading new partitions: {topic}-1, {topic}-2\n".encode()
        assert process.stderr.read() == (b"" if chosen else said)


def test_a_broker_that_is_frozen_is_named(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(1)) as alone:
        alone.create_topic("frozen", 1)
        cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = alone.bootstrap_servers
        cli.fine("produce", "frozen", stdin="1\n")
        with begun(cli, "consume", "frozen", "-o", "beginning", "--timeout", "30s") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b"1\n"
            rule = alone.faults.add(hold=True)
            said = process.stderr.readline().decode()
            assert said == f"no broker can be reached: {alone.bootstrap_servers} (no answer)\n"
            rule.count = 0
            alone.release(rule)
            assert process.stderr.readline().startswith(b"can be reached again")
            process.terminate()
            assert process.wait(PATIENCE_S) == 143


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_fetch_that_waits_is_no_silence(cluster: ClusterThread, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.create_topic("idle", 1)
    for wait_ms, is_silent in ((9000, False), (500, True)):
        options = {"bootstrap_servers": cluster.bootstrap_servers, "fetch_max_wait_ms": wait_ms}
        session = Session(options, Output(as_json=False))
        async with session.consumer() as consumer, anyio.create_task_group() as tasks:
            consumer.assign([TopicPartition("idle", 0)])
            tasks.start_soon(consumer.getmany)
            brokers = consumer._client.brokers
            while not any(brokers.unanswered_s(node, math.inf) for node in brokers.nodes):  # noqa: ASYNC110 - no event
                await anyio.sleep(0.01)
            for later_s in (5, 10):
                session.brokers._look(time.monotonic() + later_s)
            assert ("(no answer)" in capsys.readouterr().err) == is_silent
            tasks.cancel_scope.cancel()


def test_a_timeout_shorter_than_a_fetch_may_wait(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("hasty", 1)
    cli.fine("produce", "hasty", stdin="1\n")
    command = ("consume", "hasty", "-o", "beginning", "--until", "end", "--timeout", "400ms")
    ran = next(
        (ran for ran in (cli(*command) for _ in range(5)) if ran.code == 0), None
    )  # or it did not connect in time
    assert (ran or cli.fine(*command)).lines == ["1"]


def test_a_line_that_cannot_be_written_is_named_with_how_many_were(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("stops", 1)
    ran = cli("produce", "stops", "--input-json", stdin='{"value": "1"}\n{"value": "2"}\n{"valeu": "3"}\n')
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == "2 records were written"
    assert "did you mean 'value'?" in ran.err
    assert [record.value for record in cluster.records("stops")] == [b"1", b"2"]
    ran = cli("produce", "stops", stdin="3\n" + "x" * 2_000_000 + "\n")
    assert (ran.code, "line 2: " in ran.err, "1 records were written" in ran.err) == (1, True, True)
    ran = cli("produce", "stops", "--partition", "9", stdin="4\n")
    assert ran.code == 1
    assert "line 1: " in ran.err


def test_a_line_without_an_end_takes_bounded_memory(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("endless", 1)
    with Path("/dev/zero").open("rb") as endless, begun(cli, "produce", "endless", stdin=endless) as process:
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert process.wait(PATIENCE_S) == 1
    assert "line 1 is longer than 64,000,000 bytes" in said


@pytest.mark.parametrize(
    ("separator", "line"), [(r"\t", b"k\tv"), (r"\x1f", b"k\x1fv"), (r"\0", b"k\0v"), (r"\u00e9", "kév".encode())]
)
def test_escapes_are_the_same_both_ways(cli: CommandLine, cluster: ClusterThread, separator: str, line: bytes) -> None:
    topic = f"escapes-{line.hex()}"
    cluster.create_topic(topic, 1)
    cli.fine("produce", topic, "-K", separator, stdin=line)
    (record,) = cluster.records(topic)
    assert (record.key, record.value) == (b"k", b"v")
    assert cli.fine("consume", topic, "--until", "end", "-f", f"%k{separator}%v").out.encode() == line


@pytest.mark.parametrize(
    "arguments", [("produce", "t", "-K", ""), ("produce", "t", "-K", r"\q"), ("consume", "t", "-f", r"%v\q")]
)
def test_escapes_that_are_none(cli: CommandLine, arguments: tuple[str, ...]) -> None:
    assert cli(*arguments).code == 2


def test_the_cluster_may_be_named_before_the_command(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("before", 1)
    cli.environment["AIOKAFKA_LEAD_BOOTSTRAP_SERVERS"] = None
    here = ("-b", cluster.bootstrap_servers)
    assert "before" in {row["topic"] for row in cli.fine(*here, "--json", "topics", "list").json}
    cli.fine("-b", "127.0.0.1:1", "-X", "client_id=x", "topics", "list", *here, "-X", "linger_ms=1")

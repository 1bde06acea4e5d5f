"""``aiokafka-lead top``, ``replay``, ``acls`` and ``bench``."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer
from aiokafka_lead.errors import TopicAuthorizationFailedError
from aiokafka_lead.testing import ClusterThread

from ..suites import crossed
from .conftest import CommandLine
from .test_terminal import CONTROLS, LEAVES_SCREEN, AtTerminal


def test_top(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("busy", 2)
    cli.fine("produce", "busy", "--partition", "0", stdin="1\n2\n3\n")
    cli.fine("consume", "busy", "-g", "slow", "-n", "1")
    first, last = map(json.loads, cli.fine("top", "--count", "2", "--interval", "1ms", "--json").lines)
    assert [broker["broker"] for broker in first["brokers"]] == [1, 2, 3]
    assert {topic["topic"]: topic["end_offsets"] for topic in last["topics"]}["busy"] == 3
    assert {group["group"]: group["lag"] for group in last["groups"]}["slow"] == 2
    assert last["leader_moves"] == 0
    text = cli.fine("top", "--count", "1").out
    assert "leader moves seen: 0" in text
    assert "busy" in text


def test_a_partition_that_could_not_be_asked_before_has_no_rate(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("dodgy", 1)
    cli.fine("produce", "dodgy", stdin="1\n2\n3\n")
    cli.fine("consume", "dodgy", "-g", "dodgy", "-n", "1")
    # Both queries of the first display: for topics, and for groups.
    cluster.faults.add("ListOffsets", topic="dodgy", error_code=TopicAuthorizationFailedError, count=2)
    first, last = map(json.loads, cli.fine("top", "--count", "2", "--interval", "1ms", "--json").lines)
    topics = [{topic["topic"]: topic["end_offsets"] for topic in look["topics"]}["dodgy"] for look in (first, last)]
    assert topics == [0, 3]
    assert {topic["topic"]: topic["per_second"] for topic in last["topics"]}["dodgy"] == 0
    assert {group["group"]: group["lag_per_second"] for group in last["groups"]}["dodgy"] is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(("--count", "0"), "--count"), (("--count", "-1"), "--count"), (("--interval", "0s"), "--interval")],
)
@pytest.mark.parametrize("command", [("top",), ("groups", "lag", "--watch")])
def test_live_displays_that_would_never_end_or_pause(
    cli: CommandLine, command: tuple[str, ...], arguments: tuple[str, ...], text: str
) -> None:
    ran = cli(*command, *arguments, "--json")
    assert (ran.code, text in ran.err) == (2, True), ran.err


@pytest.mark.parametrize("columns", crossed([80, 120]))
def test_live_displays_have_a_line_for_each_row_and_no_more_rows_than_fit(
    cli: CommandLine, cluster: ClusterThread, columns: int
) -> None:
    name = f"a-topic-with-a-rather-long-name-for-a-narrow-terminal-of-{columns}"
    group = f"a-group-with-a-rather-long-name-of-its-own-for-{columns}"
    cluster.create_topic(name, 30)
    cli.fine("produce", name, "--partition", "7", stdin="1\n2\n3\n")
    cli.fine("consume", name, "-g", group, "-n", "1")
    watched = lines_of(cli, columns, "groups", "lag", group, "--watch", "--count", "1")
    assert any("…" in line for line in watched)
    assert 10 < len([line for line in watched if line.startswith("a-group")]) < 24
    top = lines_of(cli, columns, "top", "--count", "1")
    assert len(top) <= 24
    for title in ("brokers", "topics", "groups"):
        assert any(line.startswith(title) for line in top), top
    assert any(line.startswith("a-group") for line in top), top
    piped = cli.fine("groups", "lag", group, "--watch", "--count", "1").lines
    assert len([line for line in piped if group in line and name in line]) == 30
    assert cli.fine("top", "--count", "1").out.count(name) >= 1


def test_a_cut_name_fits_in_any_encoding(cli: CommandLine, cluster: ClusterThread) -> None:
    group = f"group-{'n' * 80}"
    cluster.create_topic("any-encoding", 1)
    cli.fine("produce", "any-encoding", stdin="1\n")
    cli.fine("consume", "any-encoding", "-g", group, "-n", "1")
    cli.environment["PYTHONIOENCODING"] = "ascii"
    watched = lines_of(cli, 80, "groups", "lag", group, "--watch", "--count", "1")
    assert any("nn~ " in line for line in watched), watched


def lines_of(cli: CommandLine, columns: int, *command: str) -> list[str]:
    """Return the lines that a live display left on a terminal of 24 lines."""
    ran = AtTerminal(cli, *command, columns=columns)
    assert ran.ended() == 0, ran.said
    lines = CONTROLS.sub("", ran.said.rpartition(LEAVES_SCREEN)[2]).splitlines()
    assert max(map(len, lines)) <= columns
    return lines


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    ("origin", "away", "options"),
    [
        ("orders", "orders.dead", {"dead_letter_topic": "orders.dead"}),
        ("claims", "claims.o.retry.1h", {"retry_topics": ["1h"], "retries": 0}),
    ],
)
async def test_what_was_sent_away_goes_back_to_its_origin(
    cli: CommandLine, cluster: ClusterThread, origin: str, away: str, options: Any
) -> None:
    cluster.create_topic(origin, 2)
    cluster.create_topic(away, 2)

    def prepare() -> None:
        cli.fine("produce", origin, "-k", "k", "-H", "own=x", "--partition", "1", stdin="bad\n")

    await anyio.to_thread.run_sync(prepare)
    servers = cluster.bootstrap_servers
    async with Consumer(origin, bootstrap_servers=servers, group_id="o", auto_offset_reset="earliest") as consumer:

        async def fail(record: object) -> None:
            raise ValueError("no")

        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await consumer.run(fail, **options)

            tasks.start_soon(run)
            while not cluster.records(away):  # noqa: ASYNC110
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    def go_back() -> None:
        planned = cli.fine("replay", away, "--dry-run", "--json").json
        assert planned == [{"topic": origin, "records": 1, "written": False}]
        assert len(cluster.records(origin, 1)) == 1
        assert cli.fine("replay", away, "--group", "another", "--json").json == []
        assert cli.fine("replay", away, "--keep-partition", "--json").json[0]["records"] == 1

    await anyio.to_thread.run_sync(go_back)
    again = cluster.records(origin, 1)[1]
    assert (again.key, again.value, again.headers) == (b"k", b"bad", (("own", b"x"),))


def test_acls(cli: CommandLine) -> None:
    rule = ("-u", "User:alice", "-r", "topic", "-n", "orders")
    added = cli.fine("acls", "add", *rule, "-o", "read", "-o", "describe", "--json").json
    assert [each["operation"] for each in added] == ["read", "describe"]
    cli.fine("acls", "add", "-u", "User:bob", "-r", "topic", "-n", "ord", "-o", "write", "--pattern", "prefixed")
    assert len(cli.fine("acls", "list", "-n", "orders", "--pattern", "match", "--json").json) == 3
    assert len(cli.fine("acls", "list", "-n", "orders", "--json").json) == 2
    assert cli("acls", "remove", "-u", "User:alice", stdin="n\n").code == 1
    assert len(cli.fine("acls", "remove", "-u", "User:alice", "-y", "--json").json) == 2
    assert [each["principal"] for each in cli.fine("acls", "list", "--json").json] == ["User:bob"]
    assert cli("acls", "remove", "-y").code == 2
    assert cli("acls", "add", "-u", "bob", "-r", "topic", "-n", "x", "-o", "read").code == 2
    ran = cli("acls", "add", "-u", "User:bob", "-r", "planet", "-n", "x", "-o", "read")
    assert (ran.code, "--resource must be one of" in ran.err) == (2, True)
    assert cli("acls", "list", "-r", "unknown").code == 2


def test_addresses_are_shown_as_they_are(cli: CommandLine) -> None:
    """Rich has emoji of names such as ":a:", ":x:" and ":100:"."""
    address = "2001:db8:a:b::5"
    rule = ("-u", "User:x:y", "-r", "topic", "-n", "by-address", "-o", "read")
    assert address in cli.fine("acls", "add", *rule, "--host", address).out
    assert "User:x:y" in cli.fine("acls", "remove", "-n", "by-address", "-y").out
    assert "'a:100:b'" in cli("groups", "reset", "any", "--to", "a:100:b").err


def test_bench_leaves_nothing_behind(cli: CommandLine, cluster: ClusterThread) -> None:
    before = cluster.topic_names()
    facts = cli.fine("bench", "-n", "2000", "-s", "10", "--json").json
    assert facts["records"] == 2000
    assert min(facts["written_per_second"], facts["read_per_second"], facts["acknowledged_median_ms"]) > 0
    assert cluster.topic_names() == before

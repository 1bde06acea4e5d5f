"""Each option of each command is used by a test; options that no other test needs are used here."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from aiokafka_lead._core.run.failures import DEAD_LETTER_HEADERS
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from .conftest import CommandLine, program
from .test_processes import PROGRAM, environment
from .test_table_of_ends import ROWS
from .test_terminal import AtTerminal


def options(group: Any, before: str = "") -> Iterator[tuple[str, list[str]]]:
    """Yield the names of each option with its command."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from options(command, f"{before}{name} ")
        else:
            yield from ((before + name, each.opts) for each in command.params if each.param_type_name == "option")


def test_every_option_is_used_by_a_test() -> None:
    words = {word for command, _, _ in ROWS for word in command.split()}
    for file in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.update(re.split(r"[\s=]+", node.value))
    assert [(command, names) for command, names in options(get_command(program())) if words.isdisjoint(names)] == []


def test_rules_that_deny_a_host(cli: CommandLine) -> None:
    rule = ("-u", "User:eve", "-r", "topic", "-n", "secrets", "-o", "read")
    cli.fine("acls", "add", *rule, "--deny", "--host", "10.0.0.1")
    (found,) = cli.fine("acls", "list", "--host", "10.0.0.1", "--json").json
    assert (found["host"], found["permission"], found["principal"]) == ("10.0.0.1", "deny", "User:eve")
    assert cli.fine("acls", "list", "--host", "10.0.0.2", "--json").json == []
    assert len(cli.fine("acls", "remove", "--host", "10.0.0.1", "-y", "--json").json) == 1


def test_dead_letters_of_one_origin(cli: CommandLine, cluster: ClusterThread) -> None:
    for topic in ("letters", "from-here", "from-there"):
        cluster.create_topic(topic, 1)
    for origin in ("from-here", "from-there"):
        cli.fine("produce", "letters", "-H", f"{DEAD_LETTER_HEADERS[0]}={origin}", stdin=origin)
    ran = cli.fine("replay", "letters", "--origin", "from-there", "--json")
    assert ran.json == [{"topic": "from-there", "records": 1, "written": True}]
    assert "1 records were skipped" in ran.err
    assert [record.value for record in cluster.records("from-there")] == [b"from-there"]
    assert cluster.end_offset("from-here") == 0


def test_the_log_and_topics_of_kafka(cli: CommandLine, cluster: ClusterThread) -> None:
    cluster.create_topic("own", 1)
    quiet, loud = cli.fine("topics", "list", "--json"), cli.fine("topics", "list", "--internal", "-v", "--json")
    assert {each["topic"] for each in quiet.json} <= {each["topic"] for each in loud.json}
    assert quiet.err == ""


def test_a_proxy_that_is_not_there(cli: CommandLine) -> None:
    ran = cli("topics", "list", "--proxy-url", "socks5://127.0.0.1:1", "--timeout", "3s")
    assert ran.code == 3, ran.err


def test_the_password_is_asked_for(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(1, sasl_users={"alice": "open sesame"})) as secured:
        cli.environment |= {
            "AIOKAFKA_LEAD_BOOTSTRAP_SERVERS": secured.bootstrap_servers,
            "AIOKAFKA_LEAD_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "AIOKAFKA_LEAD_SASL_PLAIN_USERNAME": "alice",
        }
        for password, code in (("open sesame", 0), ("wrong", 4)):
            ran = AtTerminal(cli, "topics", "list", "-W")
            ran.read_until("Password: ")
            ran.type(f"{password}\n")
            assert ran.ended() == code, ran.said
            assert password not in ran.said


def test_without_a_terminal_the_password_is_one_line_of_the_input(cli: CommandLine) -> None:
    with ClusterThread(EmbeddedCluster(1, sasl_users={"alice": "open sesame"})) as secured:
        secured.create_topic("asked", 1)
        cli.environment |= {
            "AIOKAFKA_LEAD_BOOTSTRAP_SERVERS": secured.bootstrap_servers,
            "AIOKAFKA_LEAD_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
            "AIOKAFKA_LEAD_SASL_PLAIN_USERNAME": "alice",
        }
        for command, rest, code in (("produce asked", b"1\n2\n", 0), ("topics delete asked", b"y\n", 0)):
            ran = subprocess.run(
                [*PROGRAM, *command.split(), "-W"],
                input=b"open sesame\n" + rest,
                env=environment(cli),
                capture_output=True,
                start_new_session=True,  # without the terminal of the tests
                check=False,
            )
            assert (ran.returncode, b"sesame" in ran.stdout + ran.stderr) == (code, False), ran
            if command.startswith("produce"):
                assert [record.value for record in secured.records("asked")] == [b"1", b"2"]
        assert secured.topic_names() == []
    ran = subprocess.run(
        [*PROGRAM, "topics", "list", "-W"],
        stdin=subprocess.DEVNULL,
        env=environment(cli),
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (2, b"error: no password was given\n")

"""The command line beside an embedded cluster in a separate thread."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from fastavro.read import LOGICAL_READERS
from typer import Typer
from typer.testing import CliRunner

from aiokafka_lead.cli.app import make_app
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster


class Ran(NamedTuple):
    """Results of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


@functools.cache
def program() -> Typer:
    """The program, assembled once, because assembling it takes longer than most commands."""
    return make_app()


class CommandLine:
    """Runs ``aiokafka-lead`` in this process."""

    def __init__(self, environment: dict[str, str | None]) -> None:
        self.environment = environment

    def __call__(self, *arguments: str, stdin: str | bytes = "") -> Ran:
        result = CliRunner().invoke(program(), arguments, input=stdin, env=self.environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert "Traceback" not in result.stderr
        return Ran(result.exit_code, result.stdout, result.stderr)

    def fine(self, *arguments: str, stdin: str | bytes = "") -> Ran:
        ran = self(*arguments, stdin=stdin)
        assert ran.code == 0, ran.err
        return ran


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterThread]:
    """Cluster shared by a module; each test uses its own topics and groups."""
    with ClusterThread(EmbeddedCluster(3)) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def readers_of_fastavro() -> Iterator[None]:
    """Commands change them in their process, on which no other test may rely."""
    before = dict(LOGICAL_READERS)
    yield
    LOGICAL_READERS.update(before)


@pytest.fixture
def cli(cluster: ClusterThread, tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """The command line, with the cluster's address in its environment, and an empty file of profiles."""
    config = tmp_path_factory.mktemp("config") / "config.toml"
    config.touch(0o600)
    return CommandLine(
        {
            "AIOKAFKA_LEAD_BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
            "AIOKAFKA_LEAD_CONFIG": str(config),
            "COLUMNS": "200",
        }
    )

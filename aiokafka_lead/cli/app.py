"""All commands together."""

from __future__ import annotations

from typing import Annotated

import typer

from .._options.version import __version__
from . import acls, bench, configs, consume, doctor, groups, produce, replay, serve, top, topics

__all__ = ["make_app"]

_MODULES = (produce, consume, topics, groups, configs, acls, doctor, top, replay, bench, serve)
"""Each adds its command, or a family of them."""

_HELP = """Read, write, watch and change a Kafka cluster.

Options of the connection come from the command line, AIOKAFKA_LEAD_* in the environment, or a profile in TOML; secrets
never from the command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not reachable, 4 not allowed.
"""


def make_app() -> typer.Typer:
    """The program."""
    app = typer.Typer(name="aiokafka-lead", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.callback(invoke_without_command=True, help=_HELP)(_program)
    for module in _MODULES:
        module.register(app)
    return app


def _program(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit

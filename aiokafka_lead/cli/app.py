"""Builds the Typer application from the modules of the commands."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from .._options.version import __version__
from . import acls, bench, cluster, configs, consume, copying, doctor, groups, produce, replay, serve, top, topics
from .registering import shared_parameters

_MODULES = (produce, consume, copying, topics, groups, configs, acls, cluster, doctor, top, replay, bench, serve)
"""The ``register`` function of each module adds one command or a group of subcommands."""

_HELP = """Read, write, watch and change a Kafka cluster.

Connection options come from the command line, from AIOKAFKA_LEAD_* environment variables, or from a profile in a TOML
file. Secrets are not accepted on the command line. Exit codes: 0 success, 1 failure, 2 wrong usage, 3 unreachable,
4 not authorized, 5 too much lag, 130 Ctrl-C, 143 SIGTERM, 129 SIGHUP.
"""


def make_app() -> typer.Typer:
    """Create the command-line application with all commands."""
    app = typer.Typer(name="aiokafka-lead", no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None)

    def program(
        context: typer.Context,
        *,
        version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
        **shared: Any,
    ) -> None:
        if version:
            typer.echo(__version__)
            raise typer.Exit
        if context.invoked_subcommand is None:
            context.fail("Missing command.")
        context.obj = shared

    own = [each for each in inspect.signature(program, eval_str=True).parameters.values() if each.name != "shared"]
    parameters = [*own, *shared_parameters()]
    program.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    program.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app.callback(invoke_without_command=True, help=_HELP)(program)
    for module in _MODULES:
        module.register(app)
    return app

"""How a function becomes a command: options that all commands share, an event loop around it, errors as sentences."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Annotated, Any

import anyio
import typer

from .failures import ExitCode, Failed, exit_code, sentence
from .output import Output
from .profiles import ENVIRONMENT_PREFIX, options_of
from .session import Session

__all__ = ["add"]

_SHARED = "Cluster and output"


def _shared(
    *,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            "-b",
            metavar="HOST:PORT,...",
            help=f"Brokers to begin with; or {ENVIRONMENT_PREFIX}BOOTSTRAP_SERVERS.",
            rich_help_panel=_SHARED,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", "-P", help="A profile of the configuration file.", rich_help_panel=_SHARED),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-X",
            metavar="NAME=VALUE",
            help="Any option of the clients that is no secret; may be repeated.",
            rich_help_panel=_SHARED,
        ),
    ] = None,
    ask_password: Annotated[
        bool,
        typer.Option("--ask-password", "-W", help="Ask for the SASL password.", rich_help_panel=_SHARED),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show the client's log on stderr.", rich_help_panel=_SHARED),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.", rich_help_panel=_SHARED)] = False,
) -> None:
    """The options that all commands share."""


def add(app: typer.Typer, name: str, function: Callable[..., Awaitable[None]]) -> None:
    """Make a command of an asynchronous function that takes a `Session` and the command's own options."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = list(inspect.signature(_shared, eval_str=True).parameters.values())
    names = {parameter.name for parameter in shared}
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own] + shared

    def command(**given: Any) -> None:
        common = {key: given.pop(key) for key in names}
        out = Output(as_json=common["as_json"])
        _log(verbose=common["verbose"])
        try:
            options = options_of(
                servers=common["bootstrap_servers"],
                profile=common["profile"],
                settings=common["option"] or (),
                environment=os.environ,
                ask=_ask if common["ask_password"] else None,
            )
            _run(function, Session(options, out), given)
            sys.stdout.flush()
        except KeyboardInterrupt:
            raise typer.Exit(ExitCode.INTERRUPTED) from None
        except Exception as error:
            cause = _single(error)
            if isinstance(cause, BrokenPipeError):
                # The program that read the results has enough of them; nothing more can be written, at exit neither.
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                raise typer.Exit(ExitCode.DONE) from None
            if os.environ.get(f"{ENVIRONMENT_PREFIX}TRACEBACK"):
                raise
            if isinstance(cause, typer.Abort):
                cause = Failed("not confirmed: nothing was changed")
            if str(cause) or not isinstance(cause, Failed):
                out.error(sentence(cause))
            raise typer.Exit(exit_code(cause)) from None

    # Typer reads the options from here.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = function.__doc__
    app.command(name)(command)


def _run(function: Callable[..., Awaitable[None]], session: Session, given: dict[str, Any]) -> None:
    async def main() -> None:
        await function(session, **given)

    anyio.run(main, backend_options={"use_uvloop": find_spec("uvloop") is not None})


def _log(*, verbose: bool) -> None:
    log = logging.getLogger("aiokafka_lead")
    log.addHandler(logging.StreamHandler() if verbose else logging.NullHandler())
    if verbose:
        log.setLevel(logging.INFO)


def _ask(prompt: str) -> str:
    import getpass

    return getpass.getpass(prompt)


def _single(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

"""Registration of asynchronous functions as commands, with common options, an event loop and error messages."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, get_args

import anyio
import typer

from ..errors import ConfigError, KafkaError
from ..types import CompressionType
from .failures import ExitCode, Failed, exit_code, sentence, single
from .names import explained
from .output import Output
from .places import seconds
from .profiles import ENVIRONMENT_PREFIX, options_of
from .session import Session
from .signals import Interrupted, run

Compression = Annotated[
    str, typer.Option("--compression", "-z", help=f"Compression type: {', '.join(get_args(CompressionType))}.")
]
"""Type of the ``--compression`` option of commands that write records."""

_SHARED = "Cluster and output"
_LAST_WORDS_S = 1.0
"""Seconds that a command ended by a signal waits for slow readers of its output."""


def _shared(
    *,
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            "-b",
            metavar="HOST:PORT,...",
            help=f"Bootstrap servers of the cluster; or set {ENVIRONMENT_PREFIX}BOOTSTRAP_SERVERS.",
            rich_help_panel=_SHARED,
        ),
    ] = None,
    proxy_url: Annotated[
        str | None,
        typer.Option(
            "--proxy-url",
            metavar="URL",
            help="Connect through this proxy: socks5://HOST:PORT or http://HOST:PORT, without a password.",
            rich_help_panel=_SHARED,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option("--profile", "-P", help="Use this profile of the configuration file.", rich_help_panel=_SHARED),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-X",
            metavar="NAME=VALUE",
            help="Set any client option, except secrets; may be repeated.",
            rich_help_panel=_SHARED,
        ),
    ] = None,
    ask_password: Annotated[
        bool,
        typer.Option("--ask-password", "-W", help="Prompt for the SASL password.", rich_help_panel=_SHARED),
    ] = False,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="Exit with code 3 if no broker can be reached, or none answers, for this time, such as 5s or 1m.",
            rich_help_panel=_SHARED,
        ),
    ] = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show the client's log on stderr.", rich_help_panel=_SHARED),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of tables.", rich_help_panel=_SHARED)
    ] = False,
) -> None:
    """Declare the options common to all commands. This function is never called."""


def shared_parameters() -> list[inspect.Parameter]:
    """Return the parameters for the options common to all commands, which are also accepted before the command."""
    return list(inspect.signature(_shared, eval_str=True).parameters.values())


def add(app: typer.Typer, name: str, function: Callable[..., Awaitable[None]]) -> None:
    """Register an asynchronous function as a command of ``app``.

    The first parameter of the function is the `Session`. The other parameters are the arguments and options of the
    command, annotated for Typer, and the function's docstring is the help text.

    The command also has the options common to all commands. It creates the session from these options, from the
    environment and from a profile, runs the function in an event loop, prints its output, and turns its error into a
    message and an exit code. If no broker can be reached for the time of ``--timeout``, it ends the function with an
    error.
    """
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = shared_parameters()
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *[each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own], *shared]

    def command(context: typer.Context, **given: Any) -> None:
        here = {each.name: given.pop(each.name) for each in shared}
        common = _joined(context.find_root().obj or {}, here)
        out = Output(as_json=common["as_json"])

        async def work() -> None:
            proxy = common["proxy_url"]
            options = options_of(
                servers=common["bootstrap_servers"],
                profile=common["profile"],
                settings=[*common["option"], *([] if proxy is None else [f"proxy_url={proxy}"])],
                environment=os.environ,
                ask=_ask if common["ask_password"] else None,
                note=out.note,
            )
            session = Session(options, out, seconds("--timeout", common["timeout"]))
            async with anyio.create_task_group() as beside:
                beside.start_soon(session.brokers.run)
                try:
                    await function(session, **given)
                except KafkaError as error:
                    raise await explained(session, error) from None
                session.raise_failures()
                beside.cancel_scope.cancel()

        with _log(out, verbose=common["verbose"]):
            ended(work, out)

    # Typer derives the arguments and options from these attributes.
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = function.__doc__
    app.command(name)(command)


def ended(work: Callable[[], Awaitable[None]], out: Output) -> None:
    """Run a command in an event loop, and report its error. Raises `typer.Exit` with the exit code if it failed."""
    patience_s: float | None = None
    try:
        run(lambda: _drained(work, out))
    except Interrupted as signalled:
        patience_s = _LAST_WORDS_S
        beside = None if signalled.__context__ is None else single(signalled.__context__)
        if isinstance(beside, Exception):  # raised while the command cleaned up after the signal
            _report(beside, out)
        raise typer.Exit(signalled.code) from None
    except KeyboardInterrupt:
        patience_s = _LAST_WORDS_S
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except Exception as error:
        cause = single(error)
        if isinstance(cause, BrokenPipeError):
            raise typer.Exit(ExitCode.DONE) from None  # the reader of the pipe, such as head, has enough output
        if os.environ.get(f"{ENVIRONMENT_PREFIX}TRACEBACK"):
            raise
        if isinstance(cause, typer.Abort):
            cause = Failed("not confirmed: nothing was changed")
        _report(cause, out)
        raise typer.Exit(exit_code(cause)) from None
    finally:
        out.stderr.close(patience_s)


def _report(error: BaseException, out: Output) -> None:
    """Print the error unless it is a `Failed` without a text, whose failure has already been reported."""
    if str(error) or not isinstance(error, Failed):
        out.error(sentence(error))


async def _drained(work: Callable[[], Awaitable[None]], out: Output) -> None:
    """Run the work and write its output, even if it fails or is cancelled."""
    try:
        await work()
    except Exception:
        try:
            await out.drain()
        except (BrokenPipeError, Failed):
            pass  # report only the first failure
        raise
    except BaseException:
        with anyio.move_on_after(_LAST_WORDS_S, shield=True):
            try:
                await out.drain()
            except (BrokenPipeError, Failed):
                pass
        raise
    await out.drain()


def _joined(before: Mapping[str, Any], here: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the common options before and after the command. Those after it take precedence; lists are joined."""
    joined = {name: before.get(name) if value in (None, False) else value for name, value in here.items()}
    joined["option"] = [*(before.get("option") or ()), *(here["option"] or ())]
    return joined


@contextmanager
def _log(out: Output, *, verbose: bool) -> Iterator[None]:
    """During a block, write the clients' log to stderr with ``verbose``, and suppress it otherwise."""
    log = logging.getLogger("aiokafka_lead")
    handler = logging.StreamHandler(out.stderr) if verbose else logging.NullHandler()
    level = log.level
    log.addHandler(handler)
    if verbose:
        log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _ask(prompt: str) -> str:
    import getpass
    import warnings

    from .signals import signals_raise
    from .stdin import password

    if not _has_terminal():
        with signals_raise():
            return password()
    with signals_raise(), warnings.catch_warnings():
        # getpass warns that it cannot turn off the echo, but a pipe has no echo.
        warnings.simplefilter("ignore", getpass.GetPassWarning)
        try:
            return getpass.getpass(prompt)
        except EOFError:
            raise ConfigError("no password was given") from None


def _has_terminal() -> bool:
    """Return True if there is a terminal for `getpass`, which prefers the controlling terminal to standard input.

    Without a terminal, getpass must not be used, because it would read ahead and the command would miss its first lines
    of input.
    """
    if os.name != "posix":
        return True
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return sys.stdin.isatty()
    return True

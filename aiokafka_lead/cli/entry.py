"""The entry point of the program."""

from __future__ import annotations

import io
import os
import sys
from importlib.util import find_spec
from typing import Any

NEEDED = ("typer", "rich")
FAILED, USAGE, INTERRUPTED = 1, 2, 130
"""The same as in `ExitCode`, which is not loaded yet."""


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        return _main()
    except KeyboardInterrupt:  # also before `raise_at_signals`
        return INTERRUPTED


def _main() -> int:
    _open_closed()
    # Unbuffered, because a signal during a write would leave text in a buffer.
    unfailing: Any = _Unfailing(2, "w", closefd=False)
    sys.stderr = io.TextIOWrapper(unfailing, sys.stderr.encoding, "backslashreplace", write_through=True)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return _failed(f"aiokafka-lead needs {' and '.join(missing)}: pip install 'aiokafka-lead[cli]'", USAGE)
    from .signals import Interrupted, ignore_signals, raise_at_signals

    raise_at_signals()
    try:
        return _run()
    except Interrupted as signalled:
        return signalled.code
    finally:
        ignore_signals()


def _run() -> int:
    try:
        from .app import make_app

        code = _ended(make_app())
        sys.stdout.flush()
    except BrokenPipeError:
        code = 0
    except OSError as error:  # from Typer's own output, for example help
        code = _failed(f"error: standard output cannot be written: {error.strerror}", FAILED)
    else:
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # otherwise Python flushes again at exit, and reports an error
    return code


def _ended(app: object) -> int:
    try:
        app()  # type: ignore[operator]
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _failed(text: str, code: int) -> int:
    print(text, file=sys.stderr)  # noqa: T201
    return code


class _Unfailing(io.FileIO):
    """Standard error: a text that cannot be written must not replace the failure that it describes."""

    def write(self, content: Any, /) -> int:
        try:
            written = super().write(content)
        except OSError:
            return len(content)
        return len(content) if written is None else written


def _open_closed() -> None:
    """Open replacements for standard descriptors that the program was started without.

    Otherwise a socket may get their number, which libuv refuses with an abort, and Python has no stream at all. The
    replacements give empty input, drop output to stderr, and make writes to stdout fail.
    """
    for number, mode in enumerate(("r", "w", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
            stream = open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            setattr(sys, ("stdin", "stdout", "stderr")[number], stream)

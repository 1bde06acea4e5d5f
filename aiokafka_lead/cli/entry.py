"""Entry point of the ``aiokafka-lead`` program, which also handles missing dependencies and closed standard streams."""

from __future__ import annotations

import io
import os
import sys
from importlib.util import find_spec
from typing import Any

NEEDED = ("typer", "rich")
FAILED, USAGE, INTERRUPTED = 1, 2, 130
"""Values of `ExitCode`, repeated here because that module needs the dependencies that may be missing."""


def main() -> int:
    """Run the program and return its exit code."""
    try:
        return _main()
    except KeyboardInterrupt:  # Ctrl-C before `raise_at_signals` has installed its handlers
        return INTERRUPTED


def _main() -> int:
    _open_closed()
    # Unbuffered, because a signal during a write would leave text in a buffer.
    unfailing: Any = _Unfailing(2, "w", closefd=False)
    sys.stderr = io.TextIOWrapper(unfailing, sys.stderr.encoding, "backslashreplace", write_through=True)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        return _failed(
            f"aiokafka-lead needs {' and '.join(missing)}; install with: pip install 'aiokafka-lead[cli]'", USAGE
        )
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
    except OSError as error:  # from Typer's own output, for example a help text
        code = _failed(f"error: cannot write to standard output: {error.strerror}", FAILED)
    else:
        return code
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes stdout again at exit and would report another error
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
    """Raw file for standard error. It ignores failed writes, whose errors would hide the error being reported."""

    def write(self, content: Any, /) -> int:
        try:
            written = super().write(content)
        except OSError:
            return len(content)
        return len(content) if written is None else written


def _open_closed() -> None:
    """Open replacements for standard descriptors that were closed when the program started.

    Otherwise, the next socket could get one of these descriptor numbers, and libuv would abort the process. Python also
    sets the stream to None. The replacements return empty input, drop output to stderr, and fail writes to stdout.
    """
    for number, mode in enumerate(("r", "w", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if number == 2 else os.O_RDONLY)
            stream = open(number, mode, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            setattr(sys, ("stdin", "stdout", "stderr")[number], stream)

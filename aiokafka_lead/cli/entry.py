"""Where the program begins."""

from __future__ import annotations

import sys
from importlib.util import find_spec

NEEDED = ("typer", "rich")
INTERRUPTED = 130
"""As `ExitCode` has it, which is not loaded yet."""


def main() -> int:
    """Run the command line; returns the exit code."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        text = f"aiokafka-lead needs {' and '.join(missing)}: pip install 'aiokafka-lead[cli]'"
        print(text, file=sys.stderr)  # noqa: T201
        return 2
    try:
        from .app import make_app

        make_app()()
    except KeyboardInterrupt:  # before any command has begun
        return INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0

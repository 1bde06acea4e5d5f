"""The question before something is changed that cannot be changed back."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import typer

__all__ = ["confirm"]


def confirm(question: str) -> None:
    """Ask at the terminal; raises `typer.Abort` unless the answer is yes, at Ctrl-C and at the end of input, too."""
    try:
        with _interruptible():
            agreed = typer.confirm(question, err=True)
    except typer.Abort:
        typer.echo(err=True)  # the question's line has no end yet
        raise
    if not agreed:
        raise typer.Abort


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have Ctrl-C end the wait for an answer: an event loop's own handler would only take note of it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

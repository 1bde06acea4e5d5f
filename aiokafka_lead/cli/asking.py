"""Confirmation of irreversible changes."""

from __future__ import annotations

import typer

from .signals import Interrupted, signals_raise

__all__ = ["confirm"]


def confirm(question: str) -> None:
    """Ask at the terminal; raise `typer.Abort` unless the answer is yes, also at the end of input."""
    try:
        with signals_raise():
            agreed = typer.confirm(question, err=True)
    except typer.Abort:
        typer.echo(err=True)  # the line of the question has no end yet
        raise
    except Interrupted:
        typer.echo("\nnot confirmed: nothing was changed", err=True)
        raise
    if not agreed:
        raise typer.Abort

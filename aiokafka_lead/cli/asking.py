"""Confirmation of irreversible changes."""

from __future__ import annotations

import typer

from .output import Output
from .signals import Interrupted, signals_raise
from .stdin import answer
from .streams import visible

_ANSWERS = {b"y": True, b"yes": True, b"n": False, b"no": False, b"": False}


async def confirm(out: Output, question: str) -> None:
    """Ask at the terminal; raise `typer.Abort` unless the answer is yes, also at the end of input."""
    await out.drain()  # the question is below what it is about
    try:
        with signals_raise():
            agreed: bool | None = None
            while agreed is None:
                typer.echo(f"{visible(question)} [y/N]: ", nl=False, err=True)
                line = answer()
                if not line.endswith(b"\n"):  # the line of the question has no end yet
                    typer.echo(err=True)
                agreed = _ANSWERS.get(line.strip().lower())
    except Interrupted:
        typer.echo("\nnot confirmed: nothing was changed", err=True)
        raise
    if not agreed:
        raise typer.Abort

"""What commands print: tables and sentences for people, JSON for programs; what is not a result goes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["Output", "table"]


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str | None = None) -> Table:
    """Rows for people: numbers to the right, and nothing of what a broker says is taken for markup."""
    made = Table(*[], title=title, box=None, pad_edge=False, header_style="bold")
    for column in columns:
        numeric = bool(rows) and all(isinstance(row.get(column), (int, float, type(None))) for row in rows)
        made.add_column(column.replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        made.add_row(*[_cell(row.get(column)) for column in columns])
    return made


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return escape(", ".join(map(str, value)))
    if isinstance(value, float):
        return f"{value:,.1f}"
    text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(value))
    return escape(text)


class Output:
    """Where a command's results go. ``as_json`` prints JSON instead of tables."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.console = Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())
        self.notes = Console(file=sys.stderr, highlight=False, soft_wrap=True)

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str], empty: str) -> None:
        """A table of results, or a JSON array of objects with all that the rows have."""
        found = list(rows)
        if self.as_json:
            self.json(found)
        elif found:
            self.console.print(table(found, columns))
        else:
            self.note(empty)

    def json(self, value: Any) -> None:
        """One JSON document."""
        self.console.file.write(json.dumps(value, indent=2, default=str, ensure_ascii=False) + "\n")

    def json_line(self, value: Any) -> None:
        """One JSON document on one line, of many that follow each other."""
        self.console.file.write(json.dumps(value, default=str, ensure_ascii=False) + "\n")

    def done(self, text: str, **facts: Any) -> None:
        """A change that was made."""
        if self.as_json:
            self.json(facts)
        else:
            self.console.print(escape(text))

    def note(self, text: str) -> None:
        """Something beside the results."""
        self.notes.print(escape(text))

    def error(self, text: str) -> None:
        """Why the command failed."""
        self.notes.print(f"[bold red]error:[/] {escape(text)}")

    def live(self, first: RenderableType) -> Live:
        """A display that is drawn anew in place."""
        return Live(first, console=self.console, auto_refresh=False, screen=self.console.is_terminal)

    def progress(self, *, wanted: bool) -> AbstractContextManager[Progress | None]:
        """A bar on stderr for long work, at a terminal only."""
        if not wanted or not self.notes.is_terminal:
            return nullcontext()
        return Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.notes,
            transient=True,
        )

    @staticmethod
    def together(*parts: RenderableType) -> Group:
        """Several things below each other."""
        return Group(*parts)

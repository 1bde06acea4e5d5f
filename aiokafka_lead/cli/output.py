"""What commands print: tables and sentences for people, JSON for programs; what is not a result goes to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape, render
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

__all__ = ["Output", "table"]


_MARK_WIDTH = 8
"""Of what stands before a text: a finding's level."""


def table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str | None = None, *, in_lines: bool = False
) -> Table:
    """Rows for people: numbers to the right, and nothing of what a broker says is taken for markup.

    ``in_lines``: each row has one line, for displays that are drawn anew; names that are too long for that are cut.
    """
    made = Table(*[], title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        known = [row[column] for row in rows if row.get(column) is not None]
        numeric = bool(known) and all(isinstance(each, (int, float)) for each in known)
        made.add_column(
            column.replace("_", " "),
            justify="right" if numeric else "left",
            overflow="ellipsis" if in_lines else "fold",
            no_wrap=in_lines and numeric,
        )
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


class _Console(Console):
    """Raises BrokenPipeError where nobody reads any more, instead of ending the program as a failed one."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Output:
    """Where a command's results go. ``as_json`` prints JSON instead of tables."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.console = _Console(file=sys.stdout, highlight=False, soft_wrap=not sys.stdout.isatty())
        self.notes = Console(file=sys.stderr, highlight=False, soft_wrap=not sys.stderr.isatty())

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

    def marked(self, mark: str, text: str) -> None:
        """Text behind a mark, which stands by itself: lines that a terminal has no room for begin below the text."""
        row = Table.grid(Column(width=_MARK_WIDTH), Column(overflow="fold"))
        row.add_row(mark, escape(text))
        if self.console.is_terminal:
            self.console.print(row)
        else:
            self.console.print(f"{mark}{' ' * (_MARK_WIDTH - cell_len(render(mark).plain))}{escape(text)}")

    def note(self, text: str) -> None:
        """Something beside the results."""
        self.notes.print(escape(text))

    def hint(self, text: str) -> None:
        """Something for a person who waits, at a terminal only."""
        if self.notes.is_terminal and self.console.is_terminal:
            self.note(text)

    def error(self, text: str) -> None:
        """Why the command failed."""
        self.notes.print(f"[bold red]error:[/] {escape(text)}")

    @contextmanager
    def live(self, first: RenderableType) -> Iterator[Live]:
        """A display that is drawn anew in place; what it showed last stays on the terminal."""
        screen = self.console.is_terminal
        live = Live(first, console=self.console, auto_refresh=False, screen=screen)
        try:
            with live:
                yield live
        finally:
            if screen:
                self.console.print(live.get_renderable())

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

"""Output of commands: results as tables or JSON on stdout, and messages on stderr."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Any

import anyio
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from .._io.cancellation import tasks_of_block
from .failures import Failed
from .streams import Stderr, Stdout, visible

_MARK_WIDTH = 8
"""Number of columns for the mark of `Output.marked`."""

_LOOK_EVERY_S = 0.25
"""Interval of checks that standard output still has a reader."""

_ANY_WIDTH = 1_000_000
"""Console width if the output is not a terminal, so that Rich never breaks a row."""


def table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], title: str | None = None, *, in_lines: bool = False
) -> Table:
    """Return a table with numbers right-aligned, and without interpreting cells as Rich markup.

    With ``in_lines``, each row takes one line, as live displays need. On a terminal, long names are then truncated.
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
        value = ", ".join(map(str, value))
    if isinstance(value, float):
        return f"{value:,.1f}"
    return escape("".join(char if char.isprintable() else repr(char)[1:-1] for char in str(value)))


class Output:
    """Writes a command's results and messages. With ``as_json``, results are JSON instead of tables.

    Output is buffered until `drain`, which is called at the end of the command. Long-running commands also call it in
    between.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.stdout = Stdout()
        self.console = _console(self.stdout)
        self.stderr = Stderr()
        self.notes = _console(self.stderr)
        self._done = ""

    @property
    def height(self) -> int | None:
        """Number of lines of the terminal; None if stdout is not a terminal."""
        return self.console.height if self.console.is_terminal else None

    async def drain(self) -> None:
        """Write all buffered output, messages first, and wait for the writes. Raises the errors of `Stdout.drain`."""
        await self.stderr.drain()
        try:
            await self.stdout.drain()
        except Failed as failed:
            raise Failed(f"{failed}{self._done and '; the result was: '}{self._done}") from None

    @asynccontextmanager
    async def read(self) -> AsyncIterator[None]:
        """End the block with BrokenPipeError once the reader of standard output is gone, even if nothing is written."""

        async def watch() -> None:
            while not self.stdout.is_abandoned:  # noqa: ASYNC110  # no event loop can wait for that
                await anyio.sleep(_LOOK_EVERY_S)
            raise BrokenPipeError

        async with tasks_of_block() as tasks:
            tasks.start_soon(watch)
            yield
            tasks.cancel_scope.cancel()

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str], empty: str) -> None:
        """Print rows as a table with these columns, or as a JSON array with all their members.

        If there are no rows, a table is replaced with the message ``empty`` on stderr.
        """
        found = list(rows)
        if self.as_json:
            self.json(found)
        elif found:
            self._show(self.console, table(found, columns))
        elif empty:
            self.note(empty)

    def note_rows(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Print a table on stderr."""
        self._show(self.notes, table(rows, columns))

    def json(self, value: Any) -> None:
        """Print a JSON document on several lines."""
        self.stdout.write_json(json.dumps(value, indent=2, default=str, ensure_ascii=False) + "\n")

    def json_line(self, value: Any) -> None:
        """Print a JSON document on a single line."""
        self.stdout.write_json(json.dumps(value, default=str, ensure_ascii=False) + "\n")

    def done(self, text: str, **facts: Any) -> None:
        """Report a completed change: ``text``, or with ``as_json`` the object ``facts``.

        If stdout cannot be written, the error of `drain` contains the text.
        """
        self._done = text
        if self.as_json:
            self.json(facts)
        else:
            self.console.print(escape(visible(text)), soft_wrap=True)

    def marked(self, mark: str, style: str, text: str) -> None:
        """Print a mark, such as ``ok``, and a text. On a terminal, long texts are wrapped and indented."""
        if self.console.is_terminal:
            row = Table.grid(Column(width=_MARK_WIDTH), Column(overflow="fold"))
            row.add_row(f"[{style}]{mark}[/]" if style else mark, escape(visible(text)))
            self.console.print(row)
        else:
            self.stdout.write(f"{mark:{_MARK_WIDTH}}{text}\n")

    def note(self, text: str) -> None:
        """Print a message on stderr."""
        self.notes.print(escape(visible(text)))

    def hint(self, text: str) -> None:
        """Print a message on stderr, only if stdout and stderr are terminals."""
        if self.notes.is_terminal and self.console.is_terminal:
            self.note(text)

    def error(self, text: str) -> None:
        """Print an error message on stderr."""
        self.notes.print(f"[bold red]error:[/] {escape(visible(text))}")

    @contextmanager
    def live(self) -> Iterator[Callable[[RenderableType], Awaitable[None]]]:
        """Return a function that shows a display. On a terminal, each display replaces the previous one."""
        if not self.console.is_terminal:

            async def show(shown: RenderableType) -> None:
                self._show(self.console, shown)
                await self.drain()

            yield show
            return
        live = Live("", console=self.console, auto_refresh=False, screen=True)

        async def update(shown: RenderableType) -> None:
            live.update(shown, refresh=True)
            await self.drain()

        try:
            with live:
                yield update
        finally:
            self.console.print(live.get_renderable())

    def progress(self, *, wanted: bool) -> AbstractContextManager[Progress | None]:
        """Return a context with a progress bar on stderr, or with None if not wanted or stderr is not a terminal."""
        if not wanted or not self.notes.is_terminal:
            return nullcontext()
        return Progress(
            SpinnerColumn("line"),  # in ASCII
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.notes,
            transient=True,
        )

    @staticmethod
    def together(*parts: RenderableType) -> Group:
        """Return the parts as one display, arranged vertically."""
        return Group(*parts)

    @staticmethod
    def _show(console: Console, shown: RenderableType) -> None:
        if console.is_terminal:
            console.print(shown)
            return
        with console.capture() as caught:
            console.print(shown)
        for line in caught.get().splitlines():
            console.file.write(line.rstrip() + "\n")


def _console(stream: Any) -> Console:
    terminal = stream.isatty()  # by default, Rich obeys FORCE_COLOR and writes control sequences even to files
    width = None if terminal else _ANY_WIDTH
    # Emoji would replace parts of addresses, such as ":a:" and ":1234:".
    return Console(file=stream, force_terminal=terminal, highlight=False, emoji=False, width=width)

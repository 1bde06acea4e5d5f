"""The pipeline's display: stages with their progress, or a line for each stage without a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class Stage:
    """A running part of the pipeline."""

    def __init__(self, progress: Progress, title: str, total: float | None) -> None:
        self._progress = progress
        self._title = title
        self._task = progress.add_task(title, total=total, state="")
        self._state = ""
        self._is_over = False

    def show(self, state: str, done: float | None = None) -> None:
        """Show the progress in a few words, and ``done`` as a share of the stage's total, if any."""
        self._state = state
        self._progress.update(self._task, state=state, completed=done)

    def note(self, state: str) -> None:
        """Show a rare event, on a separate line if there is no terminal."""
        self.show(state)
        if not self._progress.console.is_terminal:
            self._progress.console.print(f"{self._title}: {state}", soft_wrap=True)

    def end(self) -> None:
        """Mark the stage as finished."""
        if not self._is_over:
            self._is_over = True
            self.note(self._state)
            self._progress.update(self._task, total=1, completed=1)


class Stages(AbstractContextManager["Stages"]):
    """The stages, one per line. Fits 80 columns."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._progress = Progress(
            SpinnerColumn(finished_text="*"),
            TextColumn("{task.description:<22}"),
            BarColumn(bar_width=14),
            TimeElapsedColumn(),
            TextColumn("{task.fields[state]}", style="dim"),
            console=self.console,
        )

    def __enter__(self) -> Stages:
        if self.console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_terminal:
            self._progress.stop()

    @contextmanager
    def stage(self, title: str, total: float | None = None) -> Iterator[Stage]:
        """Show a stage during the block."""
        stage = Stage(self._progress, title, total)
        yield stage
        stage.end()

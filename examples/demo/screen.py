"""The demo's display: a live screen on a terminal, one line a second elsewhere. Fits 80 columns and 24 lines."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import anyio
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .load import SLICE_S, Load, Waits, percentile
from .trouble import BACK, DEAD, MOVING, QUIET, Trouble

PHASES = {QUIET: " ", MOVING: "m", DEAD: "x", BACK: "r"}
"""Phases of the cluster, with their marks below the bars."""
LEVELS = "▁▂▃▄▅▆▇█"
ASCII_LEVELS = "._-:=+*#"
LABEL = 12
"""Columns to the left of the bars."""
LONGEST_MS = 1000.0


def style(ms: float) -> str:
    """Choose a colour: green for an unnoticeable delay, red for a failover that clients had to wait for."""
    return "green" if ms < 20 else "yellow" if ms < 100 else "red"


class Screen:
    """Shows the demo."""

    def __init__(self, console: Console, trouble: Trouble, loads: Sequence[Load], seconds: float) -> None:
        self._console = console
        self._trouble = trouble
        self._loads = loads
        self._seconds = seconds
        self._started = time.monotonic()
        self._marks: list[str] = []
        """Mark of the phase in each slice of time."""
        self._levels = LEVELS if console.encoding.startswith("utf") else ASCII_LEVELS

    async def show(self) -> None:
        """Show the state until cancelled: four frames a second on a terminal, one line a second elsewhere."""
        if not self._console.is_terminal:
            self._console.print(f"{self._trouble.about}\n", soft_wrap=True)
            while True:
                await anyio.sleep(1)
                self._console.print(self._line(), soft_wrap=True)
        with Live(console=self._console, auto_refresh=False) as live:
            try:
                while True:
                    live.update(self._frame(), refresh=True)
                    await anyio.sleep(SLICE_S)
            finally:
                live.update(self._frame(), refresh=True)

    def close(self) -> None:
        """Print the outcome in a sentence, after the figures if they were not shown all the time."""
        if not self._console.is_terminal:
            self._console.print()
            self._console.print(self._waits())
        for load in self._loads:
            for error in load.errors[:3]:
                self._console.print(f"Not delivered ({load.name}): {error}", style="red", soft_wrap=True)
        is_exact = all(load.is_exact for load in self._loads)
        self._console.print(f"\n{self._verdict()}", style="bold" if is_exact else "bold red", soft_wrap=False)

    def _verdict(self) -> str:
        sent = sum(load.sent for load in self._loads)
        if not all(load.is_exact for load in self._loads):
            failed = sum(len(load.errors) for load in self._loads)
            lost = sum(load.lost for load in self._loads)
            duplicated = sum(load.duplicated for load in self._loads)
            return f"Of {sent:,} events {failed} were not delivered, {lost} were lost and {duplicated} came twice."
        deaths = " and a broker's death" if self._trouble.deaths else ""
        ours, without = (percentile(load.acknowledgements.by_phase[MOVING], 0.99) for load in self._loads)
        return (
            f"Each of {sent:,} events was acknowledged and consumed exactly once, through {self._trouble.moves} leader "
            f"moves{deaths}; while leaders moved, 99% were acknowledged within {ours:.0f} ms, without hints within "
            f"{without:.0f} ms."
        )

    def _elapsed(self) -> float:
        return min(self._seconds, time.monotonic() - self._started)

    def _line(self) -> str:
        sent = sum(load.sent for load in self._loads)
        consumed = sum(load.consumed for load in self._loads)
        return f"{self._elapsed():3.0f} s  sent {sent:>7,}  consumed {consumed:>7,}  {self._trouble.latest}"

    def _frame(self) -> RenderableType:
        now = int(self._elapsed() / SLICE_S)
        self._marks += [PHASES[self._trouble.phase]] * (now + 1 - len(self._marks))
        about = Text(self._trouble.about, style="dim")
        return Group(about, "", self._progress(), "", self._brokers(), "", self._bars(), "", self._waits())

    def _progress(self) -> Table:
        row = Table.grid(padding=(0, 1))
        done = self._elapsed()
        row.add_row(
            ProgressBar(total=self._seconds, completed=done, width=24),
            f"{done:2.0f} of {self._seconds:.0f} s",
            Text(self._trouble.latest, style="bold", overflow="ellipsis", no_wrap=True),
        )
        return row

    def _brokers(self) -> Table:
        table = Table("Broker", "Address", "State", "Leads", box=None, padding=(0, 2, 0, 0), header_style="dim")
        for broker in self._trouble.brokers():
            state = Text(broker.state, style="green" if broker.state == "up" else "bold white on red")
            leads = f"{'=' * min(broker.leads // 2, 30)} {broker.leads}".strip()
            table.add_row(str(broker.id), broker.address, state, leads)
        return table

    def _bars(self) -> Text:
        room = self._console.width - LABEL - 1
        first = max(0, len(self._marks) - room)
        shown = range(first, len(self._marks))
        text = Text("Longest wait for an acknowledgement in each quarter of a second, 1 ms to 1 s\n", style="dim")
        for load in self._loads:
            text.append(f"{load.name:<{LABEL}}", style="default not dim")
            for number in shown:
                text.append(*self._bar(load.acknowledgements, number))
            text.append("\n")
        text.append(" " * LABEL + "".join(self._marks[first:]) + "\n")
        text.append(" " * LABEL + "m leaders move   x a broker is dead   r it has returned")
        return text

    def _bar(self, waits: Waits, number: int) -> tuple[str, str]:
        if number not in waits.by_slice:
            return " ", ""
        ms = waits.by_slice[number]
        share = math.log(max(ms, 1.0)) / math.log(LONGEST_MS)
        return self._levels[min(int(share * len(self._levels)), len(self._levels) - 1)], f"{style(ms)} not dim"

    def _waits(self) -> Table:
        phases = [phase for phase in PHASES if any(phase in load.acknowledgements.by_phase for load in self._loads)]
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column("99% within, in ms")
        for title in ["events", *phases]:
            table.add_column(title, justify="right")
        for load in self._loads:
            for title, count, waits in (
                ("acknowledged", load.acknowledged, load.acknowledgements),
                ("consumed", load.consumed, load.consumptions),
            ):
                within = [percentile(waits.by_phase[phase], 0.99) for phase in phases]
                cells = [Text(f"{ms:.0f}", style=style(ms)) for ms in within]
                table.add_row(f"{load.name}, {title}", f"{count:,}", *cells)
        return table

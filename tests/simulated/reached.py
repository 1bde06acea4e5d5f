"""Counts the transitions of state machines that runs have taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from aiokafka_lead._core.consumer import partition_state
from aiokafka_lead._core.group import classic_protocol, heartbeat_member
from aiokafka_lead._core.telemetry import state as telemetry_state
from aiokafka_lead._core.transactions import chain
from aiokafka_lead._core.transactions import state as transaction_state
from aiokafka_lead._core.transitions import Transitions

MACHINES: tuple[Transitions[Any, Any], ...] = (
    partition_state.TRANSITIONS,
    classic_protocol.TRANSITIONS,
    heartbeat_member.OWNING,
    heartbeat_member.SHARING,
    transaction_state.TRANSITIONS,
    chain.TRANSITIONS,
    telemetry_state.TRANSITIONS,
)

Reached = dict[str, Counter[tuple[str, str]]]
"""Number of times that each state took each event, by the name of the machine."""


def nothing_reached() -> Reached:
    return {machine.machine: Counter() for machine in MACHINES}


class _Row(dict[Enum, Enum]):
    """One state's part of a table, which counts look-ups."""

    def __init__(self, state: Enum, after: dict[Enum, Enum], counts: Counter[tuple[str, str]]) -> None:
        super().__init__(after)
        self._state = state
        self._counts = counts

    def __getitem__(self, event: Enum) -> Enum:
        found = super().__getitem__(event)
        self._counts[self._state.name, event.name] += 1
        return found


@contextmanager
def counting() -> Iterator[Reached]:
    """Count the transitions of all machines in this block."""
    reached = nothing_reached()
    tables = [machine.table for machine in MACHINES]
    try:
        for machine in MACHINES:
            counts = reached[machine.machine]
            machine.table = {state: _Row(state, dict(after), counts) for state, after in machine.table.items()}
        yield reached
    finally:
        for machine, table in zip(MACHINES, tables, strict=True):
            machine.table = table


def summary(reached: Reached) -> str:
    """Return a line for each machine: the transitions taken of those possible, and the names of the rest."""
    lines = []
    for machine in MACHINES:
        counts = reached[machine.machine]
        possible = [(state.name, event.name) for state, after in machine.table.items() for event in after]
        missing = [f"{state}+{event}" for state, event in possible if not counts[state, event]]
        if counts:
            never = f"; never {', '.join(missing)}" if missing else ""
            taken = len(possible) - len(missing)
            lines.append(f"{machine.machine}: {taken} of {len(possible)} transitions, {counts.total()} times{never}\n")
    return "".join(lines)

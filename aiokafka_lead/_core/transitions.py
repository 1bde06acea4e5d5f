"""State machines as data: one table says which events are possible in each state, and which state follows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class IllegalTransitionError(RuntimeError):
    """An event came in a state that does not allow it: a defect of this package. Retrying is pointless."""


class Transitions(Generic[S, E]):
    """The table of one kind of machine. All machines of that kind share it, and each keeps its state."""

    __slots__ = ("first", "machine", "table")

    def __init__(self, machine: str, first: S, table: Mapping[S, Mapping[E, S]]) -> None:
        self.machine = machine
        """The name of the machine, for errors."""
        self.first = first
        """The state in which a machine begins."""
        self.table = table
        """The next state, by state and event."""

    def after(self, state: S, event: E) -> S:
        """Return the next state. Raises `IllegalTransitionError` if the state does not allow the event."""
        try:
            return self.table[state][event]
        except KeyError:
            pass
        raise IllegalTransitionError(
            f"{self.machine} in the state {state.name} cannot take {event.name}: this is a bug in aiokafka_lead"
        )

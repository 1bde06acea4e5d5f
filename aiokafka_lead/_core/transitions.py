"""State machines as tables. A table says which events are possible in each state, and which state follows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class IllegalTransitionError(RuntimeError):
    """An event occurred in a state that does not allow it. This is a bug in this package, so a retry is pointless."""


class Transitions(Generic[S, E]):
    """The table for one kind of state machine. All machines of that kind share it, and each stores its own state."""

    __slots__ = ("first", "machine", "table")

    def __init__(self, machine: str, first: S, table: Mapping[S, Mapping[E, S]]) -> None:
        self.machine = machine
        """Name of the machine, for error messages."""
        self.first = first
        """The initial state."""
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

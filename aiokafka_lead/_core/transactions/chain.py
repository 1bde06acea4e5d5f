"""Transactions of several transactional ids that are open at the same time, and end in the order in which they began.

Each is committed after the previous transaction. If a transaction is not committed, all later transactions are aborted,
because they may depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Generic, TypeVar

from ...errors import KafkaError
from ..transitions import Transitions


class Stage(Enum):
    """Stages of a transaction in a chain."""

    OPEN = "open"
    """It accepts records and offsets."""
    STORED = "stored"
    """Its content is stored, and it waits for the previous transaction."""
    COMMITTING = "committing"
    """It is the first in the chain, and the coordinator is being asked to commit it."""
    DOOMED = "doomed"
    """It has to be aborted, or is being aborted."""
    OVER = "over"
    """It has ended."""


class Event(Enum):
    """Events that lead from stage to stage."""

    STORE = "store"
    """The application has finished it, and its content is stored."""
    COMMIT = "commit"
    """All earlier transactions are committed."""
    DOOM = "doom"
    """The application aborts it, the coordinator refuses it, or an earlier transaction is not committed."""
    END = "end"
    """Its outcome is known."""


TRANSITIONS = Transitions(
    "a transaction among others",
    Stage.OPEN,
    {
        Stage.OPEN: {Event.STORE: Stage.STORED, Event.DOOM: Stage.DOOMED, Event.END: Stage.OVER},
        Stage.STORED: {Event.COMMIT: Stage.COMMITTING, Event.DOOM: Stage.DOOMED},
        Stage.COMMITTING: {Event.DOOM: Stage.DOOMED, Event.END: Stage.OVER},
        Stage.DOOMED: {Event.END: Stage.OVER},
        Stage.OVER: {},
    },
)


class Chained:
    """One transaction of a chain."""

    def __init__(self) -> None:
        self.stage = TRANSITIONS.first
        self.reason: KafkaError | None = None
        """The error to raise because an earlier transaction was not committed."""

    @property
    def left(self) -> bool:
        """True if the application has finished it, and expects that it will be committed."""
        return self.stage in (Stage.STORED, Stage.COMMITTING)

    def take(self, event: Event) -> None:
        """Go to the next stage."""
        self.stage = TRANSITIONS.after(self.stage, event)


T = TypeVar("T", bound=Chained)


class Chain(Generic[T]):
    """Decides which transaction to commit or abort next; the caller does so and reports the result."""

    def __init__(self) -> None:
        self._in_flight: list[T] = []

    def __iter__(self) -> Iterator[T]:
        return iter(self._in_flight)

    def __len__(self) -> int:
        return len(self._in_flight)

    @property
    def calm(self) -> bool:
        """True if no transaction has to be aborted, so that a new transaction may begin."""
        return all(chained.stage is not Stage.DOOMED for chained in self._in_flight)

    def begin(self, chained: T) -> None:
        """Add a transaction after the others."""
        self._in_flight.append(chained)

    def next(self) -> T | None:
        """Return the transaction to commit now, or None; its commit counts as requested."""
        if not self._in_flight or self._in_flight[0].stage is not Stage.STORED:
            return None
        self._in_flight[0].take(Event.COMMIT)
        return self._in_flight[0]

    def ended(self, chained: T) -> None:
        """Remove a transaction whose outcome is known. If it was not committed, call `doom_behind` first."""
        chained.take(Event.END)
        self._in_flight.remove(chained)

    def doom_behind(self, chained: T, reason: KafkaError | None) -> list[T]:
        """Doom the transactions after ``chained``, which is not committed; return them."""
        behind = [
            each for each in self._in_flight[self._in_flight.index(chained) + 1 :] if each.stage is not Stage.DOOMED
        ]
        for each in behind:
            each.take(Event.DOOM)
            each.reason = reason
        return behind

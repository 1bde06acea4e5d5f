"""Order of the transactions of several transactional ids that are open at the same time.

They are committed in the order in which they began. If one of them is not committed, all later ones are aborted,
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
    """The transaction accepts records and offsets."""
    STORED = "stored"
    """Its content is stored in the brokers, and it waits for the previous transaction to end."""
    COMMITTING = "committing"
    """It is the first of the chain, and the coordinator has been asked to commit it."""
    DOOMED = "doomed"
    """It has to be aborted, or is being aborted."""
    OVER = "over"
    """It has ended."""


class Event(Enum):
    """Events that move a transaction to another stage."""

    STORE = "store"
    """The application has finished the transaction, and its content is stored."""
    COMMIT = "commit"
    """All earlier transactions have been committed."""
    DOOM = "doom"
    """The application or the coordinator aborts it, or an earlier transaction was not committed."""
    END = "end"
    """The outcome of the transaction is known."""


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
    """One transaction of a chain, and its stage."""

    def __init__(self) -> None:
        self.stage = TRANSITIONS.first
        self.reason: KafkaError | None = None
        """The error to raise if an earlier transaction was not committed, otherwise None."""

    @property
    def left(self) -> bool:
        """True if the application has finished the transaction and expects it to be committed."""
        return self.stage in (Stage.STORED, Stage.COMMITTING)

    def take(self, event: Event) -> None:
        """Move to the stage that follows this event."""
        self.stage = TRANSITIONS.after(self.stage, event)


T = TypeVar("T", bound=Chained)


class Chain(Generic[T]):
    """Decides which transaction to commit or abort next. The caller does this and reports the result."""

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
        """Append a transaction, which is committed after those that began earlier."""
        self._in_flight.append(chained)

    def next(self) -> T | None:
        """Return the oldest transaction if it is ready to be committed, and mark it as COMMITTING.

        Otherwise, returns None.
        """
        if not self._in_flight or self._in_flight[0].stage is not Stage.STORED:
            return None
        self._in_flight[0].take(Event.COMMIT)
        return self._in_flight[0]

    def ended(self, chained: T) -> None:
        """Remove a transaction whose outcome is known. If it was not committed, call `doom_behind` first."""
        chained.take(Event.END)
        self._in_flight.remove(chained)

    def doom_behind(self, chained: T, reason: KafkaError | None) -> list[T]:
        """Mark the transactions after ``chained`` to be aborted, because it was not committed. Return them."""
        behind = [
            each for each in self._in_flight[self._in_flight.index(chained) + 1 :] if each.stage is not Stage.DOOMED
        ]
        for each in behind:
            each.take(Event.DOOM)
            each.reason = reason
        return behind

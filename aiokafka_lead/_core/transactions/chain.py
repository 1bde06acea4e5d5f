"""Transactions of several transactional ids that are in flight at the same time, and end in the order of their begins.

Each is committed when the one before it is. When one is not, all that are behind it are aborted: they may rest on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Generic, TypeVar

from ...errors import KafkaError
from ..transitions import Transitions

__all__ = ["TRANSITIONS", "Chain", "Chained", "Event", "Stage"]


class Stage(Enum):
    """Where one of these transactions is."""

    OPEN = "open"
    """It takes records and offsets."""
    STORED = "stored"
    """What it took is stored, and it waits for the one before it."""
    COMMITTING = "committing"
    """It is the first one, and the coordinator is asked to commit it."""
    DOOMED = "doomed"
    """It is to be aborted, or is being aborted."""
    OVER = "over"
    """Nothing waits for it any more."""


class Event(Enum):
    """What leads from stage to stage."""

    STORE = "store"
    """The application is done with it, and what it took is stored."""
    COMMIT = "commit"
    """All that were before it are committed."""
    DOOM = "doom"
    """The application does not want it, the coordinator refuses it, or one before it is not committed."""
    END = "end"
    """Its fate is known."""


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
        """Where one before it is not committed: the error that says so."""

    @property
    def left(self) -> bool:
        """Whether the application has left it in the belief that it will be committed."""
        return self.stage in (Stage.STORED, Stage.COMMITTING)

    def take(self, event: Event) -> None:
        """Go to the stage that follows."""
        self.stage = TRANSITIONS.after(self.stage, event)


T = TypeVar("T", bound=Chained)


class Chain(Generic[T]):
    """Says what is to be done next; its owner does that, and says what came of it."""

    def __init__(self) -> None:
        self._in_flight: list[T] = []

    def __iter__(self) -> Iterator[T]:
        return iter(self._in_flight)

    def __len__(self) -> int:
        return len(self._in_flight)

    @property
    def calm(self) -> bool:
        """Whether nothing is to be aborted: only then another transaction may begin, which would not be after that."""
        return all(chained.stage is not Stage.DOOMED for chained in self._in_flight)

    def begin(self, chained: T) -> None:
        """A transaction begins behind the others."""
        self._in_flight.append(chained)

    def next(self) -> T | None:
        """The transaction that is to be committed now, if there is one: it is taken to be asked for."""
        if not self._in_flight or self._in_flight[0].stage is not Stage.STORED:
            return None
        self._in_flight[0].take(Event.COMMIT)
        return self._in_flight[0]

    def ended(self, chained: T) -> None:
        """Its fate is known; where that is not a commit, `doom_behind` comes first."""
        chained.take(Event.END)
        self._in_flight.remove(chained)

    def doom_behind(self, chained: T, reason: KafkaError | None) -> list[T]:
        """The transaction is not committed: those behind it which are to be aborted for that reason, from now on."""
        behind = [
            each for each in self._in_flight[self._in_flight.index(chained) + 1 :] if each.stage is not Stage.DOOMED
        ]
        for each in behind:
            each.take(Event.DOOM)
            each.reason = reason
        return behind

"""How the state machine learns the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A call to come."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The time in seconds, from any start, and calls to come."""

    def now(self) -> float: ...
    def call_at(self, when: float, call: Callable[[], None]) -> TimerHandle: ...

"""The source of time for the state machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A future call."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The time in seconds, from any start, and future calls."""

    def now(self) -> float: ...
    def call_at(self, when: float, call: Callable[[], None]) -> TimerHandle: ...

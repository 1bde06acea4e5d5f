"""The source of time for the state machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A call at a later time, which can be cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The source of time for the state: seconds from an arbitrary start, and calls at later times."""

    def now(self) -> float: ...
    def call_at(self, when: float, call: Callable[[], None]) -> TimerHandle: ...

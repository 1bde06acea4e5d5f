"""The states of a fetched partition, and the events that lead from one to another."""

from __future__ import annotations

from enum import Enum

from ..transitions import Transitions

__all__ = ["POSITIONED", "TRANSITIONS", "FetchEvent", "FetchState"]


class FetchState(Enum):
    """Where a partition is on its way to being fetched."""

    INITIALIZING = "initializing"
    """The committed offset is looked up, if there is a group."""
    RESETTING = "resetting"
    """ListOffsets finds an offset."""
    VALIDATING = "validating"
    """The leader is asked whether the epoch of the position is part of its log (KIP-320)."""
    FETCHING = "fetching"
    """Fetched, unless it is paused or has failed."""


class FetchEvent(Enum):
    """What leads from state to state."""

    MOVE = "move"
    """The position is known: it was committed, found, sought, or is where the log was truncated."""
    RESET = "reset"
    """The position is to be found: nothing is committed, it is out of range, or an end of the log is sought."""
    RETURN = "return"
    """Back to what is committed: a transaction was aborted, or the application asks for it."""
    DOUBT = "doubt"
    """There is a new leader, which does not check positions by itself (before Fetch 12)."""
    CONFIRM = "confirm"
    """The leader has confirmed the position."""
    POSTPONE = "postpone"
    """What the leader said counts only when everything before the position has been handed out."""
    REWIND = "rewind"
    """What was fetched beyond the position has been dropped for want of memory."""
    LOG_REPLACED = "log replaced"
    """The topic was deleted and made anew."""


POSITIONED = frozenset({FetchState.VALIDATING, FetchState.FETCHING})
"""The states in which there is a position."""

_FROM_EACH = {
    FetchEvent.MOVE: FetchState.FETCHING,
    FetchEvent.RESET: FetchState.RESETTING,
    FetchEvent.RETURN: FetchState.INITIALIZING,
}
_FROM_A_POSITION = {
    FetchEvent.REWIND: FetchState.FETCHING,
    FetchEvent.LOG_REPLACED: FetchState.FETCHING,
    **_FROM_EACH,
}

TRANSITIONS = Transitions(
    "a fetched partition",
    FetchState.INITIALIZING,
    {
        FetchState.INITIALIZING: _FROM_EACH,
        FetchState.RESETTING: _FROM_EACH,
        FetchState.VALIDATING: {
            FetchEvent.CONFIRM: FetchState.FETCHING,
            FetchEvent.POSTPONE: FetchState.FETCHING,
            **_FROM_A_POSITION,
        },
        FetchState.FETCHING: {FetchEvent.DOUBT: FetchState.VALIDATING, **_FROM_A_POSITION},
    },
)

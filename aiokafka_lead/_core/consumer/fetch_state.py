"""The states of a fetched partition, and the events that lead from one to another."""

from __future__ import annotations

from enum import Enum

from ..transitions import Transitions


class FetchState(Enum):
    """Stages on the way to fetching a partition."""

    INITIALIZING = "initializing"
    """The committed offset is being looked up, if there is a group."""
    RESETTING = "resetting"
    """ListOffsets is finding an offset."""
    VALIDATING = "validating"
    """The leader is being asked if the epoch of the position is part of its log (KIP-320)."""
    FETCHING = "fetching"
    """Fetched, unless it is paused or has failed."""


class FetchEvent(Enum):
    """Events that lead from state to state."""

    MOVE = "move"
    """The position is known: it was committed, found, sought, or is the offset of a truncation."""
    RESET = "reset"
    """The position must be found: none is committed, it is out of range, or an end of the log is sought."""
    RETURN = "return"
    """Return to the committed offset: a transaction was aborted, or the application requested it."""
    DOUBT = "doubt"
    """The new leader does not check positions by itself (before Fetch 12)."""
    CONFIRM = "confirm"
    """The leader has confirmed the position."""
    POSTPONE = "postpone"
    """The leader's answer counts only after everything before the position has been handed out."""
    REWIND = "rewind"
    """Data fetched beyond the position has been dropped for lack of memory."""
    LOG_REPLACED = "log replaced"
    """The topic was deleted and recreated."""


POSITIONED = frozenset({FetchState.VALIDATING, FetchState.FETCHING})
"""The states that have a position."""

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

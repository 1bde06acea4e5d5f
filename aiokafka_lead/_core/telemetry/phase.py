"""The phases of a client that pushes metrics (Java: ``ClientTelemetryState``), and what leads from one to another."""

from __future__ import annotations

from enum import Enum

from ..transitions import Transitions

__all__ = ["TRANSITIONS", "Event", "Phase"]


class Phase(Enum):
    """What is to be sent, or is under way."""

    SUBSCRIPTION_NEEDED = "subscription needed"
    SUBSCRIPTION_IN_PROGRESS = "subscription in progress"
    PUSH_NEEDED = "push needed"
    PUSH_IN_PROGRESS = "push in progress"
    TERMINATING_PUSH_NEEDED = "terminating push needed"
    """The client stops. A push may still be under way: its answer comes first."""
    TERMINATING_PUSH_IN_PROGRESS = "terminating push in progress"
    TERMINATED = "terminated"


class Event(Enum):
    """What leads from phase to phase."""

    ASK = "ask"
    """GetTelemetrySubscriptions was sent."""
    SUBSCRIBED = "subscribed"
    """The broker wants metrics."""
    ASK_AGAIN = "ask again"
    """The broker wants none, did not answer, or knows the subscription no more."""
    PUSH = "push"
    """PushTelemetry was sent."""
    PUSHED = "pushed"
    """It is over, and the next one comes with the same subscription."""
    CLOSE = "close"
    """The client stops, and has something to push before."""
    END = "end"
    """Nothing is sent any more: the client has stopped, or the broker refuses for good."""


_END = {Event.END: Phase.TERMINATED}

TRANSITIONS = Transitions(
    "a client's metrics push",
    Phase.SUBSCRIPTION_NEEDED,
    {
        Phase.SUBSCRIPTION_NEEDED: {Event.ASK: Phase.SUBSCRIPTION_IN_PROGRESS, **_END},
        Phase.SUBSCRIPTION_IN_PROGRESS: {
            Event.SUBSCRIBED: Phase.PUSH_NEEDED,
            Event.ASK_AGAIN: Phase.SUBSCRIPTION_NEEDED,
            **_END,
        },
        Phase.PUSH_NEEDED: {
            Event.PUSH: Phase.PUSH_IN_PROGRESS,
            Event.CLOSE: Phase.TERMINATING_PUSH_NEEDED,
            **_END,
        },
        Phase.PUSH_IN_PROGRESS: {
            Event.PUSHED: Phase.PUSH_NEEDED,
            Event.ASK_AGAIN: Phase.SUBSCRIPTION_NEEDED,
            Event.CLOSE: Phase.TERMINATING_PUSH_NEEDED,
            **_END,
        },
        Phase.TERMINATING_PUSH_NEEDED: {
            Event.PUSHED: Phase.TERMINATING_PUSH_NEEDED,
            Event.PUSH: Phase.TERMINATING_PUSH_IN_PROGRESS,
            **_END,
        },
        Phase.TERMINATING_PUSH_IN_PROGRESS: _END,
        Phase.TERMINATED: {},
    },
)

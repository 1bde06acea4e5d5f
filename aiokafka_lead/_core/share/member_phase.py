"""The phases of a share group's member, and the events that lead from one to another.

Those of `consumer_protocol_phase` without what gives partitions up: a share group's member owns none.
"""

from __future__ import annotations

from enum import Enum

from ..transitions import Transitions

__all__ = ["TRANSITIONS", "Event", "Phase"]


class Phase(Enum):
    """What a member does."""

    OUT = "out"
    """Nothing."""
    JOINING = "joining"
    """Heartbeats of epoch 0."""
    JOINED = "joined"
    """Heartbeats; fetches what is assigned."""
    PARTING = "parting"
    """One heartbeat of epoch -1."""


class Event(Enum):
    """What leads from phase to phase."""

    JOIN = "join"
    """The application wants to be in the group."""
    ACCEPTED = "accepted"
    """The first heartbeat was answered with an epoch."""
    FENCED = "fenced"
    """The coordinator knows the member no more, or not with its epoch."""
    PART = "part"
    """The coordinator is to know that the member leaves."""
    LEFT = "left"
    """The coordinator knows, or never knew this member."""
    FAIL = "fail"
    """An error that is for the application to know."""


TRANSITIONS = Transitions(
    "a member of a share group",
    Phase.OUT,
    {
        Phase.OUT: {Event.JOIN: Phase.JOINING},
        Phase.JOINING: {
            Event.ACCEPTED: Phase.JOINED,
            Event.FENCED: Phase.JOINING,
            Event.PART: Phase.PARTING,
            Event.LEFT: Phase.OUT,
            Event.FAIL: Phase.OUT,
        },
        Phase.JOINED: {Event.FENCED: Phase.JOINING, Event.PART: Phase.PARTING, Event.FAIL: Phase.OUT},
        Phase.PARTING: {Event.LEFT: Phase.OUT},
    },
)

"""The phases of a KIP-848 member, and the events that lead from one to another."""

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
    """Heartbeats; gives up and takes over partitions."""
    FENCED = "fenced"
    """No heartbeats; everything that it owned is lost."""
    RELEASING = "releasing"
    """Heartbeats; gives up everything."""
    PARTING = "parting"
    """One heartbeat of epoch -1 (-2: a static member)."""


class Event(Enum):
    """What leads from phase to phase."""

    JOIN = "join"
    """The application wants to be in the group, and nothing is left of an earlier membership."""
    ACCEPTED = "accepted"
    """The first heartbeat was answered with an epoch."""
    FENCED = "fenced"
    """The coordinator knows the member no more, or not with its epoch."""
    DROPPED = "dropped"
    """What a fenced member owned has been dropped."""
    RELEASE = "release"
    """The member is to get out in order."""
    PART = "part"
    """It owns nothing any more, or has no time to give it up: the coordinator is to know."""
    LEFT = "left"
    """The coordinator knows, or never knew this member."""
    FAIL = "fail"
    """An error that is for the application to know."""


_GET_OUT = {Event.FENCED: Phase.FENCED, Event.PART: Phase.PARTING, Event.FAIL: Phase.OUT}

TRANSITIONS = Transitions(
    "a member of a KIP-848 group",
    Phase.OUT,
    {
        Phase.OUT: {Event.JOIN: Phase.JOINING},
        Phase.JOINING: {Event.ACCEPTED: Phase.JOINED, Event.LEFT: Phase.OUT, **_GET_OUT},
        Phase.JOINED: {Event.RELEASE: Phase.RELEASING, **_GET_OUT},
        Phase.FENCED: {Event.DROPPED: Phase.OUT},
        Phase.RELEASING: _GET_OUT,
        Phase.PARTING: {Event.LEFT: Phase.OUT},
    },
)

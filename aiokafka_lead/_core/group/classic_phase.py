"""The phases of a classic member, the events that lead from one to another, and what it waits for in each.

A generation that is over (KIP-429: the partitions may be others') is LOST, and everything that is owned with it.
"""

from __future__ import annotations

from enum import Enum

from ..transitions import Transitions

__all__ = ["AWAITS", "AWAITS_AS_LEADER", "TRANSITIONS", "Event", "Phase"]


class Phase(Enum):
    """What a member does."""

    OUT = "out"
    """Nothing."""
    JOINING = "joining"
    """Gives up what it must not keep, then asks to join."""
    SYNCING = "syncing"
    """Assigns, if it leads, and asks for its assignment."""
    CHECKING = "checking"
    """Asks whether others have topics of which it got nothing, when it has come back to a place that it had."""
    ADOPTING = "adopting"
    """Gives up what was taken from it, then takes over what is new."""
    STABLE = "stable"
    """Heartbeats, which it also sends in the other phases while it is a member."""
    LEAVING = "leaving"
    """Gives up everything, then tells the coordinator."""


class Event(Enum):
    """What leads from phase to phase."""

    JOIN = "join"
    """The application wants to be in the group."""
    JOINED = "joined"
    """JoinGroup was answered with a generation."""
    SYNCED = "synced"
    """SyncGroup was answered with an assignment."""
    DOUBTED = "doubted"
    """The assignment may be that of an earlier subscription."""
    CHECKED = "checked"
    """Nothing is wrong with the assignment, as far as can be known."""
    ADOPTED = "adopted"
    """The assignment has been carried out."""
    REBALANCE = "rebalance"
    """The group has to rebalance, or does so already."""
    RETRY = "retry"
    """JoinGroup or SyncGroup failed, and may succeed later."""
    LOST = "lost"
    """The coordinator does not know the member or its generation any more."""
    LEAVE = "leave"
    """The member is to get out."""
    LEFT = "left"
    """The coordinator knows, or need not."""
    FAIL = "fail"
    """An error that is for the application to know."""


_FROM_EACH_BUT_OUT = {Event.LEAVE: Phase.LEAVING, Event.FAIL: Phase.OUT}
_AGAIN = {Event.LOST: Phase.JOINING, **_FROM_EACH_BUT_OUT}

TRANSITIONS = Transitions(
    "a member of a classic group",
    Phase.OUT,
    {
        Phase.OUT: {Event.JOIN: Phase.JOINING},
        Phase.JOINING: {Event.JOINED: Phase.SYNCING, Event.RETRY: Phase.JOINING, **_AGAIN},
        Phase.SYNCING: {
            Event.SYNCED: Phase.ADOPTING,
            Event.DOUBTED: Phase.CHECKING,
            Event.REBALANCE: Phase.JOINING,
            Event.RETRY: Phase.JOINING,
            **_AGAIN,
        },
        Phase.CHECKING: {Event.CHECKED: Phase.ADOPTING, Event.REBALANCE: Phase.JOINING, **_AGAIN},
        Phase.ADOPTING: {Event.ADOPTED: Phase.STABLE, **_AGAIN},
        Phase.STABLE: {Event.REBALANCE: Phase.JOINING, **_AGAIN},
        Phase.LEAVING: {Event.LEFT: Phase.OUT, Event.LOST: Phase.LEAVING, **_FROM_EACH_BUT_OUT},
    },
)

AWAITS = {
    Phase.OUT: "to join again",
    Phase.JOINING: "the answer to JoinGroup, which comes when all members of the group have joined",
    Phase.SYNCING: "the answer to SyncGroup, which comes when the group's leader has assigned",
    Phase.CHECKING: "the answer to DescribeGroups, which shows what others have",
    Phase.ADOPTING: "the assignment to be carried out",
    Phase.STABLE: "a rebalance, since the subscription changed",
    Phase.LEAVING: "to leave, and to join again",
}
"""What comes before the first assignment to the present subscription."""
AWAITS_AS_LEADER = "metadata of the subscribed topics, whose partitions it assigns as the group's leader"
"""The same of a leader that has not assigned yet."""

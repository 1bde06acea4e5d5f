"""The phases of a classic member, and what it waits for in each."""

from __future__ import annotations

from enum import Enum

__all__ = ["AWAITS", "Phase"]


class Phase(Enum):
    """Where a member is; see the table of `classic`."""

    OUT = "out"
    JOINING = "joining"
    SYNCING = "syncing"
    ADOPTING = "adopting"
    STABLE = "stable"
    LEAVING = "leaving"


AWAITS = {
    Phase.OUT: "to join again",
    Phase.JOINING: "the answer to JoinGroup, which comes when all members of the group have joined",
    Phase.SYNCING: "the answer to SyncGroup, which comes when the group's leader has assigned",
    Phase.ADOPTING: "the assignment to be carried out",
    Phase.STABLE: "a rebalance, since the subscription changed",
    Phase.LEAVING: "to leave, and to join again",
}
"""What comes before the first assignment to the present subscription."""

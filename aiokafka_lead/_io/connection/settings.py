"""What a connection is for, and how it is to behave."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

__all__ = ["ConnectionSettings", "Lane"]


class Lane(StrEnum):  # whose hash is quick: connections are looked up by it for each request
    """What a connection is for. Each node has one connection per lane, so that nothing waits behind a long poll."""

    DATA = "data"
    """Produce and Fetch."""
    BESIDE = "beside"
    """A Fetch that must not wait until the broker is done with the one on DATA, which it may hold for a long time."""
    CONTROL = "control"
    """Metadata and everything else."""
    COORDINATOR = "coordinator"
    """What a group or a transaction asks of its coordinator."""
    REBALANCE = "rebalance"
    """JoinGroup and SyncGroup, which the coordinator holds until all members are there: commits must not wait."""


class ConnectionSettings(NamedTuple):
    """The options that concern a single connection."""

    client_id: str
    request_timeout_s: float
    max_idle_s: float
    max_in_flight: int
    receive_max_bytes: int

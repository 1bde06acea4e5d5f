"""What a connection is for, and how it is to behave."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

__all__ = [
    "COORDINATOR_IN_FLIGHT",
    "AnyLane",
    "ConnectionSettings",
    "CoordinatorLane",
    "FetchLane",
    "HeldLane",
    "Lane",
    "ProduceLane",
    "ShareLane",
]


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


class FetchLane(NamedTuple):
    """The fetches of consumers that share their connections, and whose fetches are merged."""

    number: int
    """One for each set of options that a fetch says something of."""
    kind: str = "fetches"
    """Tuples of two kinds of lanes would be equal without."""

    @property
    def value(self) -> str:
        """For logs."""
        return "merged fetches" if not self.number else f"merged fetches {self.number}"


class HeldLane(NamedTuple):
    """REBALANCE of one consumer among those that share their connections: none may wait for another one's group."""

    consumer: int
    kind: str = "held"

    @property
    def value(self) -> str:
        """For logs."""
        return f"{Lane.REBALANCE.value} {self.consumer}"


class ShareLane(NamedTuple):
    """The share sessions of one consumer among those that share their connections: brokers bind one to a connection."""

    consumer: int
    kind: str = "share"

    @property
    def value(self) -> str:
        """For logs."""
        return f"share sessions {self.consumer}"


class CoordinatorLane(NamedTuple):
    """COORDINATOR of one producer of a pipeline: none of them is to wait for the end of another one's transaction, as a
    broker does not look at a connection's next request before it has answered the one before."""

    producer: int
    kind: str = "coordinator"

    @property
    def value(self) -> str:
        """For logs."""
        return f"{Lane.COORDINATOR.value} {self.producer}"


class ProduceLane(NamedTuple):
    """DATA of producers that share their connections, and would wait long for each other on one."""

    number: int
    kind: str = "produce"

    @property
    def value(self) -> str:
        """For logs."""
        return f"produce {self.number}"


AnyLane = Lane | FetchLane | HeldLane | ShareLane | CoordinatorLane | ProduceLane

COORDINATOR_IN_FLIGHT = 100
"""Requests on their way to a coordinator, as on a connection of Java's consumer; more where the option says more.

All members of a process ask it by one connection, and none's heartbeat is to wait in line for the answers of others,
which take long where the event loop is behind.
"""

HELD_IDLE_S = 1.0
"""A connection of a `HeldLane` closes after so long without a request: its next one is at the next rebalance."""

PRODUCE_IDLE_S = 10.0
"""The same of a `ProduceLane`, for a broker that is slow now and then."""


class ConnectionSettings(NamedTuple):
    """The options that concern a single connection."""

    client_id: str
    request_timeout_s: float
    max_idle_s: float
    max_in_flight: int
    receive_max_bytes: int

    def of(self, lane: AnyLane) -> ConnectionSettings:
        """The same, as far as the lane's connections are not to behave otherwise."""
        if isinstance(lane, HeldLane):
            return self._replace(max_idle_s=min(self.max_idle_s, HELD_IDLE_S))
        if isinstance(lane, ProduceLane):
            return self._replace(max_idle_s=min(self.max_idle_s, PRODUCE_IDLE_S))
        if lane is Lane.COORDINATOR or isinstance(lane, CoordinatorLane):
            return self._replace(max_in_flight=max(self.max_in_flight, COORDINATOR_IN_FLIGHT))
        return self

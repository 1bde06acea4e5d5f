"""Purposes of connections, and their settings."""

from __future__ import annotations

from enum import StrEnum

from ..._values import NamedTuple


class Lane(StrEnum):  # its hash is quick: connections are looked up by it for each request
    """Purpose of a connection. Each node has one connection per lane, so that no request waits behind a long poll."""

    DATA = "data"
    """Produce and Fetch."""
    BESIDE = "beside"
    """A Fetch that must not wait for the one on DATA, which the broker may hold for a long time."""
    CONTROL = "control"
    """Metadata and all other requests."""
    COORDINATOR = "coordinator"
    """Requests of a group or a transaction to its coordinator."""
    REBALANCE = "rebalance"
    """JoinGroup and SyncGroup, which the coordinator holds until all members have joined: commits must not wait."""


class FetchLane(NamedTuple):
    """The merged fetches of consumers that share their connections."""

    number: int
    """One for each combination of options that affect fetches."""
    kind: str = "fetches"
    """Tuples of two kinds of lanes would be equal without it."""

    @property
    def value(self) -> str:
        """Name for logs."""
        return "merged fetches" if not self.number else f"merged fetches {self.number}"


class HeldLane(NamedTuple):
    """REBALANCE of one consumer among those sharing connections: none may wait for another one's group."""

    consumer: int
    kind: str = "held"

    @property
    def value(self) -> str:
        """Name for logs."""
        return f"{Lane.REBALANCE.value} {self.consumer}"


class ShareLane(NamedTuple):
    """The share sessions of one consumer among those sharing connections: brokers bind one to a connection."""

    consumer: int
    kind: str = "share"

    @property
    def value(self) -> str:
        """Name for logs."""
        return f"share sessions {self.consumer}"


class CoordinatorLane(NamedTuple):
    """COORDINATOR of one producer of a pipeline: it must not wait for the end of another one's transaction, and a
    broker answers a connection's requests one by one."""

    producer: int
    kind: str = "coordinator"

    @property
    def value(self) -> str:
        """Name for logs."""
        return f"{Lane.COORDINATOR.value} {self.producer}"


class ProduceLane(NamedTuple):
    """DATA of producers that share their connections, and would wait long for each other on one."""

    number: int
    kind: str = "produce"

    @property
    def value(self) -> str:
        """Name for logs."""
        return f"produce {self.number}"


AnyLane = Lane | FetchLane | HeldLane | ShareLane | CoordinatorLane | ProduceLane

COORDINATOR_IN_FLIGHT = 100
"""Maximum number of requests in flight to a coordinator, as on a connection of Java's consumer, unless the option is
higher.

All members of a process use one connection, and a heartbeat must not wait for other answers, which take long if the
event loop is behind.
"""

HELD_IDLE_S = 1.0
"""Idle time after which a connection of a `HeldLane` closes: its next request is at the next rebalance."""

PRODUCE_IDLE_S = 10.0
"""The same for a `ProduceLane`, whose broker is slow now and then."""


class ConnectionSettings(NamedTuple):
    """The options that apply to a single connection."""

    client_id: str
    request_timeout_s: float
    max_idle_s: float
    max_in_flight: int
    receive_max_bytes: int

    def of(self, lane: AnyLane) -> ConnectionSettings:
        """Return the same settings, adapted to the lane."""
        if isinstance(lane, HeldLane):
            return self._replace(max_idle_s=min(self.max_idle_s, HELD_IDLE_S))
        if isinstance(lane, ProduceLane):
            return self._replace(max_idle_s=min(self.max_idle_s, PRODUCE_IDLE_S))
        if lane is Lane.COORDINATOR or isinstance(lane, CoordinatorLane):
            return self._replace(max_in_flight=max(self.max_in_flight, COORDINATOR_IN_FLIGHT))
        return self

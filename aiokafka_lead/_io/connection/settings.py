"""Purposes of connections, and their settings."""

from __future__ import annotations

from enum import StrEnum

from ..._values import NamedTuple


class Lane(StrEnum):  # a str, whose hash is quick: each request looks up its connection by the lane
    """Purpose of a connection. Each node has a connection per lane, so that no request waits behind a long poll."""

    DATA = "data"
    """Produce and Fetch."""
    BESIDE = "beside"
    """A Fetch that must not wait for the Fetch on DATA, which the broker may hold for a long time."""
    CONTROL = "control"
    """Metadata and all other requests."""
    COORDINATOR = "coordinator"
    """Requests of a group or a transaction to its coordinator."""
    REBALANCE = "rebalance"
    """JoinGroup and SyncGroup, which the coordinator holds until all members have joined, while commits continue."""


class FetchLane(NamedTuple):
    """The merged fetches of consumers that share their connections."""

    number: int
    """Different for each combination of options that affect fetches."""
    kind: str = "fetches"
    """Makes lanes of different classes unequal, which are equal as tuples otherwise."""

    @property
    def value(self) -> str:
        """Name for logs."""
        return "merged fetches" if not self.number else f"merged fetches {self.number}"


class HeldLane(NamedTuple):
    """REBALANCE of one of the consumers that share connections, so that it does not wait for another's group."""

    consumer: int
    kind: str = "held"

    @property
    def value(self) -> str:
        """Name for logs."""
        return f"{Lane.REBALANCE.value} {self.consumer}"


class ShareLane(NamedTuple):
    """Share sessions of one of the consumers that share connections. Brokers bind a session to a connection."""

    consumer: int
    kind: str = "share"

    @property
    def value(self) -> str:
        """Name for logs."""
        return f"share sessions {self.consumer}"


class CoordinatorLane(NamedTuple):
    """COORDINATOR of one of the producers of a pipeline. A broker answers a connection's requests one by one, so it
    would wait for the end of other producers' transactions otherwise."""

    producer: int
    kind: str = "coordinator"

    @property
    def value(self) -> str:
        """Name for logs."""
        return f"{Lane.COORDINATOR.value} {self.producer}"


class ProduceLane(NamedTuple):
    """DATA of producers that share connections, and would wait long for each other on a single connection."""

    number: int
    kind: str = "produce"

    @property
    def value(self) -> str:
        """Name for logs."""
        return f"produce {self.number}"


AnyLane = Lane | FetchLane | HeldLane | ShareLane | CoordinatorLane | ProduceLane

COORDINATOR_IN_FLIGHT = 100
"""Maximum number of requests in flight to a coordinator, as in Java's consumer, unless the option is higher.

All members in a client use one connection, and a heartbeat must not wait for the answers of other requests, which take
long if the event loop is busy.
"""

HELD_IDLE_S = 1.0
"""Idle time after which a connection of a `HeldLane` closes: its next request is at the next rebalance."""

PRODUCE_IDLE_S = 10.0
"""Idle time after which a connection of a `ProduceLane` closes; it is used only while its broker is slow."""


class ConnectionSettings(NamedTuple):
    """Options that apply to a single connection."""

    client_id: str
    request_timeout_s: float
    max_idle_s: float
    max_in_flight: int
    receive_max_bytes: int

    def of(self, lane: AnyLane) -> ConnectionSettings:
        """Return the settings for a lane."""
        if isinstance(lane, HeldLane):
            return self._replace(max_idle_s=min(self.max_idle_s, HELD_IDLE_S))
        if isinstance(lane, ProduceLane):
            return self._replace(max_idle_s=min(self.max_idle_s, PRODUCE_IDLE_S))
        if lane is Lane.COORDINATOR or isinstance(lane, CoordinatorLane):
            return self._replace(max_in_flight=max(self.max_in_flight, COORDINATOR_IN_FLIGHT))
        return self

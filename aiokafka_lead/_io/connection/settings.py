"""Purposes and settings of connections."""

from __future__ import annotations

from enum import StrEnum

from ..._values import NamedTuple


class Lane(StrEnum):  # It is a str because its hash is fast, and each request looks up its connection by the lane.
    """The purpose of a connection.

    A node has a separate connection for each lane, so that no request waits behind a long poll.
    """

    DATA = "data"
    """Produce and Fetch."""
    BESIDE = "beside"
    """A Fetch that must not wait for the Fetch on DATA, which the broker may hold for a long time."""
    CONTROL = "control"
    """Metadata and all other requests."""
    COORDINATOR = "coordinator"
    """Requests of a group or a transaction to its coordinator."""
    REBALANCE = "rebalance"
    """JoinGroup and SyncGroup.

    The coordinator holds them until all members have joined, while commits continue on another lane.
    """


class FetchLane(NamedTuple):
    """The lane of fetches that are merged for consumers that share connections."""

    number: int
    """Number of this combination of options that affect fetches."""
    kind: str = "fetches"
    """Distinguishes this lane from lanes of other classes, which would otherwise be equal as tuples."""

    @property
    def value(self) -> str:
        """The lane's name in log messages."""
        return "merged fetches" if not self.number else f"merged fetches {self.number}"


class HeldLane(NamedTuple):
    """The lane REBALANCE of one of several consumers on shared connections.

    The coordinator holds a JoinGroup request until all members have joined. With its own connection, a consumer does
    not wait for the groups of the other consumers.
    """

    consumer: int
    kind: str = "held"

    @property
    def value(self) -> str:
        """The lane's name in log messages."""
        return f"{Lane.REBALANCE.value} {self.consumer}"


class ShareLane(NamedTuple):
    """The lane for the share sessions of one of several share consumers on shared connections.

    Each needs its own connections, because a broker binds a share session to a connection.
    """

    consumer: int
    kind: str = "share"

    @property
    def value(self) -> str:
        """The lane's name in log messages."""
        return f"share sessions {self.consumer}"


class CoordinatorLane(NamedTuple):
    """The lane COORDINATOR of one of several producers of a pipeline.

    A broker answers the requests on a connection in order. On a shared connection, they would wait for the end of other
    producers' transactions.
    """

    producer: int
    kind: str = "coordinator"

    @property
    def value(self) -> str:
        """The lane's name in log messages."""
        return f"{Lane.COORDINATOR.value} {self.producer}"


class ProduceLane(NamedTuple):
    """The lane DATA of one of several producers on shared connections, if they would wait long for each other."""

    number: int
    kind: str = "produce"

    @property
    def value(self) -> str:
        """The lane's name in log messages."""
        return f"produce {self.number}"


AnyLane = Lane | FetchLane | HeldLane | ShareLane | CoordinatorLane | ProduceLane

COORDINATOR_IN_FLIGHT = 100
"""Maximum number of requests in flight to a coordinator, as in Java's consumer, unless the option is higher.

All members in a client use one connection. A heartbeat must not wait for the responses to other requests, which may be
delayed by a busy event loop.
"""

HELD_IDLE_S = 1.0
"""Seconds without use after which a connection of a `HeldLane` closes. It is next needed at the next rebalance."""

PRODUCE_IDLE_S = 10.0
"""Seconds without use after which a connection of a `ProduceLane` closes. It is used only while its broker is slow."""


class ConnectionSettings(NamedTuple):
    """The options of a client that concern a single connection."""

    client_id: str
    request_timeout_s: float
    max_idle_s: float
    max_in_flight: int
    receive_max_bytes: int

    def of(self, lane: AnyLane) -> ConnectionSettings:
        """Return the settings for a connection of this lane."""
        if isinstance(lane, HeldLane):
            return self._replace(max_idle_s=min(self.max_idle_s, HELD_IDLE_S))
        if isinstance(lane, ProduceLane):
            return self._replace(max_idle_s=min(self.max_idle_s, PRODUCE_IDLE_S))
        if lane is Lane.COORDINATOR or isinstance(lane, CoordinatorLane):
            return self._replace(max_in_flight=max(self.max_in_flight, COORDINATOR_IN_FLIGHT))
        return self

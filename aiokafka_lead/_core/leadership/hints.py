"""Reads leader hints from Produce and Fetch responses, which contain them in the same form (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from uuid import UUID

from ..metadata.types import HINT_ERRORS, Broker, LeaderHint

FIRST_PRODUCE_WITH_HINTS = 10
"""First version of Produce whose responses name leaders."""

FIRST_FETCH_WITH_HINTS = 16
"""First version of Fetch whose responses contain ``NodeEndpoints``.

Earlier ones may name a leader without an address.
"""


class _CurrentLeader(Protocol):
    leader_id: int
    leader_epoch: int


class _NodeEndpoint(Protocol):
    node_id: int
    host: str
    port: int
    rack: str | None


class HintReader:
    """Collects the hints of one response. Call `read` for each partition that the broker has refused."""

    __slots__ = ("_addresses", "_endpoints", "hints", "tells_leaders")

    def __init__(self, tells_leaders: bool, endpoints: Iterable[_NodeEndpoint]) -> None:
        """Start without hints. ``tells_leaders`` is True if the response's version can contain hints."""
        self.tells_leaders = tells_leaders
        self.hints: list[LeaderHint] = []
        """The hints, in the order in which they were read."""
        self._endpoints = endpoints
        self._addresses: dict[int, Broker] | None = None
        """The endpoints by node id. Created on demand, because most responses contain no hint."""

    def read(self, topic: str, topic_id: UUID, partition: int, error_code: int, leader: _CurrentLeader) -> None:
        """Add what the broker says about the leader of one partition, if it is a hint (rule 1).

        ``topic_id`` is the id in the request (rule 5). ``leader`` is the partition's ``CurrentLeader``. If its leader
        id and epoch are -1, it is no hint.
        """
        if not self.tells_leaders or error_code not in HINT_ERRORS:
            return
        leader_id, leader_epoch = leader.leader_id, leader.leader_epoch
        if leader_id < 0 and leader_epoch < 0:
            return
        if self._addresses is None:
            self._addresses = {n.node_id: Broker(n.node_id, n.host, n.port, n.rack) for n in self._endpoints}
        endpoint = self._addresses.get(leader_id)
        self.hints.append(LeaderHint(topic, topic_id, partition, leader_id, leader_epoch, endpoint, error_code))

    def take(self, topic: str, topic_id: UUID, partition: int, error_code: int, leader: _CurrentLeader) -> None:
        """Call `read`, and remove the hint from the response.

        If several clients share the response, only one of them then merges the hint.
        """
        self.read(topic, topic_id, partition, error_code, leader)
        leader.leader_id = leader.leader_epoch = -1

"""Common to the APIs of leaders: the check of leadership, and the leader to name instead (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ...errors import FencedLeaderEpochError, NotLeaderOrFollowerError, UnknownLeaderEpochError
from .._server.context import RequestContext
from .._state.topics import NO_LEADER, Partition

E = TypeVar("E")


class NamedLeader(NamedTuple):
    """A leader named to a client, with its address: an empty host for no endpoint."""

    leader_id: int
    leader_epoch: int
    host: str
    port: int
    rack: str | None


def named_leader(context: RequestContext, partition: Partition) -> NamedLeader:
    """Return the leader in this broker's view; a fault may falsify it."""
    leader_id, epoch = partition.leader_known_to(context.node.node_id)
    endpoint: tuple[str, int] | tuple[()] | None = None
    lie = context.hint(partition.topic.name, partition.index)
    if lie is not None:
        leader_id = leader_id if lie.leader_id is None else lie.leader_id
        epoch = epoch if lie.leader_epoch is None else lie.leader_epoch
        endpoint = lie.endpoint
    if endpoint:
        return NamedLeader(leader_id, epoch, *endpoint, None)
    node = context.engine.state.nodes.get(leader_id)
    if endpoint == () or node is None or not node.registered:
        return NamedLeader(leader_id, epoch, "", -1, None)
    return NamedLeader(leader_id, epoch, node.host, node.port, node.rack)


class Endpoints:
    """The node endpoints of an answer: each leader named by its partitions, once."""

    def __init__(self) -> None:
        self._by_id: dict[int, NamedLeader] = {}

    def add(self, leader: NamedLeader) -> None:
        if leader.host and leader.leader_id != NO_LEADER:
            self._by_id.setdefault(leader.leader_id, leader)

    def build(self, make: Callable[..., E]) -> list[E]:
        return [
            make(node_id=leader.leader_id, host=leader.host, port=leader.port, rack=leader.rack)
            for leader in self._by_id.values()
        ]


def check_epoch(partition: Partition, client_epoch: int) -> None:
    """Compare the client's leader epoch with the partition's (KIP-320); -1 means none."""
    if client_epoch < 0 or client_epoch == partition.leader_epoch:
        return
    known = f"leader epoch {client_epoch}, the broker's is {partition.leader_epoch}"
    if client_epoch < partition.leader_epoch:
        raise FencedLeaderEpochError(f"the client has {known}")
    raise UnknownLeaderEpochError(f"the client has {known}")


def check_leader(context: RequestContext, partition: Partition, client_epoch: int) -> None:
    """Raise unless this broker leads the partition at the client's epoch (Java: ``Partition.getLocalLog``)."""
    node_id = context.node.node_id
    if node_id in partition.replicas:
        check_epoch(partition, client_epoch)
    if not partition.leads(node_id, context.engine.timers.now()):
        raise NotLeaderOrFollowerError(f"broker {node_id} does not lead {partition.topic.name}-{partition.index}")

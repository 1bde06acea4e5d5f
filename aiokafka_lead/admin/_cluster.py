"""The cluster as a whole."""

from __future__ import annotations

from .._io.deadline import Deadline
from .._wire.messages.describe_cluster import DescribeClusterRequest
from ..errors import UnsupportedVersionError
from ._calls import Calls, Route
from .types import BrokerDescription, ClusterDescription


async def describe(calls: Calls, include_fenced: bool, deadline: Deadline) -> ClusterDescription:
    """Id, controller and brokers. Brokers below Kafka 2.8 answer from Metadata, and know no fenced ones."""
    try:
        answer = await calls.call(Route.ANY, DescribeClusterRequest(include_fenced_brokers=include_fenced), deadline)
    except UnsupportedVersionError:
        if include_fenced:
            raise
    else:
        brokers = [BrokerDescription(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in answer.brokers]
        return ClusterDescription(answer.cluster_id, answer.controller_id, _in_order(brokers))
    metadata = await calls.metadata([], deadline)
    listed = [BrokerDescription(b.node_id, b.host, b.port, b.rack) for b in metadata.brokers]
    return ClusterDescription(metadata.cluster_id, metadata.controller_id, _in_order(listed))


def _in_order(brokers: list[BrokerDescription]) -> tuple[BrokerDescription, ...]:
    return tuple(sorted(brokers, key=lambda broker: broker.node_id))

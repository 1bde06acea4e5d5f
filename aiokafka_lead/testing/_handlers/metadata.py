"""Metadata, DescribeCluster and DescribeTopicPartitions: brokers, topics and leaders."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from uuid import UUID

from ... import errors
from ..._wire import ZERO_UUID
from ..._wire.messages import describe_topic_partitions as describe
from ..._wire.messages import metadata as wire
from ..._wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse
from .._server.context import RequestContext
from .._state.acls import CLUSTER_OPERATIONS, TOPIC_OPERATIONS
from .._state.cluster import MetadataView, check_topic_name
from .._state.topics import NO_LEADER, TopicView

_TOPIC_IDS_FROM = 10
_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def metadata(context: RequestContext, request: wire.MetadataRequest) -> wire.MetadataResponse:
    response = _metadata(context, request)
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    if request.include_topic_authorized_operations:
        for topic in response.topics:
            if not topic.error_code:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    return response


def _metadata(context: RequestContext, request: wire.MetadataRequest) -> wire.MetadataResponse:
    engine = context.engine
    stale = _stale_view(context)
    brokers = engine.state.broker_views() if stale is None else stale.brokers
    response = wire.MetadataResponse(
        cluster_id=engine.state.cluster_id,
        controller_id=engine.state.controller_id if stale is None else stale.controller_id,
        brokers=[
            wire.MetadataResponseBroker(node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack)
            for broker in brokers
        ],
    )
    # Null means all topics. Before version 1, the empty list means all topics.
    if request.topics is None or (context.api_version == 0 and not request.topics):
        views = (
            stale.topics.values() if stale is not None else map(engine.state.topic_view, engine.state.topics.values())
        )
        response.topics = [_topic(context, view) for view in views]
        return response
    for wanted in request.topics:
        by_id = context.api_version >= _TOPIC_IDS_FROM and wanted.topic_id != ZERO_UUID
        try:
            if by_id:
                view = _view_by_id(context, stale, wanted.topic_id)
            else:
                view = _view_by_name(context, stale, wanted.name or "", create=request.allow_auto_topic_creation)
        except errors.BrokerError as error:
            response.topics.append(
                wire.MetadataResponseTopic(
                    error_code=error.code,
                    name=None if by_id and context.api_version >= 12 else wanted.name or "",
                    topic_id=wanted.topic_id,
                )
            )
        else:
            response.topics.append(_topic(context, view))
    return response


def _stale_view(context: RequestContext) -> MetadataView | None:
    stale = context.engine.stale_metadata
    for entry in stale:
        if entry.broker in (None, context.node.node_id):
            entry.answers -= 1
            if entry.answers <= 0:
                stale.remove(entry)
            return entry.view
    return None


def _view_by_id(context: RequestContext, stale: MetadataView | None, topic_id: UUID) -> TopicView:
    if stale is not None:
        for view in stale.topics.values():
            if view.topic_id == topic_id:
                return view
        raise errors.UnknownTopicIdError(f"there is no topic with id {topic_id}")
    return context.engine.state.topic_view(context.engine.state.topic_by_id(topic_id))


def _view_by_name(context: RequestContext, stale: MetadataView | None, name: str, *, create: bool) -> TopicView:
    engine = context.engine
    if stale is not None:
        if name in stale.topics:
            return stale.topics[name]
        raise errors.UnknownTopicOrPartitionError(f"there is no topic {name!r}")
    topic = engine.state.topics.get(name)
    if topic is not None:
        return engine.state.topic_view(topic)
    check_topic_name(name)
    options = engine.options
    if create and options.auto_create_topics and (registered := len(engine.state.registered())):
        with suppress(
            errors.InvalidTopicError
        ):  # a real broker does not report that the name collides with another topic
            engine.state.create_topic(name, options.num_partitions, min(options.replication_factor, registered), {})
    # Like a real broker, include the new topic in the metadata only from the next request on.
    raise errors.UnknownTopicOrPartitionError(f"there is no topic {name!r}")


def _topic(context: RequestContext, view: TopicView) -> wire.MetadataResponseTopic:
    code = context.fault_code(view.name)
    if code:
        return wire.MetadataResponseTopic(error_code=code, name=view.name, topic_id=view.topic_id)
    partitions = []
    for part in view.partitions:
        partitions.append(
            wire.MetadataResponsePartition(
                error_code=errors.LeaderNotAvailableError.code if part.leader_id == NO_LEADER else 0,
                partition_index=part.number,
                leader_id=part.leader_id,
                leader_epoch=part.leader_epoch,
                replica_nodes=list(part.replicas),
                isr_nodes=list(part.isr),
                offline_replicas=list(part.offline),
            )
        )
    is_internal = view.name in _INTERNAL_TOPICS
    return wire.MetadataResponseTopic(
        name=view.name, topic_id=view.topic_id, is_internal=is_internal, partitions=partitions
    )


def describe_cluster(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    state = context.engine.state
    nodes = [node for node in state.nodes.values() if node.registered or request.include_fenced_brokers]
    response = DescribeClusterResponse(
        endpoint_type=request.endpoint_type,
        cluster_id=state.cluster_id,
        controller_id=state.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=not node.registered,
            )
            for node in nodes
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def describe_topic_partitions(
    context: RequestContext, request: describe.DescribeTopicPartitionsRequest
) -> describe.DescribeTopicPartitionsResponse:
    """Describe topics in the order of their names, with a limited number of partitions in one response (KIP-966)."""
    state = context.engine.state
    response = describe.DescribeTopicPartitionsResponse()
    cursor = request.cursor
    names: Iterable[str] = [topic.name for topic in request.topics] or state.topics
    left = request.response_partition_limit
    for name in sorted(names):
        if cursor is not None and name < cursor.topic_name:
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        topic = state.topics.get(name)
        error = errors.UnknownTopicOrPartitionError.code if topic is None else context.fault_code(name)
        if topic is None or error:
            response.topics.append(describe.DescribeTopicPartitionsResponseTopic(error_code=error, name=name))
            continue
        if left <= 0:
            response.next_cursor = describe.ResponseCursor(topic_name=name, partition_index=0)
            break
        views = state.topic_view(topic).partitions[first : first + left]
        left -= len(views)
        response.topics.append(
            describe.DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                topic_authorized_operations=TOPIC_OPERATIONS,
                partitions=[
                    describe.DescribeTopicPartitionsResponsePartition(
                        error_code=errors.LeaderNotAvailableError.code if view.leader_id == NO_LEADER else 0,
                        partition_index=view.number,
                        leader_id=view.leader_id,
                        leader_epoch=view.leader_epoch,
                        replica_nodes=list(view.replicas),
                        isr_nodes=list(view.isr),
                        eligible_leader_replicas=[],
                        last_known_elr=[],
                        offline_replicas=list(view.offline),
                    )
                    for view in views
                ],
            )
        )
        if first + len(views) < len(topic.partitions):
            response.next_cursor = describe.ResponseCursor(topic_name=name, partition_index=first + len(views))
            break
    return response


HANDLERS = {
    wire.MetadataRequest: metadata,
    DescribeClusterRequest: describe_cluster,
    describe.DescribeTopicPartitionsRequest: describe_topic_partitions,
}

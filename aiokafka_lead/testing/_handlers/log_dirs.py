"""DescribeLogDirs and AlterReplicaLogDirs: each broker has one log directory."""

from __future__ import annotations

from ..._wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ..._wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ...errors import BrokerError, LogDirNotFoundError, ReplicaNotAvailableError, raise_for_code
from .._server.context import RequestContext

_PATH = "/var/lib/kafka"


def describe_log_dirs(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    wanted = None if request.topics is None else {topic.topic: topic.partitions for topic in request.topics}
    found = DescribeLogDirsResult(log_dir=_PATH)
    for topic in context.engine.state.topics.values():
        partitions = [
            DescribeLogDirsPartition(partition_index=each.index, partition_size=each.log.size_bytes)
            for each in topic.partitions
            if context.node.node_id in each.replicas and (wanted is None or each.index in wanted.get(topic.name, ()))
        ]
        if partitions:
            found.topics.append(DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    return DescribeLogDirsResponse(results=[found])


def alter_replica_log_dirs(context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    response = AlterReplicaLogDirsResponse()
    for wanted in request.dirs:
        for topic in wanted.topics:
            result = AlterReplicaLogDirTopicResult(topic_name=topic.name)
            response.results.append(result)
            for index in topic.partitions:
                code = _refusal(context, wanted.path, topic.name, index)
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return response


def _refusal(context: RequestContext, path: str, topic: str, partition: int) -> int:
    try:
        raise_for_code(context.fault_code(topic, partition))
        if path != _PATH:
            raise LogDirNotFoundError(f"there is no log directory {path}")
        if context.node.node_id not in context.engine.state.partition(topic, partition).replicas:
            raise ReplicaNotAvailableError(f"broker {context.node.node_id} has no replica of {topic}-{partition}")
    except BrokerError as error:
        return error.code
    return 0


HANDLERS = {
    DescribeLogDirsRequest: describe_log_dirs,
    AlterReplicaLogDirsRequest: alter_replica_log_dirs,
}

"""Changes topics, partitions, leaders and replicas, deletes records, and describes the log directories."""

from __future__ import annotations

from ... import errors
from ..._wire import ZERO_UUID
from ..._wire.messages import alter_partition_reassignments as reassign
from ..._wire.messages import alter_replica_log_dirs as moving
from ..._wire.messages import create_partitions as growth
from ..._wire.messages import create_topics as creation
from ..._wire.messages import delete_records as deletion
from ..._wire.messages import describe_log_dirs as dirs
from ..._wire.messages import elect_leaders as election
from ..._wire.messages import list_partition_reassignments as listing
from ..._wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from .._server.context import RequestContext
from .._state.configs import TOPIC_CONFIGS, split_list
from .._state.topics import Partition, Topic
from .list_offsets import check_leader

_UNCLEAN = 1


def elect_leaders(context: RequestContext, request: election.ElectLeadersRequest) -> election.ElectLeadersResponse:
    state = context.engine.state
    everything = request.topic_partitions is None
    if request.topic_partitions is None:
        wanted = [(topic.name, [part.index for part in topic.partitions]) for topic in state.topics.values()]
    else:
        wanted = [(topic.topic, list(topic.partitions)) for topic in request.topic_partitions]
    response = election.ElectLeadersResponse()
    for name, indexes in wanted:
        topic_result = election.ReplicaElectionResult(topic=name)
        response.replica_election_results.append(topic_result)
        for index in indexes:
            result = election.PartitionResult(partition_id=index, error_message=None)
            try:
                partition = state.partition(name, index)
                if request.election_type == _UNCLEAN:
                    state.elect_unclean(partition)
                else:
                    state.elect_preferred(partition)
            except errors.ElectionNotNeededError as error:
                if everything:
                    continue
                result.error_code, result.error_message = error.code, error.message
            except errors.BrokerError as error:
                result.error_code, result.error_message = error.code, error.message
            topic_result.partition_result.append(result)
    return response


def alter_partition_reassignments(
    context: RequestContext, request: reassign.AlterPartitionReassignmentsRequest
) -> reassign.AlterPartitionReassignmentsResponse:
    response = reassign.AlterPartitionReassignmentsResponse(error_message=None)
    for topic in request.topics:
        topic_result = reassign.ReassignableTopicResponse(name=topic.name)
        response.responses.append(topic_result)
        for wanted in topic.partitions:
            result = reassign.ReassignablePartitionResponse(partition_index=wanted.partition_index, error_message=None)
            topic_result.partitions.append(result)
            try:
                _reassign(context, context.engine.state.partition(topic.name, wanted.partition_index), wanted)
            except errors.NoReassignmentInProgressError as error:
                result.error_code = error.code  # Kafka adds no text to this error
            except errors.BrokerError as error:
                result.error_code, result.error_message = error.code, error.message
    return response


def _reassign(context: RequestContext, partition: Partition, wanted: reassign.ReassignablePartition) -> None:
    state = context.engine.state
    if wanted.replicas is not None:
        state.reassign(partition, wanted.replicas)
    elif partition.adding or partition.removing:
        state.cancel_reassignment(partition)
    else:
        raise errors.NoReassignmentInProgressError("No partition reassignment is in progress.")


def list_partition_reassignments(
    context: RequestContext, request: listing.ListPartitionReassignmentsRequest
) -> listing.ListPartitionReassignmentsResponse:
    wanted = None if request.topics is None else {topic.name: topic.partition_indexes for topic in request.topics}
    response = listing.ListPartitionReassignmentsResponse()
    for topic in context.engine.state.topics.values():
        ongoing = [
            listing.OngoingPartitionReassignment(
                partition_index=part.index,
                replicas=list(part.replicas),
                adding_replicas=list(part.adding),
                removing_replicas=list(part.removing),
            )
            for part in topic.partitions
            if (part.adding or part.removing) and (wanted is None or part.index in wanted.get(topic.name, ()))
        ]
        if ongoing:
            response.topics.append(listing.OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return response


def delete_records(context: RequestContext, request: deletion.DeleteRecordsRequest) -> deletion.DeleteRecordsResponse:
    response = deletion.DeleteRecordsResponse()
    for topic in request.topics:
        topic_result = deletion.DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(topic_result)
        for wanted in topic.partitions:
            result = deletion.DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
            topic_result.partitions.append(result)
            try:
                errors.raise_for_code(context.fault_code(topic.name, wanted.partition_index))
                partition = context.engine.state.partition(topic.name, wanted.partition_index)
                check_leader(context, partition, -1)
                if "delete" not in split_list(partition.topic.configs.get("cleanup.policy")):
                    raise errors.PolicyViolationError(
                        f"topic {topic.name} has cleanup.policy=compact, so its records cannot be deleted"
                    )
                log = partition.log
                # -1 is the high watermark.
                log.delete_before(log.end_offset if wanted.offset == -1 else wanted.offset)
            except errors.BrokerError as error:
                result.error_code = error.code
            else:
                result.low_watermark = log.start_offset
                partition.notify()
    return response


_FROM_DEFAULT = 5
_FROM_TOPIC = 1


def create_topics(context: RequestContext, request: creation.CreateTopicsRequest) -> creation.CreateTopicsResponse:
    names = [topic.name for topic in request.topics]
    response = creation.CreateTopicsResponse()
    for wanted in {topic.name: topic for topic in request.topics}.values():
        result = creation.CreatableTopicResult(name=wanted.name, error_message=None)
        response.topics.append(result)
        try:
            errors.raise_for_code(context.fault_code(wanted.name))
            if names.count(wanted.name) > 1:
                raise errors.InvalidRequestError(f"the request names the topic {wanted.name} more than once")
            topic = _create(context, wanted, validate_only=request.validate_only)
        except errors.BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        if not request.validate_only:
            result.topic_id = topic.topic_id
        result.num_partitions = len(topic.partitions)
        result.replication_factor = len(topic.partitions[0].replicas)
        result.configs = [
            creation.CreatableTopicConfigs(
                name=name,
                value=topic.configs.get(name),
                config_source=_FROM_TOPIC if name in topic.configs.overrides else _FROM_DEFAULT,
            )
            for name in TOPIC_CONFIGS
        ]
    return response


def _create(context: RequestContext, wanted: creation.CreatableTopic, *, validate_only: bool) -> Topic:
    options = context.engine.options
    assignments = None
    if wanted.assignments:
        if wanted.num_partitions != -1 or wanted.replication_factor != -1:
            raise errors.InvalidRequestError("if there are assignments, partitions and replication factor must be -1")
        by_index = {assignment.partition_index: assignment.broker_ids for assignment in wanted.assignments}
        if sorted(by_index) != list(range(len(wanted.assignments))):
            raise errors.InvalidReplicaAssignmentError("assignments must have every partition from 0 on, without gaps")
        assignments = [by_index[index] for index in sorted(by_index)]
    return context.engine.state.create_topic(
        wanted.name,
        options.num_partitions if wanted.num_partitions == -1 else wanted.num_partitions,
        options.replication_factor if wanted.replication_factor == -1 else wanted.replication_factor,
        {config.name: config.value for config in wanted.configs if config.value is not None},
        assignments,
        validate_only=validate_only,
    )


def delete_topics(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    state = context.engine.state
    response = DeleteTopicsResponse()
    wanted = [(topic.name, topic.topic_id) for topic in request.topics]
    wanted += [(name, ZERO_UUID) for name in request.topic_names]
    for name, topic_id in wanted:
        result = DeletableTopicResult(name=name, topic_id=topic_id)
        response.responses.append(result)
        try:
            topic = state.topic(name) if name is not None else state.topic_by_id(topic_id)
            result.name, result.topic_id = topic.name, topic.topic_id
            errors.raise_for_code(context.fault_code(topic.name))
        except errors.BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        state.delete_topic(topic)
    return response


def create_partitions(
    context: RequestContext, request: growth.CreatePartitionsRequest
) -> growth.CreatePartitionsResponse:
    response = growth.CreatePartitionsResponse()
    for wanted in request.topics:
        result = growth.CreatePartitionsTopicResult(name=wanted.name)
        response.results.append(result)
        try:
            _add_partitions(context, wanted, validate_only=request.validate_only)
        except errors.UnknownTopicOrPartitionError as error:
            result.error_code = error.code  # Kafka adds no text to this error
        except errors.BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
    return response


def _add_partitions(context: RequestContext, wanted: growth.CreatePartitionsTopic, *, validate_only: bool) -> None:
    errors.raise_for_code(context.fault_code(wanted.name))
    state = context.engine.state
    assignments = None if wanted.assignments is None else [assignment.broker_ids for assignment in wanted.assignments]
    state.add_partitions(state.topic(wanted.name), wanted.count, assignments, validate_only=validate_only)


_PATH = "/var/lib/kafka"


def describe_log_dirs(context: RequestContext, request: dirs.DescribeLogDirsRequest) -> dirs.DescribeLogDirsResponse:
    wanted = None if request.topics is None else {topic.topic: topic.partitions for topic in request.topics}
    found = dirs.DescribeLogDirsResult(log_dir=_PATH)
    for topic in context.engine.state.topics.values():
        partitions = [
            dirs.DescribeLogDirsPartition(partition_index=each.index, partition_size=each.log.size_bytes)
            for each in topic.partitions
            if context.node.node_id in each.replicas and (wanted is None or each.index in wanted.get(topic.name, ()))
        ]
        if partitions:
            found.topics.append(dirs.DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    return dirs.DescribeLogDirsResponse(results=[found])


def alter_replica_log_dirs(
    context: RequestContext, request: moving.AlterReplicaLogDirsRequest
) -> moving.AlterReplicaLogDirsResponse:
    response = moving.AlterReplicaLogDirsResponse()
    for wanted in request.dirs:
        for topic in wanted.topics:
            result = moving.AlterReplicaLogDirTopicResult(topic_name=topic.name)
            response.results.append(result)
            for index in topic.partitions:
                code = _refusal(context, wanted.path, topic.name, index)
                result.partitions.append(
                    moving.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                )
    return response


def _refusal(context: RequestContext, path: str, topic: str, partition: int) -> int:
    try:
        errors.raise_for_code(context.fault_code(topic, partition))
        if path != _PATH:
            raise errors.LogDirNotFoundError(f"there is no log directory {path}")
        if context.node.node_id not in context.engine.state.partition(topic, partition).replicas:
            raise errors.ReplicaNotAvailableError(
                f"broker {context.node.node_id} has no replica of {topic}-{partition}"
            )
    except errors.BrokerError as error:
        return error.code
    return 0


HANDLERS = {
    creation.CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    growth.CreatePartitionsRequest: create_partitions,
    election.ElectLeadersRequest: elect_leaders,
    reassign.AlterPartitionReassignmentsRequest: alter_partition_reassignments,
    listing.ListPartitionReassignmentsRequest: list_partition_reassignments,
    deletion.DeleteRecordsRequest: delete_records,
    dirs.DescribeLogDirsRequest: describe_log_dirs,
    moving.AlterReplicaLogDirsRequest: alter_replica_log_dirs,
}

"""Creating and deleting topics and partitions, electing leaders, reassigning replicas, and deleting records."""

from __future__ import annotations

from ..._wire import ZERO_UUID
from ..._wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ..._wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ..._wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ..._wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ..._wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ..._wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ..._wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ...errors import (
    BrokerError,
    ElectionNotNeededError,
    InvalidReplicaAssignmentError,
    InvalidRequestError,
    NoReassignmentInProgressError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
    raise_for_code,
)
from .._server.context import RequestContext
from .._state.configs import TOPIC_CONFIGS, split_list
from .._state.topics import Partition, Topic
from .list_offsets import check_leader

_UNCLEAN = 1


def elect_leaders(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    state = context.engine.state
    everything = request.topic_partitions is None
    if request.topic_partitions is None:
        wanted = [(topic.name, [part.index for part in topic.partitions]) for topic in state.topics.values()]
    else:
        wanted = [(topic.topic, list(topic.partitions)) for topic in request.topic_partitions]
    response = ElectLeadersResponse()
    for name, indexes in wanted:
        topic_result = ReplicaElectionResult(topic=name)
        response.replica_election_results.append(topic_result)
        for index in indexes:
            result = PartitionResult(partition_id=index, error_message=None)
            try:
                partition = state.partition(name, index)
                if request.election_type == _UNCLEAN:
                    state.elect_unclean(partition)
                else:
                    state.elect_preferred(partition)
            except ElectionNotNeededError as error:
                if everything:
                    continue
                result.error_code, result.error_message = error.code, error.message
            except BrokerError as error:
                result.error_code, result.error_message = error.code, error.message
            topic_result.partition_result.append(result)
    return response


def alter_partition_reassignments(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    response = AlterPartitionReassignmentsResponse(error_message=None)
    for topic in request.topics:
        topic_result = ReassignableTopicResponse(name=topic.name)
        response.responses.append(topic_result)
        for wanted in topic.partitions:
            result = ReassignablePartitionResponse(partition_index=wanted.partition_index, error_message=None)
            topic_result.partitions.append(result)
            try:
                _reassign(context, context.engine.state.partition(topic.name, wanted.partition_index), wanted)
            except NoReassignmentInProgressError as error:
                result.error_code = error.code  # Kafka adds no text to this error
            except BrokerError as error:
                result.error_code, result.error_message = error.code, error.message
    return response


def _reassign(context: RequestContext, partition: Partition, wanted: ReassignablePartition) -> None:
    state = context.engine.state
    if wanted.replicas is not None:
        state.reassign(partition, wanted.replicas)
    elif partition.adding or partition.removing:
        state.cancel_reassignment(partition)
    else:
        raise NoReassignmentInProgressError("No partition reassignment is in progress.")


def list_partition_reassignments(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    wanted = None if request.topics is None else {topic.name: topic.partition_indexes for topic in request.topics}
    response = ListPartitionReassignmentsResponse()
    for topic in context.engine.state.topics.values():
        ongoing = [
            OngoingPartitionReassignment(
                partition_index=part.index,
                replicas=list(part.replicas),
                adding_replicas=list(part.adding),
                removing_replicas=list(part.removing),
            )
            for part in topic.partitions
            if (part.adding or part.removing) and (wanted is None or part.index in wanted.get(topic.name, ()))
        ]
        if ongoing:
            response.topics.append(OngoingTopicReassignment(name=topic.name, partitions=ongoing))
    return response


def delete_records(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        topic_result = DeleteRecordsTopicResult(name=topic.name)
        response.topics.append(topic_result)
        for wanted in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1)
            topic_result.partitions.append(result)
            try:
                raise_for_code(context.fault_code(topic.name, wanted.partition_index))
                partition = context.engine.state.partition(topic.name, wanted.partition_index)
                check_leader(context, partition, -1)
                if "delete" not in split_list(partition.topic.configs.get("cleanup.policy")):
                    raise PolicyViolationError(
                        f"topic {topic.name} has cleanup.policy=compact, so its records cannot be deleted"
                    )
                log = partition.log
                # -1 is the high watermark.
                log.delete_before(log.end_offset if wanted.offset == -1 else wanted.offset)
            except BrokerError as error:
                result.error_code = error.code
            else:
                result.low_watermark = log.start_offset
                partition.notify()
    return response


_FROM_DEFAULT = 5
_FROM_TOPIC = 1


def create_topics(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    names = [topic.name for topic in request.topics]
    response = CreateTopicsResponse()
    for wanted in {topic.name: topic for topic in request.topics}.values():
        result = CreatableTopicResult(name=wanted.name, error_message=None)
        response.topics.append(result)
        try:
            raise_for_code(context.fault_code(wanted.name))
            if names.count(wanted.name) > 1:
                raise InvalidRequestError(f"the request names the topic {wanted.name} more than once")
            topic = _create(context, wanted, validate_only=request.validate_only)
        except BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        if not request.validate_only:
            result.topic_id = topic.topic_id
        result.num_partitions = len(topic.partitions)
        result.replication_factor = len(topic.partitions[0].replicas)
        result.configs = [
            CreatableTopicConfigs(
                name=name,
                value=topic.configs.get(name),
                config_source=_FROM_TOPIC if name in topic.configs.overrides else _FROM_DEFAULT,
            )
            for name in TOPIC_CONFIGS
        ]
    return response


def _create(context: RequestContext, wanted: CreatableTopic, *, validate_only: bool) -> Topic:
    options = context.engine.options
    assignments = None
    if wanted.assignments:
        if wanted.num_partitions != -1 or wanted.replication_factor != -1:
            raise InvalidRequestError("if there are assignments, partitions and replication factor must be -1")
        by_index = {assignment.partition_index: assignment.broker_ids for assignment in wanted.assignments}
        if sorted(by_index) != list(range(len(wanted.assignments))):
            raise InvalidReplicaAssignmentError("assignments must have every partition from 0 on, without gaps")
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
            raise_for_code(context.fault_code(topic.name))
        except BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        state.delete_topic(topic)
    return response


def create_partitions(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    response = CreatePartitionsResponse()
    for wanted in request.topics:
        result = CreatePartitionsTopicResult(name=wanted.name)
        response.results.append(result)
        try:
            _add_partitions(context, wanted, validate_only=request.validate_only)
        except UnknownTopicOrPartitionError as error:
            result.error_code = error.code  # Kafka adds no text to this error
        except BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
    return response


def _add_partitions(context: RequestContext, wanted: CreatePartitionsTopic, *, validate_only: bool) -> None:
    raise_for_code(context.fault_code(wanted.name))
    state = context.engine.state
    assignments = None if wanted.assignments is None else [assignment.broker_ids for assignment in wanted.assignments]
    state.add_partitions(state.topic(wanted.name), wanted.count, assignments, validate_only=validate_only)


HANDLERS = {
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    CreatePartitionsRequest: create_partitions,
    ElectLeadersRequest: elect_leaders,
    AlterPartitionReassignmentsRequest: alter_partition_reassignments,
    ListPartitionReassignmentsRequest: list_partition_reassignments,
    DeleteRecordsRequest: delete_records,
}

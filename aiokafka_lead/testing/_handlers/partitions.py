"""ElectLeaders, reassignments (KIP-455) and DeleteRecords: operations on partitions."""

from __future__ import annotations

from ..._wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ..._wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
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
from ...errors import BrokerError, ElectionNotNeededError, NoReassignmentInProgressError, raise_for_code
from .._server.context import RequestContext
from .._state.topics import Partition
from .leaders import check_leader

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
                log = partition.log
                # -1 is the high watermark.
                log.delete_before(log.end_offset if wanted.offset == -1 else wanted.offset)
            except BrokerError as error:
                result.error_code = error.code
            else:
                result.low_watermark = log.start_offset
                partition.notify()
    return response


HANDLERS = {
    ElectLeadersRequest: elect_leaders,
    AlterPartitionReassignmentsRequest: alter_partition_reassignments,
    ListPartitionReassignmentsRequest: list_partition_reassignments,
    DeleteRecordsRequest: delete_records,
}

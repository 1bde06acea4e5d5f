"""`AIOKafkaAdminClient`, in a module of the same name as in aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from ..._io.admin_requests import Route
from ..._io.group.coordinators import CoordinatorKind, Coordinators
from ..._wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ..._wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ..._wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ..._wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ..._wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ..._wire.messages.describe_groups import DescribeGroupsRequest
from ..._wire.messages.list_groups import ListGroupsRequest
from ...admin import AdminClient
from ...errors import ConfigTypeError, GroupIdNotFoundError
from ...types import TopicPartition
from .._options import CLIENT, client_options
from ..client import Startable, client_of
from ..errors import for_code
from ..protocol.admin import (
    ALTERED_CONFIGS,
    CREATED_PARTITIONS,
    CREATED_TOPICS,
    DELETED_TOPICS,
    DESCRIBED_CONFIGS,
    DESCRIBED_GROUPS,
)
from ..protocol.api import Response, Rows
from ..protocol.metadata import MetadataRequest
from ..structs import OffsetAndMetadata
from ..util import __version__, deprecated
from .config_resource import ConfigResource, ConfigResourceType
from .new_partitions import NewPartitions
from .new_topic import NewTopic
from .records_to_delete import RecordsToDelete

__all__ = ["AIOKafkaAdminClient"]


class AIOKafkaAdminClient(Startable):
    """Admin client with the methods of aiokafka.

    They return the responses of brokers, in which errors are codes, and raise `KafkaError` if a request fails.
    """

    _native: AdminClient

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | list[str] = "localhost",
        client_id: str = "aiokafka-" + __version__,
        request_timeout_ms: int = 40_000,
        connections_max_idle_ms: int = 540_000,
        retry_backoff_ms: int = 100,
        metadata_max_age_ms: int = 300_000,
        security_protocol: str = "PLAINTEXT",
        ssl_context: Any = None,
        api_version: object = None,
        sasl_mechanism: str = "PLAIN",
        sasl_plain_username: str | None = None,
        sasl_plain_password: str | None = None,
        sasl_kerberos_service_name: str = "kafka",
        sasl_kerberos_domain_name: str | None = None,
        sasl_oauth_token_provider: Any = None,
    ) -> None:
        """Check the options, without connecting. Raises ValueError or TypeError for an invalid option."""
        given = {name: value for name, value in locals().items() if name in CLIENT}
        deprecated(loop, api_version)
        self._request_timeout_ms = request_timeout_ms
        self._made_with = (bootstrap_servers, client_options(given))
        self._starting = asyncio.Lock()
        self._renew()
        self._closed = False

    def _renew(self) -> None:
        bootstrap_servers, options = self._made_with
        self._native = AdminClient(bootstrap_servers, **options, default_api_timeout_ms=options["request_timeout_ms"])
        self._client = client_of(self._native._client, bootstrap_servers, options.get("ssl_context"))
        self._coordinators = Coordinators(self._native._client)

    async def start(self) -> None:
        """Connect to the cluster. May be called again, even after a failure or after `close`."""
        await self._start_native()

    async def close(self) -> None:
        """Close all connections. May be called again."""
        if not self._closed:
            await self._native.stop()
            self._closed = True

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _ask(self, to: Route | int, request: Any, form: Rows, timeout_ms: float | None = None) -> Response:
        calls = self._native._calls
        return Response(form, await calls.call(to, request, calls.deadline(timeout_ms or None)))

    # --- topics -------------------------------------------------------------------------------------------------------

    async def create_topics(
        self, new_topics: list[NewTopic], timeout_ms: int | None = None, validate_only: bool = False
    ) -> Response:
        """Create topics. The response's ``topic_errors`` has (topic, code, message) for each topic."""
        wanted = [
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
                    for partition, replicas in topic.replica_assignments.items()
                ],
                configs=[CreatableTopicConfig(name=name, value=_text(of)) for name, of in topic.topic_configs.items()],
            )
            for topic in new_topics
        ]
        request = CreateTopicsRequest(topics=wanted, validate_only=validate_only)
        return await self._ask(Route.CONTROLLER, request, CREATED_TOPICS, timeout_ms)

    async def delete_topics(self, topics: list[str], timeout_ms: int | None = None) -> Response:
        """Delete topics. The response's ``topic_error_codes`` has (topic, code) for each topic."""
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in topics], topic_names=list(topics))
        return await self._ask(Route.CONTROLLER, request, DELETED_TOPICS, timeout_ms)

    async def create_partitions(
        self, topic_partitions: Mapping[str, NewPartitions], timeout_ms: int | None = None, validate_only: bool = False
    ) -> Response:
        """Add partitions to topics. Raises the error of the first topic that the cluster rejects."""
        wanted = [
            CreatePartitionsTopic(
                name=name,
                count=new.total_count,
                assignments=None
                if new.new_assignments is None
                else [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in new.new_assignments],
            )
            for name, new in topic_partitions.items()
        ]
        request = CreatePartitionsRequest(topics=wanted, validate_only=validate_only)
        response = await self._ask(Route.CONTROLLER, request, CREATED_PARTITIONS, timeout_ms)
        for topic, code, message in response.topic_errors:
            if code:
                raise for_code(code)(f"Could not create partitions for {topic}: {message}")
        return response

    async def _get_cluster_metadata(self, topics: list[str] | None = None) -> Response:
        request = MetadataRequest(topics)
        return await self._ask(Route.ANY, request.native(), request.answer)

    async def list_topics(self) -> list[str]:
        """Return the names of all topics."""
        return [topic["topic"] for topic in await self.describe_topics()]

    async def describe_topics(self, topics: list[str] | None = None) -> list[dict[str, Any]]:
        """Return these topics, or all topics, as dicts with their partitions."""
        described: list[dict[str, Any]] = (await self._get_cluster_metadata(topics)).to_object()["topics"]
        return described

    async def describe_cluster(self) -> dict[str, Any]:
        """Return a dict with the brokers, the cluster id and the controller's id."""
        found = (await self._get_cluster_metadata([])).to_object()
        del found["topics"]
        return found

    # --- configurations -----------------------------------------------------------------------------------------------

    async def describe_configs(
        self, config_resources: list[ConfigResource], include_synonyms: bool = False
    ) -> list[Response]:
        """Return the configurations of topics and brokers: one response for each broker, and one for all topics."""
        by_broker, topics = _by_node(config_resources)
        asked = [
            self._ask(to, DescribeConfigsRequest(resources=some, include_synonyms=include_synonyms), DESCRIBED_CONFIGS)
            for to, some in (
                *((node_id, [_described(one) for one in some]) for node_id, some in by_broker.items()),
                *([(Route.ANY, [_described(one) for one in topics])] if topics else ()),
            )
        ]
        return await asyncio.gather(*asked)

    async def alter_configs(self, config_resources: list[ConfigResource]) -> list[Response]:
        """Set the configurations of topics and brokers. All other configurations are reset to their defaults.

        The first response is for the topics, even if there are none; the others are for brokers.
        """
        by_broker, topics = _by_node(config_resources)
        to_alter: list[tuple[Route | int, list[ConfigResource]]] = [(Route.ANY, topics), *by_broker.items()]
        asked = [
            self._ask(to, AlterConfigsRequest(resources=[_altered(one) for one in some]), ALTERED_CONFIGS)
            for to, some in to_alter
        ]
        return await asyncio.gather(*asked)

    # --- groups -------------------------------------------------------------------------------------------------------

    async def find_coordinator(self, group_id: str, coordinator_type: int = 0) -> int:
        """Return the id of the coordinator of a group (type 0) or of a transactional id (type 1)."""
        calls = self._native._calls
        kind = CoordinatorKind(coordinator_type)
        return (await self._coordinators.connection(kind, group_id, calls.deadline(None))).node_id

    async def describe_consumer_groups(
        self,
        group_ids: list[str],
        group_coordinator_id: int | None = None,
        include_authorized_operations: bool = False,
    ) -> list[Response]:
        """Return groups with their members, in one response for each coordinator.

        As in aiokafka, a group that does not exist has the state ``Dead`` and no error code, and
        ``include_authorized_operations`` has no effect on the response.
        """
        by_node: dict[int, list[str]] = {}
        for group_id in group_ids:
            node_id = group_coordinator_id
            if node_id is None:
                node_id = await self.find_coordinator(group_id)
            by_node.setdefault(node_id, []).append(group_id)
        calls = self._native._calls

        async def described(node_id: int, some: list[str]) -> Response:
            request = DescribeGroupsRequest(groups=some, include_authorized_operations=include_authorized_operations)
            answer = await calls.call(node_id, request, calls.deadline(None))
            for group in answer.groups:
                if group.error_code == GroupIdNotFoundError.code:  # set since version 6, which aiokafka does not use
                    group.error_code = 0
            return Response(DESCRIBED_GROUPS, answer)

        return await asyncio.gather(*(described(node_id, some) for node_id, some in by_node.items()))

    async def list_consumer_groups(self, broker_ids: list[int] | None = None) -> list[tuple[str, str]]:
        """Return (group, protocol type) for all groups, or for the groups that these brokers coordinate."""
        if broker_ids is None:
            broker_ids = [broker["node_id"] for broker in (await self.describe_cluster())["brokers"]]
        calls = self._native._calls
        found: set[tuple[str, str]] = set()
        for broker_id in broker_ids:
            answer = await calls.call(broker_id, ListGroupsRequest(), calls.deadline(None))
            found.update((group.group_id, group.protocol_type) for group in answer.groups)
        return list(found)

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group, by default for all partitions. The offset is -1 if there is none.

        ``group_coordinator_id`` has no effect, because the coordinator is always looked up.
        """
        found = await self._native.list_consumer_group_offsets(group_id, partitions)
        return {
            tp: OffsetAndMetadata(-1, "") if one is None else OffsetAndMetadata(one.offset, one.metadata)
            for tp, one in found.items()
        }

    async def delete_records(
        self, records_to_delete: Mapping[TopicPartition, RecordsToDelete], timeout_ms: int | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset in each partition. Returns the first remaining offset of each."""
        before = {tp: records.before_offset for tp, records in records_to_delete.items()}
        return await self._native.delete_records(before, timeout_ms=timeout_ms or None)


def _by_node(resources: list[ConfigResource]) -> tuple[dict[int, list[ConfigResource]], list[ConfigResource]]:
    """Return the resources of brokers by broker id, and all other resources."""
    brokers: dict[int, list[ConfigResource]] = {}
    others: list[ConfigResource] = []
    for resource in resources:
        if resource.resource_type is ConfigResourceType.BROKER:
            brokers.setdefault(int(resource.name), []).append(resource)
        else:
            others.append(resource)
    return brokers, others


def _described(resource: ConfigResource) -> DescribeConfigsResource:
    names = list(resource.configs) if resource.configs else None
    return DescribeConfigsResource(
        resource_type=int(resource.resource_type), resource_name=str(resource.name), configuration_keys=names
    )


def _altered(resource: ConfigResource) -> AlterConfigsResource:
    if resource.configs is None:
        raise ConfigTypeError(f"pass the configs to set for {resource.name!r}: all others are reset to their defaults")
    configs = [AlterableConfig(name=name, value=_text(value)) for name, value in resource.configs.items()]
    return AlterConfigsResource(
        resource_type=int(resource.resource_type), resource_name=str(resource.name), configs=configs
    )


def _text(value: object) -> str | None:
    """Return the value of a configuration as text. Programs may pass numbers."""
    return None if value is None else str(value)

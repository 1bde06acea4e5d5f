"""Metadata (API key 3), versions 0-13.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class MetadataRequestTopic(Struct):
    __slots__ = ("topic_id", "name")
    FIELDS = (
        "topic_id uuid 10+ ignorable",
        "name string 0+ null 10+",
    )

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        name: str | None = "",
    ) -> None:
        self.topic_id: UUID = topic_id
        self.name: str | None = name


class MetadataResponseBroker(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    FIELDS = (
        "node_id int32 0+",
        "host string 0+",
        "port int32 0+",
        "rack string 1+ null 1+ = null ignorable",
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.rack: str | None = rack


class MetadataResponsePartition(Struct):
    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
    )
    FIELDS = (
        "error_code int16 0+",
        "partition_index int32 0+",
        "leader_id int32 0+",
        "leader_epoch int32 7+ = -1 ignorable",
        "replica_nodes []int32 0+",
        "isr_nodes []int32 0+",
        "offline_replicas []int32 5+ ignorable",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = DEFAULT,
        isr_nodes: list[int] = DEFAULT,
        offline_replicas: list[int] = DEFAULT,
    ) -> None:
        self.error_code: int = error_code
        self.partition_index: int = partition_index
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is DEFAULT else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is DEFAULT else isr_nodes
        self.offline_replicas: list[int] = [] if offline_replicas is DEFAULT else offline_replicas


class MetadataResponseTopic(Struct):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    FIELDS = (
        "error_code int16 0+",
        "name string 0+ null 12+",
        "topic_id uuid 10+ ignorable",
        "is_internal bool 1+ = false ignorable",
        "partitions []MetadataResponsePartition 0+",
        "topic_authorized_operations int32 8+ = -2147483648",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: UUID = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] = DEFAULT,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code: int = error_code
        self.name: str | None = name
        self.topic_id: UUID = topic_id
        self.is_internal: bool = is_internal
        self.partitions: list[MetadataResponsePartition] = [] if partitions is DEFAULT else partitions
        self.topic_authorized_operations: int = topic_authorized_operations


class MetadataResponse(Response):
    __slots__ = (
        "throttle_time_ms",
        "brokers",
        "cluster_id",
        "controller_id",
        "topics",
        "cluster_authorized_operations",
        "error_code",
    )
    FIELDS = (
        "throttle_time_ms int32 3+ ignorable",
        "brokers []MetadataResponseBroker 0+",
        "cluster_id string 2+ null 2+ = null ignorable",
        "controller_id int32 1+ = -1 ignorable",
        "topics []MetadataResponseTopic 0+",
        "cluster_authorized_operations int32 8-10 = -2147483648",
        "error_code int16 13+ ignorable",
    )
    NAME = "Metadata"
    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] = DEFAULT,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] = DEFAULT,
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.brokers: list[MetadataResponseBroker] = [] if brokers is DEFAULT else brokers
        self.cluster_id: str | None = cluster_id
        self.controller_id: int = controller_id
        self.topics: list[MetadataResponseTopic] = [] if topics is DEFAULT else topics
        self.cluster_authorized_operations: int = cluster_authorized_operations
        self.error_code: int = error_code


class MetadataRequest(Request[MetadataResponse]):
    __slots__ = (
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )
    FIELDS = (
        "topics []MetadataRequestTopic 0+ null 1+",
        "allow_auto_topic_creation bool 4+ = true",
        "include_cluster_authorized_operations bool 8-10",
        "include_topic_authorized_operations bool 8+",
    )
    NAME = "Metadata"
    API_KEY = 3
    MIN_VERSION = 0
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9
    RESPONSE = MetadataResponse

    def __init__(
        self,
        *,
        topics: list[MetadataRequestTopic] | None = DEFAULT,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics: list[MetadataRequestTopic] | None = [] if topics is DEFAULT else topics
        self.allow_auto_topic_creation: bool = allow_auto_topic_creation
        self.include_cluster_authorized_operations: bool = include_cluster_authorized_operations
        self.include_topic_authorized_operations: bool = include_topic_authorized_operations

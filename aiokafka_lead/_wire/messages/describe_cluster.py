"""DescribeCluster (API key 60), versions 0-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class DescribeClusterBroker(Struct):
    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced")
    FIELDS = (
        "broker_id int32 0+",
        "host string 0+",
        "port int32 0+",
        "rack string 0+ null 0+ = null",
        "is_fenced bool 2+",
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id: int = broker_id
        self.host: str = host
        self.port: int = port
        self.rack: str | None = rack
        self.is_fenced: bool = is_fenced


class DescribeClusterResponse(Response):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "endpoint_type",
        "cluster_id",
        "controller_id",
        "brokers",
        "cluster_authorized_operations",
    )
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "endpoint_type int8 1+ = 1",
        "cluster_id string 0+",
        "controller_id int32 0+ = -1",
        "brokers []DescribeClusterBroker 0+",
        "cluster_authorized_operations int32 0+ = -2147483648",
    )
    NAME = "DescribeCluster"
    API_KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterBroker] = DEFAULT,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.endpoint_type: int = endpoint_type
        self.cluster_id: str = cluster_id
        self.controller_id: int = controller_id
        self.brokers: list[DescribeClusterBroker] = [] if brokers is DEFAULT else brokers
        self.cluster_authorized_operations: int = cluster_authorized_operations


class DescribeClusterRequest(Request[DescribeClusterResponse]):
    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")
    FIELDS = (
        "include_cluster_authorized_operations bool 0+",
        "endpoint_type int8 1+ = 1",
        "include_fenced_brokers bool 2+",
    )
    NAME = "DescribeCluster"
    API_KEY = 60
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeClusterResponse

    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations: bool = include_cluster_authorized_operations
        self.endpoint_type: int = endpoint_type
        self.include_fenced_brokers: bool = include_fenced_brokers

"""ApiVersions (API key 18), versions 0-5.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class ApiVersion(Struct):
    __slots__ = ("api_key", "min_version", "max_version")
    FIELDS = (
        "api_key int16 0+",
        "min_version int16 0+",
        "max_version int16 0+",
    )

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key: int = api_key
        self.min_version: int = min_version
        self.max_version: int = max_version


class SupportedFeatureKey(Struct):
    __slots__ = ("name", "min_version", "max_version")
    FIELDS = (
        "name string 3+",
        "min_version int16 3+",
        "max_version int16 3+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name: str = name
        self.min_version: int = min_version
        self.max_version: int = max_version


class FinalizedFeatureKey(Struct):
    __slots__ = ("name", "max_version_level", "min_version_level")
    FIELDS = (
        "name string 3+",
        "max_version_level int16 3+",
        "min_version_level int16 3+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name: str = name
        self.max_version_level: int = max_version_level
        self.min_version_level: int = min_version_level


class ApiVersionsResponse(Response):
    __slots__ = (
        "error_code",
        "api_keys",
        "throttle_time_ms",
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
    )
    FIELDS = (
        "error_code int16 0+",
        "api_keys []ApiVersion 0+",
        "throttle_time_ms int32 1+ ignorable",
        "supported_features []SupportedFeatureKey 3+ tag 0 ignorable",
        "finalized_features_epoch int64 3+ tag 1 = -1 ignorable",
        "finalized_features []FinalizedFeatureKey 3+ tag 2 ignorable",
        "zk_migration_ready bool 3+ tag 3 = false ignorable",
    )
    NAME = "ApiVersions"
    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersion] = DEFAULT,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] = DEFAULT,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] = DEFAULT,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code: int = error_code
        self.api_keys: list[ApiVersion] = [] if api_keys is DEFAULT else api_keys
        self.throttle_time_ms: int = throttle_time_ms
        self.supported_features: list[SupportedFeatureKey] = [] if supported_features is DEFAULT else supported_features
        self.finalized_features_epoch: int = finalized_features_epoch
        self.finalized_features: list[FinalizedFeatureKey] = [] if finalized_features is DEFAULT else finalized_features
        self.zk_migration_ready: bool = zk_migration_ready


class ApiVersionsRequest(Request[ApiVersionsResponse]):
    __slots__ = ("client_software_name", "client_software_version", "cluster_id", "node_id")
    FIELDS = (
        "client_software_name string 3+ ignorable",
        "client_software_version string 3+ ignorable",
        "cluster_id string 5+ null 5+ = null ignorable",
        "node_id int32 5+ = -1 ignorable",
    )
    NAME = "ApiVersions"
    API_KEY = 18
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3
    RESPONSE = ApiVersionsResponse

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
        cluster_id: str | None = None,
        node_id: int = -1,
    ) -> None:
        self.client_software_name: str = client_software_name
        self.client_software_version: str = client_software_version
        self.cluster_id: str | None = cluster_id
        self.node_id: int = node_id

"""UpdateFeatures (API key 57), versions 0-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class FeatureUpdateKey(Struct):
    __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type")
    FIELDS = (
        "feature string 0+",
        "max_version_level int16 0+",
        "allow_downgrade bool 0",
        "upgrade_type int8 1+ = 1",
    )

    def __init__(
        self,
        *,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
    ) -> None:
        self.feature: str = feature
        self.max_version_level: int = max_version_level
        self.allow_downgrade: bool = allow_downgrade
        self.upgrade_type: int = upgrade_type


class UpdatableFeatureResult(Struct):
    __slots__ = ("feature", "error_code", "error_message")
    FIELDS = (
        "feature string 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.feature: str = feature
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class UpdateFeaturesResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "results []UpdatableFeatureResult 0-1 ignorable",
    )
    NAME = "UpdateFeatures"
    API_KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdatableFeatureResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.results: list[UpdatableFeatureResult] = [] if results is DEFAULT else results


class UpdateFeaturesRequest(Request[UpdateFeaturesResponse]):
    __slots__ = ("timeout_ms", "feature_updates", "validate_only")
    FIELDS = (
        "timeout_ms int32 0+ = 60000",
        "feature_updates []FeatureUpdateKey 0+",
        "validate_only bool 1+ = false",
    )
    NAME = "UpdateFeatures"
    API_KEY = 57
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0
    RESPONSE = UpdateFeaturesResponse

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: list[FeatureUpdateKey] = DEFAULT,
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms: int = timeout_ms
        self.feature_updates: list[FeatureUpdateKey] = [] if feature_updates is DEFAULT else feature_updates
        self.validate_only: bool = validate_only

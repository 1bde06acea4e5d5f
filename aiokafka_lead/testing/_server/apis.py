"""The APIs and versions that the embedded brokers serve."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ..._wire import ApiKey, Request, RequestFrame, Response, request_class
from ..._wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey
from ...errors import UnsupportedVersionError
from .._state.configs import Features
from ..faults import set_errors
from ..request_log import api_key_of

_PRODUCE_MIN_ADVERTISED = 0
"""Lowest version of Produce in ApiVersions. Kafka 4 serves Produce from version 3 on, but advertises version 0, because
librdkafka requires it (KAFKA-18659).
"""

_ZERO_LEVELS_FROM = 4
"""First version of ApiVersions that lists features whose lowest level is 0, which old clients refuse (KAFKA-17011)."""


class Apis:
    """The APIs that the brokers serve, with the lowest and the highest version of each.

    ``max_versions`` limits APIs, given by name, number or request class, to imitate older brokers. -1 removes an API.
    """

    def __init__(
        self,
        api_keys: Collection[int],
        features: Features,
        *,
        sasl: bool,
        telemetry: bool,
    ) -> None:
        self.telemetry = telemetry
        absent = set() if sasl else {ApiKey.SASL_AUTHENTICATE}
        if not telemetry:
            absent |= {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
        self._served = frozenset(api_keys) - absent
        self.features = features
        self.max_versions: dict[str | int | type[Request[Any]], int] = {}

    def range(self, api_key: int) -> tuple[int, int]:
        """Return the lowest and the highest version of an API.

        If the API is not served, the lowest version is above the highest.
        """
        if api_key not in self._served:
            return 0, -1
        request = request_class(api_key)
        cap = request.MAX_VERSION
        for api, version in self.max_versions.items():
            if api_key_of(api) == api_key:
                cap = min(cap, version)
        return request.MIN_VERSION, cap

    def accepts(self, api_key: int, version: int) -> bool:
        if not self.max_versions:
            return api_key in self._served
        low, high = self.range(api_key)
        return low <= version <= high

    def versions(self) -> Iterable[ApiVersion]:
        for api_key in sorted(self._served):
            low, high = self.range(api_key)
            if low <= high:
                low = _PRODUCE_MIN_ADVERTISED if api_key == ApiKey.PRODUCE else low
                yield ApiVersion(api_key=api_key, min_version=low, max_version=high)

    def answer(self, version: int) -> ApiVersionsResponse:
        """Return the response to ApiVersions in this version."""
        features = self.features
        return ApiVersionsResponse(
            api_keys=list(self.versions()),
            supported_features=[
                SupportedFeatureKey(name=name, min_version=low, max_version=high)
                for name, (low, high) in features.supported.items()
                if low > 0 or version >= _ZERO_LEVELS_FROM
            ],
            finalized_features_epoch=features.epoch,
            finalized_features=[
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in features.finalized.items()
            ],
        )

    def unsupported_answer(self) -> ApiVersionsResponse:
        """Return the response to ApiVersions in version 0, for a request in an unknown version (KIP-511)."""
        return ApiVersionsResponse(error_code=UnsupportedVersionError.code, api_keys=list(self.versions()))

    @staticmethod
    def error_answer(frame: RequestFrame, code: int) -> Response:
        """Return a response that only reports an error for the whole request."""
        response: Response = frame.request.RESPONSE()
        set_errors(response, code, None, None)
        return response

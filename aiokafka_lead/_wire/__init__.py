"""Kafka's protocol: messages, their codecs, frames, and the negotiation of versions.

The classes of each API are in their own module, ``aiokafka_lead._wire.messages.<api>``. Callers import that module
directly, and this package does not. The broker's side is imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..errors import UnsupportedVersionError
from .codec import decode, element_decoder, encode, make_codecs, stepwise_decoder
from .framing import decode_answer, decode_response, decode_response_in_steps, encode_request, peek_correlation_id
from .message import ZERO_UUID, Buffer, Message, Records, Request, Response, Struct

if TYPE_CHECKING:
    from .api_key import ApiKey
    from .messages.api_versions import ApiVersionsResponse
    from .server import (
        RequestFrame,
        RequestHeader,
        UnsupportedRequestError,
        decode_request,
        decode_request_header,
        encode_response,
        request_class,
    )


class ApiVersions:
    """The API versions and features of a broker; immutable.

    ``ranges`` maps the number of an API to the lowest and the highest version that the broker accepts.
    ``finalized_features`` maps a feature of the cluster (such as ``metadata.version`` or ``transaction.version``) to
    its level (KIP-584). ``finalized_features_epoch`` is -1 if the broker did not report them.
    """

    __slots__ = ("_chosen", "_ranges", "finalized_features", "finalized_features_epoch")

    def __init__(
        self,
        ranges: Mapping[int, tuple[int, int]],
        *,
        finalized_features: Mapping[str, int] | None = None,
        finalized_features_epoch: int = -1,
    ) -> None:
        self._ranges = dict(ranges)
        self._chosen: dict[tuple[type[Request[Any]], int | None, int | None], int] = {}
        self.finalized_features: Mapping[str, int] = MappingProxyType(dict(finalized_features or {}))
        self.finalized_features_epoch = finalized_features_epoch

    @staticmethod
    def from_response(response: ApiVersionsResponse) -> ApiVersions:
        """Return the API versions and features in a broker's response, which must not contain an error."""
        return _of_release(
            tuple((api.api_key, api.min_version, api.max_version) for api in response.api_keys),
            tuple((feature.name, feature.max_version_level) for feature in response.finalized_features),
            response.finalized_features_epoch,
        )

    @property
    def ranges(self) -> Mapping[int, tuple[int, int]]:
        return MappingProxyType(self._ranges)

    def version_for(
        self, request_cls: type[Request[Any]], *, lowest: int | None = None, highest: int | None = None
    ) -> int:
        """Return the highest version that both sides support, within ``lowest`` and ``highest`` if they are given.

        Raises `UnsupportedVersionError`, whose message names the API and both ranges.
        """
        key = (request_cls, lowest, highest)
        chosen = self._chosen.get(key)
        if chosen is None:
            chosen = self._chosen[key] = self._choose(request_cls, lowest, highest)
        return chosen

    def supports(self, request_cls: type[Request[Any]], version: int | None = None) -> bool:
        """Return True if both sides support ``version`` or, without it, if they have any version in common."""
        if version is None:
            return self._overlap(request_cls) is not None
        theirs = self._ranges.get(request_cls.API_KEY, (1, 0))
        return theirs[0] <= version <= theirs[1] and request_cls.MIN_VERSION <= version <= request_cls.MAX_VERSION

    def _overlap(self, request_cls: type[Request[Any]]) -> tuple[int, int] | None:
        theirs = self._ranges.get(request_cls.API_KEY)
        if theirs is None:
            return None
        low, high = max(theirs[0], request_cls.MIN_VERSION), min(theirs[1], request_cls.MAX_VERSION)
        return (low, high) if low <= high else None

    def _choose(self, request_cls: type[Request[Any]], lowest: int | None, highest: int | None) -> int:
        low = request_cls.MIN_VERSION if lowest is None else max(lowest, request_cls.MIN_VERSION)
        high = request_cls.MAX_VERSION if highest is None else min(highest, request_cls.MAX_VERSION)
        theirs = self._ranges.get(request_cls.API_KEY)
        if theirs is None:
            raise UnsupportedVersionError(
                f"The broker does not support {request_cls.NAME}; this client needs version {low} to {high}."
            )
        version = min(high, theirs[1])
        if version < max(low, theirs[0]):
            raise UnsupportedVersionError(
                f"The broker supports {request_cls.NAME} in versions {theirs[0]} to {theirs[1]};"
                f" this client needs version {low} to {high}."
            )
        return version

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ApiVersions):
            return NotImplemented
        return (self._ranges, self.finalized_features) == (other._ranges, other.finalized_features)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ApiVersions({self._ranges!r}, finalized_features={dict(self.finalized_features)!r})"


@lru_cache(maxsize=16)
def _of_release(
    apis: tuple[tuple[int, int, int], ...], features: tuple[tuple[str, int], ...], features_epoch: int
) -> ApiVersions:
    """Return the same object for all brokers of the same release, because each takes 10 KB."""
    ranges = {key: (lowest, highest) for key, lowest, highest in apis}
    return ApiVersions(ranges, finalized_features=dict(features), finalized_features_epoch=features_epoch)


__all__ = [
    "ZERO_UUID",
    "ApiKey",
    "ApiVersions",
    "Buffer",
    "Message",
    "Records",
    "Request",
    "RequestFrame",
    "RequestHeader",
    "Response",
    "Struct",
    "UnsupportedRequestError",
    "decode",
    "decode_answer",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "decode_response_in_steps",
    "element_decoder",
    "encode",
    "encode_request",
    "encode_response",
    "make_codecs",
    "peek_correlation_id",
    "request_class",
    "stepwise_decoder",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(".api_key" if name == "ApiKey" else ".server", __name__), name)
    return value

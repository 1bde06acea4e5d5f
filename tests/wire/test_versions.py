"""Choice of a request's version from the broker's range."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._wire import ApiVersions, codec, decode, encode
from aiokafka_lead._wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from aiokafka_lead._wire.messages.fetch import FetchRequest
from aiokafka_lead._wire.messages.metadata import MetadataRequest
from aiokafka_lead._wire.messages.produce import ProduceRequest
from aiokafka_lead.errors import UnsupportedVersionError


def test_the_highest_that_both_know() -> None:
    versions = ApiVersions({0: (0, 9), 1: (12, 99)})
    assert versions.version_for(ProduceRequest) == 9
    assert versions.version_for(FetchRequest) == FetchRequest.MAX_VERSION
    assert versions.version_for(FetchRequest, highest=13) == 13
    assert versions.version_for(ProduceRequest, lowest=9) == 9


@pytest.mark.parametrize(
    ("ranges", "lowest", "highest", "message"),
    [
        ({}, None, None, "The broker does not support Produce; this client needs version 3 to 13."),
        ({0: (0, 2)}, None, None, "The broker supports Produce in versions 0 to 2; this client needs version 3 to 13."),
        (
            {0: (14, 15)},
            None,
            None,
            "The broker supports Produce in versions 14 to 15; this client needs version 3 to 13.",
        ),
        ({0: (0, 9)}, 10, None, "The broker supports Produce in versions 0 to 9; this client needs version 10 to 13."),
        ({0: (9, 9)}, None, 8, "The broker supports Produce in versions 9 to 9; this client needs version 3 to 8."),
    ],
)
def test_nothing_in_common(
    ranges: dict[int, tuple[int, int]], lowest: int | None, highest: int | None, message: str
) -> None:
    versions = ApiVersions(ranges)
    for _ in range(2):
        with pytest.raises(UnsupportedVersionError) as caught:
            versions.version_for(ProduceRequest, lowest=lowest, highest=highest)
        assert str(caught.value) == message


@given(low=st.integers(0, 20), size=st.integers(-1, 20), version=st.integers(-1, 25))
def test_supports(low: int, size: int, version: int) -> None:
    versions = ApiVersions({0: (low, low + size)})
    common = set(range(low, low + size + 1)) & set(range(ProduceRequest.MIN_VERSION, ProduceRequest.MAX_VERSION + 1))
    assert versions.supports(ProduceRequest, version) == (version in common)
    assert versions.supports(ProduceRequest) == bool(common)
    if common:
        assert versions.version_for(ProduceRequest) == max(common)
    assert not versions.supports(FetchRequest)


def test_from_a_response() -> None:
    response = ApiVersionsResponse(
        api_keys=[ApiVersion(api_key=0, min_version=3, max_version=11), ApiVersion(api_key=18, max_version=4)],
        finalized_features_epoch=7,
        finalized_features=[FinalizedFeatureKey(name="transaction.version", max_version_level=2, min_version_level=2)],
    )
    versions = ApiVersions.from_response(decode(ApiVersionsResponse, 3, encode(response, 3)))
    assert versions == ApiVersions({0: (3, 11), 18: (0, 4)}, finalized_features={"transaction.version": 2})
    assert versions.ranges == {0: (3, 11), 18: (0, 4)}
    assert versions.finalized_features_epoch == 7
    assert versions.version_for(ApiVersionsRequest) == 4
    with pytest.raises(TypeError):
        versions.finalized_features["x"] = 1  # type: ignore[index]  # pyright: ignore[reportIndexIssue]


def test_the_downgrade() -> None:
    """After error 35 the answer's own range gives the version; without one, version 0 is left (KIP-511)."""
    versions = ApiVersions.from_response(
        ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=2)])
    )
    assert versions.version_for(ApiVersionsRequest) == 2
    assert not ApiVersions.from_response(ApiVersionsResponse(error_code=35)).supports(ApiVersionsRequest)


def test_threads_that_need_a_codec_at_once_get_the_same() -> None:
    """Without the interpreter's lock, one thread must not discard the codec that another has just found."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for _ in range(20):
                message = type(
                    "Fresh", (MetadataRequest,), {"__module__": MetadataRequest.__module__}
                )  # a version without a codec so far
                for codec_of in (codec.encoder_of, codec.decoder_of):
                    together = threading.Barrier(4)

                    def get(codec_of: Any = codec_of, message: Any = message, together: Any = together) -> object:
                        together.wait(30)
                        return codec_of(message, 12)

                    got = [call.result(30) for call in [threads.submit(get) for _ in range(4)]]
                    assert got == [got[0]] * 4
    finally:
        sys.setswitchinterval(interval)

"""WriteTxnMarkers (API key 27), versions 1-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class WritableTxnMarkerTopic(Struct):
    __slots__ = ("name", "partition_indexes")
    FIELDS = (
        "name string 0+",
        "partition_indexes []int32 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partition_indexes: list[int] = [] if partition_indexes is DEFAULT else partition_indexes


class WritableTxnMarker(Struct):
    __slots__ = (
        "producer_id",
        "producer_epoch",
        "transaction_result",
        "topics",
        "coordinator_epoch",
        "transaction_version",
    )
    FIELDS = (
        "producer_id int64 0+",
        "producer_epoch int16 0+",
        "transaction_result bool 0+",
        "topics []WritableTxnMarkerTopic 0+",
        "coordinator_epoch int32 0+",
        "transaction_version int8 2+ = 0 ignorable",
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] = DEFAULT,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.transaction_result: bool = transaction_result
        self.topics: list[WritableTxnMarkerTopic] = [] if topics is DEFAULT else topics
        self.coordinator_epoch: int = coordinator_epoch
        self.transaction_version: int = transaction_version


class WritableTxnMarkerPartitionResult(Struct):
    __slots__ = ("partition_index", "error_code")
    FIELDS = (
        "partition_index int32 0+",
        "error_code int16 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code


class WritableTxnMarkerTopicResult(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []WritableTxnMarkerPartitionResult 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[WritableTxnMarkerPartitionResult] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[WritableTxnMarkerPartitionResult] = [] if partitions is DEFAULT else partitions


class WritableTxnMarkerResult(Struct):
    __slots__ = ("producer_id", "topics")
    FIELDS = (
        "producer_id int64 0+",
        "topics []WritableTxnMarkerTopicResult 0+",
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        topics: list[WritableTxnMarkerTopicResult] = DEFAULT,
    ) -> None:
        self.producer_id: int = producer_id
        self.topics: list[WritableTxnMarkerTopicResult] = [] if topics is DEFAULT else topics


class WriteTxnMarkersResponse(Response):
    __slots__ = ("markers",)
    FIELDS = ("markers []WritableTxnMarkerResult 0+",)
    NAME = "WriteTxnMarkers"
    API_KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarkerResult] = DEFAULT,
    ) -> None:
        self.markers: list[WritableTxnMarkerResult] = [] if markers is DEFAULT else markers


class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    __slots__ = ("markers",)
    FIELDS = ("markers []WritableTxnMarker 0+",)
    NAME = "WriteTxnMarkers"
    API_KEY = 27
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 1
    RESPONSE = WriteTxnMarkersResponse

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarker] = DEFAULT,
    ) -> None:
        self.markers: list[WritableTxnMarker] = [] if markers is DEFAULT else markers

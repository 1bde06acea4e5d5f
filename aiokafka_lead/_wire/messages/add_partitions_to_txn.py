"""AddPartitionsToTxn (API key 24), versions 0-5.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class AddPartitionsToTxnTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []int32 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[int] = [] if partitions is DEFAULT else partitions


class AddPartitionsToTxnTransaction(Struct):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "verify_only", "topics")
    FIELDS = (
        "transactional_id string 4+",
        "producer_id int64 4+",
        "producer_epoch int16 4+",
        "verify_only bool 4+ = false",
        "topics []AddPartitionsToTxnTopic 4+",
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] = DEFAULT,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.verify_only: bool = verify_only
        self.topics: list[AddPartitionsToTxnTopic] = [] if topics is DEFAULT else topics


class AddPartitionsToTxnPartitionResult(Struct):
    __slots__ = ("partition_index", "partition_error_code")
    FIELDS = (
        "partition_index int32 0+",
        "partition_error_code int16 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.partition_error_code: int = partition_error_code


class AddPartitionsToTxnTopicResult(Struct):
    __slots__ = ("name", "results_by_partition")
    FIELDS = (
        "name string 0+",
        "results_by_partition []AddPartitionsToTxnPartitionResult 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnPartitionResult] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.results_by_partition: list[AddPartitionsToTxnPartitionResult] = (
            [] if results_by_partition is DEFAULT else results_by_partition
        )


class AddPartitionsToTxnResult(Struct):
    __slots__ = ("transactional_id", "topic_results")
    FIELDS = (
        "transactional_id string 4+",
        "topic_results []AddPartitionsToTxnTopicResult 4+",
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnTopicResult] = DEFAULT,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.topic_results: list[AddPartitionsToTxnTopicResult] = [] if topic_results is DEFAULT else topic_results


class AddPartitionsToTxnResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 4+ ignorable",
        "results_by_transaction []AddPartitionsToTxnResult 4+",
        "results_by_topic_v3_and_below []AddPartitionsToTxnTopicResult 0-3",
    )
    NAME = "AddPartitionsToTxn"
    API_KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] = DEFAULT,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.results_by_transaction: list[AddPartitionsToTxnResult] = (
            [] if results_by_transaction is DEFAULT else results_by_transaction
        )
        self.results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = (
            [] if results_by_topic_v3_and_below is DEFAULT else results_by_topic_v3_and_below
        )


class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    __slots__ = (
        "transactions",
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
    )
    FIELDS = (
        "transactions []AddPartitionsToTxnTransaction 4+",
        "v3_and_below_transactional_id string 0-3",
        "v3_and_below_producer_id int64 0-3",
        "v3_and_below_producer_epoch int16 0-3",
        "v3_and_below_topics []AddPartitionsToTxnTopic 0-3",
    )
    NAME = "AddPartitionsToTxn"
    API_KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3
    RESPONSE = AddPartitionsToTxnResponse

    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnTransaction] = DEFAULT,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = DEFAULT,
    ) -> None:
        self.transactions: list[AddPartitionsToTxnTransaction] = [] if transactions is DEFAULT else transactions
        self.v3_and_below_transactional_id: str = v3_and_below_transactional_id
        self.v3_and_below_producer_id: int = v3_and_below_producer_id
        self.v3_and_below_producer_epoch: int = v3_and_below_producer_epoch
        self.v3_and_below_topics: list[AddPartitionsToTxnTopic] = (
            [] if v3_and_below_topics is DEFAULT else v3_and_below_topics
        )

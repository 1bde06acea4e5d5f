"""Answers to requests that add partitions and offsets to a transaction."""

from __future__ import annotations

import pytest

from aiokafka_lead._core.transactions.additions import read_added, read_offsets
from aiokafka_lead._wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from aiokafka_lead._wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from aiokafka_lead.errors import (
    InvalidTxnStateError,
    KafkaConnectionError,
    OperationNotAttemptedError,
    UnknownMemberIdError,
)
from aiokafka_lead.types import ConsumerGroupMetadata, TopicPartition

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroupMetadata("g")


def added(*codes: int) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for index, code in enumerate(codes)
    ]
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])


def committed(*codes: int) -> TxnOffsetCommitResponse:
    partitions = [
        TxnOffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in enumerate(codes)
    ]
    return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="t", partitions=partitions)])


def test_partitions_are_added_together() -> None:
    assert read_added(added(0, 0), [FIRST, SECOND]) is None
    error = read_added(added(OperationNotAttemptedError.code, InvalidTxnStateError.code), [FIRST, SECOND])
    assert isinstance(error, InvalidTxnStateError)


@pytest.mark.parametrize("answer", [AddPartitionsToTxnResponse(), added(0)])
def test_a_partition_that_is_not_mentioned_is_not_added(answer: AddPartitionsToTxnResponse) -> None:
    error = read_added(answer, [FIRST, SECOND])
    assert isinstance(error, KafkaConnectionError)
    assert error.retriable


def test_offsets_are_added_one_by_one() -> None:
    assert read_offsets(committed(0, 0), GROUP, [FIRST, SECOND]) == {}
    failed = read_offsets(committed(0, UnknownMemberIdError.code), GROUP, [FIRST, SECOND])
    assert {tp: type(error) for tp, error in failed.items()} == {SECOND: UnknownMemberIdError}


def test_an_offset_that_is_not_mentioned_is_not_added() -> None:
    failed = read_offsets(committed(0), GROUP, [FIRST, SECOND])
    assert {tp: type(error) for tp, error in failed.items()} == {SECOND: KafkaConnectionError}

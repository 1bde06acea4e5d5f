"""ListOffsets and OffsetForLeaderEpoch, encoded and decoded."""

from __future__ import annotations

import pytest

from aiokafka_lead._core.consumer.offset_lookup import (
    EpochEnd,
    ListedOffset,
    by_leader,
    epoch_end_request,
    list_offsets_request,
    read_epoch_ends,
    read_listed_offsets,
)
from aiokafka_lead._core.consumer.reset_policy import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from aiokafka_lead._wire import decode, encode
from aiokafka_lead._wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from aiokafka_lead._wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from aiokafka_lead.errors import (
    NotLeaderOrFollowerError,
    TopicAuthorizationFailedError,
    UnknownServerError,
    UnsupportedForMessageFormatError,
)

from .fetch_world import T0, T1, T2, snapshot


def test_partitions_go_to_their_leaders() -> None:
    cluster = snapshot([(1, 3), (-1, 3), (9, 3)])
    assert by_leader([T0, T1, T2], cluster) == ({1: [T0]}, [T1, T2])


@pytest.mark.parametrize("version", range(ListOffsetsRequest.MIN_VERSION, ListOffsetsRequest.MAX_VERSION + 1))
def test_list_offsets_can_be_sent_in_every_version(version: int) -> None:
    read_committed = version >= 2
    request = list_offsets_request({T0: -2, T1: 5}, snapshot(), read_committed=read_committed, timeout_ms=300)
    sent = decode(ListOffsetsRequest, version, encode(request, version))
    assert sent.replica_id == -1
    (topic,) = sent.topics
    assert [(p.partition_index, p.timestamp) for p in topic.partitions] == [(0, -2), (1, 5)]
    if version >= 4:
        assert topic.partitions[0].current_leader_epoch == 3


@pytest.mark.parametrize("version", range(2, OffsetForLeaderEpochRequest.MAX_VERSION + 1))
def test_epochs_can_be_asked_for_in_every_version(version: int) -> None:
    request = epoch_end_request({T0: 2, T2: 1}, snapshot())
    sent = decode(OffsetForLeaderEpochRequest, version, encode(request, version))
    (topic,) = sent.topics
    assert [(p.partition, p.leader_epoch, p.current_leader_epoch) for p in topic.partitions] == [(0, 2, 3), (2, 1, 3)]


def listed(*rows: tuple[int, int, int]) -> ListOffsetsResponse:
    partitions = [
        ListOffsetsPartitionResponse(partition_index=index, error_code=code, offset=offset, timestamp=9, leader_epoch=2)
        for index, code, offset in rows
    ]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])


def test_listed_offsets() -> None:
    answer = read_listed_offsets(listed((0, 0, 41), (1, 43, -1), (2, 29, -1)), {})
    assert answer.found == {T0: ListedOffset(41, 9, 2), T1: ListedOffset(-1, -1, -1)}
    assert isinstance(answer.failed[T2], TopicAuthorizationFailedError)
    assert not answer.refresh


def test_every_log_has_a_start_and_an_end() -> None:
    asked = {T0: EARLIEST_TIMESTAMP, T1: LATEST_TIMESTAMP, T2: 1000}
    answer = read_listed_offsets(listed((0, 0, -1), (1, 43, -1), (2, 0, -1)), asked)
    assert answer.found == {T2: ListedOffset(-1, 9, 2)}
    assert {tp: type(error) for tp, error in answer.failed.items()} == {
        T0: UnknownServerError,
        T1: UnsupportedForMessageFormatError,
    }


@pytest.mark.parametrize(("code", "refresh"), [(6, True), (3, True), (74, True), (75, False), (78, False), (29, False)])
def test_stale_metadata_is_recognised(code: int, refresh: bool) -> None:
    assert read_listed_offsets(listed((0, code, -1)), {}).refresh is refresh


def test_epoch_ends() -> None:
    rows = [
        EpochEndOffset(partition=0, leader_epoch=2, end_offset=7),
        EpochEndOffset(partition=1, error_code=NotLeaderOrFollowerError.code),
    ]
    answer = read_epoch_ends(
        OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=rows)])
    )
    assert answer.found == {T0: EpochEnd(7, 2)}
    assert list(answer.failed) == [T1]

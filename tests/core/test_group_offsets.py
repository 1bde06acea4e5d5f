"""OffsetCommit and OffsetFetch in every version's format."""

from __future__ import annotations

import pytest

from aiokafka_lead._core.group.offsets import (
    GroupIdentity,
    commit_request,
    committed_request,
    read_commit,
    read_committed,
)
from aiokafka_lead._core.metadata.types import NO_TOPIC_ID
from aiokafka_lead._wire import decode, encode
from aiokafka_lead._wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from aiokafka_lead._wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from aiokafka_lead.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    OffsetMetadataTooLargeError,
    UnstableOffsetCommitError,
)
from aiokafka_lead.types import OffsetAndMetadata

from .fetch_world import ID, T0, T1, T2, snapshot

MEMBER = GroupIdentity(4, "m-1", "static")
OFFSETS = {T0: OffsetAndMetadata(5, "why", 3), T1: OffsetAndMetadata(6)}


@pytest.mark.parametrize("version", range(OffsetCommitRequest.MIN_VERSION, OffsetCommitRequest.MAX_VERSION + 1))
def test_a_commit_can_be_sent_in_every_version(version: int) -> None:
    request, chosen = commit_request("g", OFFSETS, MEMBER, version, snapshot())
    assert chosen == version
    sent = decode(OffsetCommitRequest, version, encode(request, version))
    assert (sent.group_id, sent.generation_id_or_member_epoch, sent.member_id) == ("g", 4, "m-1")
    assert sent.group_instance_id == ("static" if version >= 7 else None)
    (topic,) = sent.topics
    assert topic.topic_id == ID if version >= 10 else topic.name == "t"
    assert [(p.partition_index, p.committed_offset, p.committed_metadata) for p in topic.partitions] == [
        (0, 5, "why"),
        (1, 6, ""),
    ]


@pytest.mark.parametrize("version", range(OffsetFetchRequest.MIN_VERSION, OffsetFetchRequest.MAX_VERSION + 1))
def test_committed_offsets_can_be_asked_for_in_every_version(version: int) -> None:
    request, chosen = committed_request("g", [T0, T2], version, snapshot())
    assert chosen == version
    sent = decode(OffsetFetchRequest, version, encode(request, version))
    assert sent.require_stable is (version >= 7)
    if version < 8:
        assert sent.group_id == "g"
        assert sent.topics is not None
        assert sent.topics[0].partition_indexes == [0, 2]
    else:
        (group,) = sent.groups
        assert group.topics is not None
        assert (group.group_id, group.topics[0].partition_indexes) == ("g", [0, 2])


def test_without_a_topic_id_the_last_version_with_names_is_used() -> None:
    cluster = snapshot(topic_id=NO_TOPIC_ID)
    assert commit_request("g", OFFSETS, MEMBER, 10, cluster)[1] == 9
    assert committed_request("g", [T0], 10, cluster)[1] == 9


@pytest.mark.parametrize("by_id", [False, True])
def test_refused_commits_are_told_by_partition(by_id: bool) -> None:
    rows = [
        OffsetCommitResponsePartition(partition_index=0),
        OffsetCommitResponsePartition(partition_index=1, error_code=OffsetMetadataTooLargeError.code),
    ]
    topic = OffsetCommitResponseTopic(topic_id=ID) if by_id else OffsetCommitResponseTopic(name="t")
    topic.partitions = rows
    failed = read_commit(OffsetCommitResponse(topics=[topic]), OFFSETS, snapshot())
    assert list(failed) == [T1]
    assert isinstance(failed[T1], OffsetMetadataTooLargeError)


def test_committed_offsets_in_the_old_shape() -> None:
    rows = [
        OffsetFetchResponsePartition(partition_index=0, committed_offset=7, committed_leader_epoch=2, metadata="m"),
        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1, metadata=None),
    ]
    response = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=rows)])
    found, failed = read_committed(response, [T0, T1], snapshot())
    assert found == {T0: OffsetAndMetadata(7, "m", 2), T1: None}
    assert failed == {}


@pytest.mark.parametrize("by_id", [False, True])
def test_committed_offsets_in_the_new_shapes(by_id: bool) -> None:
    topic = OffsetFetchResponseTopics(topic_id=ID) if by_id else OffsetFetchResponseTopics(name="t")
    topic.partitions = [
        OffsetFetchResponsePartitions(partition_index=0, committed_offset=7, metadata=None),
        OffsetFetchResponsePartitions(
            partition_index=1, committed_offset=-1, error_code=UnstableOffsetCommitError.code, metadata=None
        ),
    ]
    response = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g", topics=[topic])])
    found, failed = read_committed(response, [T0, T1], snapshot())
    assert found == {T0: OffsetAndMetadata(7, "", None)}
    assert isinstance(failed[T1], UnstableOffsetCommitError)


@pytest.mark.parametrize(
    "response",
    [
        OffsetFetchResponse(error_code=GroupAuthorizationFailedError.code),
        OffsetFetchResponse(
            groups=[OffsetFetchResponseGroup(group_id="g", error_code=GroupAuthorizationFailedError.code)]
        ),
    ],
)
def test_what_concerns_the_whole_group_is_raised(response: OffsetFetchResponse) -> None:
    with pytest.raises(GroupAuthorizationFailedError):
        read_committed(response, [T0], snapshot())


@pytest.mark.parametrize("version", [7, 8, 10])
def test_a_group_that_is_not_there_has_committed_nothing(version: int) -> None:
    """Some brokers answer with an error, while Apache Kafka answers without offsets."""
    code = GroupIdNotFoundError.code
    group = OffsetFetchResponseGroup(group_id="g", error_code=code)
    response = OffsetFetchResponse(error_code=code) if version < 8 else OffsetFetchResponse(groups=[group])
    assert read_committed(response, [T0], snapshot()) == ({T0: None}, {})


def test_what_an_answer_leaves_out_is_neither_committed_nor_without_an_offset() -> None:
    topic = OffsetCommitResponseTopic(name="t", partitions=[OffsetCommitResponsePartition(partition_index=0)])
    assert list(read_commit(OffsetCommitResponse(topics=[topic]), OFFSETS, snapshot())) == [T1]
    rows = [OffsetFetchResponsePartition(partition_index=0, committed_offset=-1, metadata=None)]
    response = OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=rows)])
    found, failed = read_committed(response, [T0, T1], snapshot())
    assert found == {T0: None}
    assert list(failed) == [T1]

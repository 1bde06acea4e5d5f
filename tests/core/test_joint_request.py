"""One Produce request with the batches of several producers."""

from __future__ import annotations

from uuid import UUID

import pytest

from aiokafka_lead._core.producer.outbox import (
    JOINT_BATCHES,
    JOINT_BYTES,
    JointRequest,
    is_plain,
    parts_of,
    take_hints,
)
from aiokafka_lead._core.producer.produce import BatchesRequest
from aiokafka_lead._wire import encode_request
from aiokafka_lead._wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from aiokafka_lead._wire.server import decode_request
from aiokafka_lead.errors import NotLeaderOrFollowerError

A, B = UUID(int=1), UUID(int=2)
REFUSED = NotLeaderOrFollowerError.code


def request(
    *partitions: tuple[bytes, int], records: bytes = b"r", acks: int = -1, timeout_ms: int = 30_000
) -> BatchesRequest:
    made = BatchesRequest(acks=acks, timeout_ms=timeout_ms)
    topics: dict[bytes, list[tuple[int, memoryview]]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append((partition, memoryview(records)))
    made.topics = list(topics.items())
    return made


def partitions(joint: JointRequest) -> list[tuple[str, int, bytes]]:
    """Return the topics, partitions and records on the wire."""
    frame = b"".join(encode_request(joint.request(), 12, 1, "c"))[4:]
    read = decode_request(frame).request
    assert isinstance(read, ProduceRequest)
    return [
        (topic.name, part.index, bytes(part.records or b""))
        for topic in read.topic_data
        for part in topic.partition_data
    ]


def test_requests_of_several_become_one() -> None:
    joint = JointRequest(request((b"a", 0), (b"b", 1), records=b"one"))
    assert joint.add(JointRequest(request((b"a", 1), records=b"two")))
    assert joint.add(JointRequest(request((b"c", 0), (b"b", 0), records=b"three")))
    assert partitions(joint) == [
        ("a", 0, b"one"), ("a", 1, b"two"), ("b", 1, b"one"), ("b", 0, b"three"), ("c", 0, b"three"),
    ]  # fmt: skip


def test_a_request_alone_stays_as_it_is() -> None:
    first = request((b"a", 0))
    assert JointRequest(first).request() is first


def test_a_partition_has_one_batch() -> None:
    joint = JointRequest(request((b"a", 0)))
    assert joint.add(JointRequest(request((b"a", 1))))
    assert not joint.add(JointRequest(request((b"a", 2), (b"a", 1))))
    assert partitions(joint) == [("a", 0, b"r"), ("a", 1, b"r")]


def test_requests_that_say_something_else_are_not_joined() -> None:
    joint = JointRequest(request((b"a", 0)))
    assert not joint.add(JointRequest(request((b"a", 1), acks=1)))
    assert not joint.add(JointRequest(request((b"a", 1), timeout_ms=1)))


def test_large_requests_are_not_joined() -> None:
    joint = JointRequest(request((b"a", 0), records=b"x" * JOINT_BYTES))
    assert not joint.add(JointRequest(request((b"a", 1))))
    joint = JointRequest(request(*((b"a", number) for number in range(JOINT_BATCHES))))
    assert not joint.add(JointRequest(request((b"b", 0))))


def test_a_transaction_s_requests_are_its_own() -> None:
    transactional = request((b"a", 0))
    transactional.transactional_id = "t"
    assert not is_plain(transactional)
    assert not is_plain(ProduceRequest())
    assert is_plain(request((b"a", 0)))


def answer(*topics: tuple[str, UUID, dict[int, int]]) -> ProduceResponse:
    """Answer with these error codes by topic and partition; broker 5 leads all partitions in epoch 9."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=name,
                topic_id=topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=index,
                        error_code=code,
                        current_leader=LeaderIdAndEpoch(leader_id=5, leader_epoch=9) if code else LeaderIdAndEpoch(),
                    )
                    for index, code in codes.items()
                ],
            )
            for name, topic_id, codes in topics
        ],
        node_endpoints=[NodeEndpoint(node_id=5, host="h", port=9092)],
    )


@pytest.mark.parametrize("version", [12, 13])
def test_each_request_gets_its_part_of_the_answer(version: int) -> None:
    by_id = version >= 13
    a, b = (A.bytes, B.bytes) if by_id else (b"a", b"b")
    whole = answer(
        ("" if by_id else "a", A if by_id else UUID(int=0), {0: 0, 1: REFUSED}),
        ("" if by_id else "b", B if by_id else UUID(int=0), {0: REFUSED, 7: 0}),
    )
    joint = JointRequest(request((a, 1), (b, 0)))
    assert joint.add(JointRequest(request((a, 0))))
    assert joint.add(JointRequest(request((a, 2))))
    parts = parts_of(whole, version, joint)
    found = [
        [(topic.name, topic.topic_id, each.index) for topic in part.responses for each in topic.partition_responses]
        for part in parts
    ]
    (first, second) = ((each.name, each.topic_id) for each in whole.responses)
    assert found == [[(*first, 1), (*second, 0)], [(*first, 0)], []]
    assert all(part.node_endpoints == whole.node_endpoints for part in parts)


def test_hints_are_taken_out_of_an_answer_once() -> None:
    whole = answer(("", A, {0: 0, 1: REFUSED}), ("", B, {3: REFUSED}))
    hints = take_hints(whole, 13, {A: "a"})
    assert [(hint.topic, hint.topic_id, hint.partition, hint.leader_id, hint.leader_epoch) for hint in hints] == [
        ("a", A, 1, 5, 9)
    ]
    assert take_hints(whole, 13, {A: "a"}) == []
    assert whole.responses[1].partition_responses[0].current_leader.leader_id == 5


def test_an_answer_with_names_does_not_tell_the_incarnation() -> None:
    assert take_hints(answer(("a", UUID(int=0), {1: REFUSED})), 12, {A: "a"}) == []

"""Short ways to write metadata answers and leader hints."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TypeVar, cast
from uuid import UUID

from aiokafka_lead._core.metadata.answer import ClusterAnswer, cluster_answer, topic_metadata
from aiokafka_lead._core.metadata.state import MergedAhead, MetadataState
from aiokafka_lead._core.metadata.types import Broker, LeaderHint
from aiokafka_lead._wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokafka_lead.errors import FencedLeaderEpochError, NotLeaderOrFollowerError

T = TypeVar("T")

ID_A = UUID(int=0xA)
ID_B = UUID(int=0xB)
NOT_LEADER = NotLeaderOrFollowerError.code
FENCED = FencedLeaderEpochError.code
VERSION = 12


def read_whole(response: MetadataResponse, version: int) -> ClusterAnswer:
    """Return the answer in one step, by the functions that `MetadataReader` calls in many."""
    return cluster_answer(
        response, [topic_metadata(each, version) for each in response.topics if each.name is not None]
    )


def broker(node_id: int, port: int = 0) -> Broker:
    return Broker(node_id, f"host{node_id}", port or 9000 + node_id)


def topic(
    *leaders: tuple[int, int], name: str = "t", topic_id: UUID = ID_A, error_code: int = 0
) -> MetadataResponseTopic:
    """A topic from (leader id, leader epoch) of each partition."""
    return MetadataResponseTopic(
        name=name,
        topic_id=topic_id,
        error_code=error_code,
        partitions=[
            MetadataResponsePartition(
                partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2, 3], isr_nodes=[1, 2]
            )
            for index, (leader, epoch) in enumerate(leaders)
        ],
    )


def answer(
    *topics: MetadataResponseTopic,
    brokers: Iterable[Broker | int] = (1, 2, 3),
    cluster_id: str | None = "cluster",
    error_code: int = 0,
) -> MetadataResponse:
    known = [entry if isinstance(entry, Broker) else broker(entry) for entry in brokers]
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=entry.node_id, host=entry.host, port=entry.port, rack=entry.rack)
            for entry in known
        ],
        cluster_id=cluster_id,
        controller_id=1,
        topics=list(topics),
        error_code=error_code,
    )


def hint(
    leader_id: int,
    leader_epoch: int,
    *,
    name: str = "t",
    topic_id: UUID = ID_A,
    partition: int = 0,
    endpoint: Broker | None = None,
    error_code: int = NOT_LEADER,
) -> LeaderHint:
    return LeaderHint(name, topic_id, partition, leader_id, leader_epoch, endpoint, error_code)


def feed(
    state: MetadataState,
    *answers: MetadataResponse,
    version: int = VERSION,
    now: float = 0.0,
    suspects: Iterable[int] = (),
) -> None:
    for response in answers:
        state.apply(read_whole(response, version), now, None, suspects=suspects)


def finished(steps: Generator[None, None, T]) -> T:
    """Run all steps; return their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(T, end.value)


def merged_ahead(state: MetadataState, said: ClusterAnswer, now: float = 0.0) -> MergedAhead:
    """Merge an answer into the state ahead of time, without applying it."""
    return finished(state.merge_ahead(said, now))


def knowing(*leaders: tuple[int, int], **options: str) -> MetadataState:
    """Return a state that has had one answer about topic ``t``."""
    state = MetadataState([("boot", 9092)], **options)  # type: ignore[arg-type]
    feed(state, answer(topic(*leaders)))
    return state


def leaders(state: MetadataState, name: str = "t") -> Sequence[tuple[int, int]]:
    return [state.snapshot.leader(name, index) for index in range(state.snapshot.partition_count(name))]

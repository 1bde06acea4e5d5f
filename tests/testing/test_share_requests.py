"""Random requests of share groups, from members that stop at any time: brokers never fail, no record is stuck.

There are no sockets, and each run is drawn from a seed.
"""

from __future__ import annotations

from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from aiokafka_lead._wire import Buffer, Request, decode_response, encode_request
from aiokafka_lead._wire.messages import share_acknowledge as sa
from aiokafka_lead._wire.messages import share_fetch as sf
from aiokafka_lead._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokafka_lead._wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions
from aiokafka_lead.testing._server.broker import BrokerServer

from .raw import batch

GROUP, TOPIC = "g", "t"
PARTITIONS = 2
BROKERS = (1, 2)
MEMBERS = ("m1", "m2", "m3")
STEPS = 600
LOCK_MS = 60_000
ROUNDS = 500
"""Maximum number of fetches of a member until all records are done."""

Wanted = tuple[type[Any], type[Any], type[Any]]
FETCH: Wanted = (sf.FetchTopic, sf.FetchPartition, sf.AcknowledgementBatch)
ACKNOWLEDGE: Wanted = (sa.AcknowledgeTopic, sa.AcknowledgePartition, sa.AcknowledgementBatch)
"""The types of a request's topics, partitions and acknowledgements."""


class Line:
    """A client's connection without a socket; keeps the answers."""

    certificate: str | None = None

    def __init__(self, server: BrokerServer, member: str = "") -> None:
        self.member = member
        """The usual member behind the connection."""
        self.node_id = server.node.node_id
        self._written: list[Buffer] = []
        self._asked: list[Request[Any]] = []
        self.connection = server.connect(self, "nobody:1")

    def write(self, chunks: list[Buffer]) -> None:
        self._written.append(b"".join(chunks))

    def close(self) -> None:
        pass

    abort = pause_reading = resume_reading = close

    def send(self, request: Request[Any]) -> None:
        self._asked.append(request)
        self.connection.frames_received([b"".join(encode_request(request, request.MAX_VERSION, 1, "raw"))[4:]])

    def answers(self) -> list[tuple[Any, Any]]:
        """Return each answer that has arrived since the last call, with its request."""
        written, self._written = self._written, []
        asked, self._asked = self._asked[: len(written)], self._asked[len(written) :]
        return [
            (request, decode_response(cast(Any, request.RESPONSE), request.MAX_VERSION, memoryview(frame)[4:])[1])
            for request, frame in zip(asked, written, strict=True)
        ]


class World:
    """The cluster, and erratic members."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        groups = GroupOptions(share_record_lock_duration_ms=LOCK_MS, share_max_sessions=self.rng.choice([2, 2000]))
        self.cluster = EmbeddedCluster(list(BROKERS), groups=groups)
        self.engine = self.cluster._engine
        state = self.cluster._state
        self.servers = {
            node_id: BrokerServer(self.engine, self.cluster._handlers, node, "", cast(Any, None))
            for node_id, node in state.nodes.items()
        }
        for node in state.nodes.values():
            node.running = True
            state.broker_back(node.node_id)
        self.cluster.create_topic(TOPIC, PARTITIONS, 2)
        self.topic_id = self.cluster.topic_id(TOPIC)
        self.cluster.shares.configure(GROUP, {"share.auto.offset.reset": "earliest"})
        self.lines: list[Line] = []
        self.epochs: dict[tuple[int, str], int] = {}

    def line(self) -> Line:
        """Return a connection, sometimes a new connection."""
        if len(self.lines) < len(MEMBERS) or self.rng.random() < 0.05:
            member = MEMBERS[len(self.lines) % len(MEMBERS)]
            self.lines.append(Line(self.servers[self.rng.choice(BROKERS)], member))
        return self.rng.choice(self.lines)

    def step(self) -> None:
        rng, cluster = self.rng, self.cluster
        match rng.randrange(20):
            case 0:
                self.produce(rng.randrange(PARTITIONS), rng.randrange(1, 9))
            case 1:
                cluster.move_leader(TOPIC, rng.randrange(PARTITIONS))
            case 2:
                cluster.shares.expire_locks(GROUP)
            case 3:
                self.lines.remove(lost := self.line())
                lost.connection.abort()
            case 4:
                index = rng.randrange(PARTITIONS)
                cluster.delete_records(TOPIC, index, rng.randint(0, cluster.end_offset(TOPIC, index) // 2))
            case 5 | 6:
                self.line().send(self.heartbeat())
            case kind:
                line = self.line()
                member = line.member if rng.random() < 0.9 else rng.choice(MEMBERS)
                epoch = self.epochs.get((line.node_id, member), 0)
                epoch = rng.choice([-1, 0, 5]) if rng.random() < 0.05 else epoch
                line.send(self.fetch(member, epoch) if epoch == 0 or kind < 14 else self.acknowledge(member, epoch))
        for each in self.lines:
            for request, answer in each.answers():
                self.answered(each.node_id, request, answer)
        if self.engine.failures:
            raise self.engine.failures[0]

    def answered(self, node_id: int, request: Any, answer: Any) -> None:
        if not isinstance(request, ShareGroupHeartbeatRequest):
            taken = answer.error_code == 0 and request.share_session_epoch >= 0
            self.epochs[node_id, request.member_id] = request.share_session_epoch + 1 if taken else 0

    def produce(self, partition: int, count: int) -> None:
        data = PartitionProduceData(index=partition, records=batch(*[b"v"] * count))
        line = Line(self.servers[self.cluster.leader(TOPIC, partition)])
        line.send(
            ProduceRequest(
                acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(topic_id=self.topic_id, partition_data=[data])]
            )
        )
        ((_, answer),) = line.answers()
        assert answer.responses[0].partition_responses[0].error_code == 0

    def heartbeat(self) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.rng.choice(MEMBERS),
            member_epoch=self.rng.choice([0, 0, 0, 1, -1]),
            subscribed_topic_names=[TOPIC],
        )

    def fetch(self, member: str, epoch: int) -> sf.ShareFetchRequest:
        choose = self.rng.choice
        return sf.ShareFetchRequest(
            group_id=GROUP,
            member_id=member,
            share_session_epoch=epoch,
            max_wait_ms=choose([0, 60_000]),
            min_bytes=choose([0, 1, 1000]),
            max_bytes=choose([1, 200, 100_000]),
            max_records=choose([1, 3, 50]),
            batch_size=choose([0, 1, 3, 50]),
            share_acquire_mode=choose([0, 1]),
            topics=self.topics(FETCH, acknowledging=epoch > 0 and self.rng.random() < 0.5),
            forgotten_topics_data=[sf.ForgottenTopic(topic_id=self.topic_id, partitions=[choose([0, 1])])]
            if self.rng.random() < 0.1
            else [],
        )

    def acknowledge(self, member: str, epoch: int) -> sa.ShareAcknowledgeRequest:
        return sa.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=member,
            share_session_epoch=epoch,
            is_renew_ack=self.rng.random() < 0.3,
            topics=self.topics(ACKNOWLEDGE, acknowledging=True),
        )

    def topics(self, kinds: Wanted, *, acknowledging: bool) -> list[Any]:
        topic_id = UUID(int=5) if self.rng.random() < 0.01 else self.topic_id
        parts = [kinds[1](partition_index=index) for index in range(PARTITIONS) if self.rng.random() < 0.8]
        for part in parts:
            if acknowledging:
                part.acknowledgement_batches = self.batches(kinds[2], part.partition_index)
        return [kinds[0](topic_id=topic_id, partitions=parts)]

    def batches(self, kind: type[Any], partition: int) -> list[Any]:
        """Return acknowledgements that a member may send, of records that it has or not."""
        rng = self.rng
        there = [each.offset for each in self.cluster.shares.deliveries(GROUP, TOPIC, partition)] or [0]
        first = rng.choice(there)
        found = []
        for _ in range(rng.randint(1, 2)):
            last = first + rng.choice([0, 0, 1, 5])
            size = 1 if rng.random() < 0.6 else last - first + 1
            types = [rng.choice([0, 1, 1, 2, 2, 3, 4]) for _ in range(size)]
            found.append(kind(first_offset=first, last_offset=last, acknowledge_types=types))
            first = last + rng.choice([1, 4])
        return found

    def drain(self) -> None:
        """One member at each leader acquires and accepts all remaining records."""
        for line in self.lines:
            line.connection.abort()
        self.cluster.shares.expire_locks(GROUP)
        for node_id, server in self.servers.items():
            led = [index for index in range(PARTITIONS) if self.cluster.leader(TOPIC, index) == node_id]
            line = Line(server)
            topics = [
                sf.FetchTopic(topic_id=self.topic_id, partitions=[sf.FetchPartition(partition_index=i) for i in led])
            ]
            for epoch in range(ROUNDS):
                request = self.fetch("last", epoch)
                request.topics, request.forgotten_topics_data, request.max_wait_ms = topics, [], 0
                line.send(request)
                ((_, answer),) = line.answers()
                parts = [part for topic in answer.responses for part in topic.partitions]
                assert not [part for part in parts if part.error_code or part.acknowledge_error_code]
                if epoch and not any(self.lag(index) for index in led):
                    break
                topics = [sf.FetchTopic(topic_id=self.topic_id, partitions=[accepting(part) for part in parts])]

    def lag(self, partition: int) -> int:
        saved = self.engine.groups.share_states.of(GROUP)[self.topic_id, partition]
        return saved.lag(self.cluster.end_offset(TOPIC, partition))


def accepting(got: sf.PartitionData) -> sf.FetchPartition:
    """Return acknowledgements that accept the records of an answer."""
    batches = [
        sf.AcknowledgementBatch(first_offset=run.first_offset, last_offset=run.last_offset, acknowledge_types=[1])
        for run in got.acquired_records
    ]
    return sf.FetchPartition(partition_index=got.partition_index, acknowledgement_batches=batches)


@pytest.mark.parametrize("seed", range(4))
def test_members_that_do_anything(seed: int) -> None:
    world = World(seed)
    for index in range(PARTITIONS):
        world.line().send(world.heartbeat())
        world.produce(index, 5)
    for _ in range(STEPS):
        world.step()
    for index in range(PARTITIONS):
        offsets = [each.offset for each in world.cluster.shares.deliveries(GROUP, TOPIC, index)]
        assert offsets == sorted(set(offsets))
    world.drain()
    assert [world.lag(index) for index in range(PARTITIONS)] == [0] * PARTITIONS

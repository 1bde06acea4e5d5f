"""Bytes that no client should send: a broker answers or closes the connection, and never fails itself."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lead import errors
from aiokafka_lead._wire import ZERO_UUID, Buffer, Struct, encode_request, request_class
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.testing._server.connection import ServerConnection
from aiokafka_lead.testing._server.transports import FrameReader

from .raw import batch
from .test_every_api import NAMES, SERVED, a_request

ROUNDS = 60
"""Number of variations of each request, drawn from a fixed seed alone."""


class Nowhere:
    """A transport without a socket."""

    certificate: str | None = None

    def __init__(self) -> None:
        self.written: list[Buffer] = []

    def write(self, chunks: list[Buffer]) -> None:
        self.written += chunks

    def close(self) -> None:
        pass

    abort = pause_reading = resume_reading = close


def mutated(frame: bytes, randomness: random.Random) -> bytes:
    """Return the bytes with some changed, most of them after the header, and perhaps some cut off or added."""
    data = bytearray(frame)
    for _ in range(randomness.randint(1, 4)):
        at = randomness.randrange(8 if randomness.random() < 0.9 else 0, len(data))
        data[at] = randomness.choice([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF, randomness.randrange(256)])
    if randomness.random() < 0.2:
        del data[randomness.randrange(8, len(data)) :]
    elif randomness.random() < 0.1:
        data += randomness.randbytes(5)
    return bytes(data)


PRODUCERS = [(0, 0, False), (0, 1, False), (1, 0, True), (1, 1, True)]
"""Ids, sequence numbers and transactions of batches."""


class Nonsense:
    """Requests that fit the schema without a valid meaning."""

    def __init__(self, randomness: random.Random, topic_id: UUID) -> None:
        self._random = randomness
        self._values: dict[str, list[object]] = {
            "string": ["t", "t", "g", "g", "tx", "range", "consumer", "raw", "", "a b", "retention.ms", "PLAIN"],
            "bool": [False, True],
            "uuid": [topic_id, ZERO_UUID, UUID(int=5)],
            "bytes": [b"", b"\0\1", b"\0alice\0x", b"n,,n=alice,r=a"],
            "records": [
                b"",
                b"x" * 70,
                batch(b"v"),
                *(
                    batch(b"v", producer_id=p, epoch=0, sequence=q, transactional=p == q)
                    for p in (0, 1)
                    for q in (0, 1)
                ),
            ],
        }

    def request(self, kind: type[Struct], version: int) -> Any:
        made = kind()
        for line in kind.FIELDS:
            name, field_type, versions, *rest = line.split()
            first, _, last = versions.partition("-")
            if int(first.rstrip("+")) <= version <= (int(last or first) if "+" not in versions else version):
                setattr(made, name, self._value(field_type, kind, version, nullable="null" in rest))
        return made

    def _value(self, field_type: str, kind: type[Struct], version: int, *, nullable: bool = False) -> object:
        choose = self._random.choice
        if nullable and self._random.random() < 0.15:
            return None
        if field_type.startswith("[]"):
            return [self._value(field_type[2:], kind, version) for _ in range(choose([0, 1, 1, 2, 3]))]
        if field_type.startswith("int"):
            limit = 2 ** (int(field_type[3:]) - 1)
            return max(-limit, min(limit - 1, choose([0, 0, 0, 1, 1, 2, -1, -1, 3, 7, 100, -2, limit - 1, -limit])))
        if field_type in self._values:
            return choose(self._values[field_type])
        return self.request(getattr(sys.modules[kind.__module__], field_type), version)


class Victim:
    """A broker without sockets."""

    def __init__(self) -> None:
        self.cluster = EmbeddedCluster(brokers=2)
        for node in self.cluster._state.nodes.values():
            node.running = True
            self.cluster._state.broker_back(node.node_id)

    def serve(self, frame: bytes) -> None:
        """Send it a request; a failure of the broker is an error of the test."""
        engine, handlers = self.cluster._engine, self.cluster._handlers
        node = self.cluster._state.nodes[1]
        connection = ServerConnection(engine, handlers, node, 1, Nowhere(), "nobody", lambda _: None)
        connection.frames_received([frame])
        if engine.failures:
            raise engine.failures[0]

    def restore(self) -> None:
        """Restore the topic of the requests, which may have been deleted."""
        if "t" not in self.cluster.topic_names():
            self.cluster.create_topic("t", 2)


def each_version(api_key: int) -> Iterator[int]:
    request = request_class(api_key)
    for version in range(request.MIN_VERSION, request.MAX_VERSION + 1):
        for _ in range(ROUNDS):
            yield version


@pytest.mark.parametrize("api_key", SERVED, ids=NAMES)
def test_mutated_requests(api_key: int) -> None:
    randomness = random.Random(api_key)
    victim = Victim()
    for version in each_version(api_key):
        victim.restore()
        chunks = encode_request(a_request(api_key, version, victim.cluster), version, 1, "raw")
        victim.serve(mutated(b"".join(chunks)[4:], randomness))


def test_plausible_nonsense() -> None:
    """One cluster gets requests of all APIs in turn, so that they meet the leftovers of earlier requests."""
    randomness = random.Random(1)
    victim = Victim()
    for _ in range(ROUNDS):
        for api_key in SERVED:
            victim.restore()
            kind = request_class(api_key)
            version = randomness.randint(kind.MIN_VERSION, kind.MAX_VERSION)
            request = Nonsense(randomness, victim.cluster.topic_id("t")).request(kind, version)
            try:
                chunks = encode_request(request, version, 1, "raw")
            except errors.KafkaError:
                # Null in a version without nulls cannot be sent.
                continue
            victim.serve(b"".join(chunks)[4:])


def test_a_mistake_at_the_end_of_a_connection_is_the_cluster_s() -> None:
    cluster = EmbeddedCluster(brokers=1)
    wrong = RuntimeError("a mistake")

    def closed(_: ServerConnection) -> None:
        raise wrong

    node = cluster._state.nodes[1]
    ServerConnection(cluster._engine, cluster._handlers, node, 1, Nowhere(), "nobody", closed).connection_lost()
    assert cluster._engine.failures == [wrong]


def test_frames_come_out_however_they_arrive() -> None:
    randomness = random.Random(7)
    for _ in range(50):
        frames = [
            randomness.randbytes(randomness.choice([0, 1, 10, 65_531, 65_532, 65_533, 200_000])) for _ in range(6)
        ]
        stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
        reader = FrameReader(1_000_000)
        found: list[bytes | bytearray] = []
        while stream:
            size = randomness.choice([1, 3, 100, 65_536, 500_000])
            found += reader.feed(stream[:size])
            stream = stream[size:]
        assert [bytes(frame) for frame in found] == frames

"""Produce requests of several producers that wait to be sent to one broker over shared connections.

A broker serves the requests of a connection in order, so a producer's records wait for all earlier requests. Producers
that write to different partitions can share a *joint request*, so that their batches do not wait for each other. But a
request contains at most one batch per partition, and a transaction needs its own requests. Requests that cannot be
joined are sent in the order of arrival or, if that would take long, on additional connections. A producer that uses an
additional connection has only one request in flight, and none on the first connection, so its records stay in order. A
separate client would not be faster. A refused request delays only its own batches (rule 15 of `_core.leadership`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Hashable, Mapping
from typing import Any, TypeGuard
from uuid import UUID

from ..._values import NamedTuple
from ..._wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceResponse
from ...errors import KafkaError
from ..leadership.hints import HintReader
from ..metadata.types import LeaderHint
from .produce import FIRST_WITH_IDS, BatchesRequest, BatchesResponse

# --- joint requests ---------------------------------------------------------------------------------------------------
#
# A joint request is one Produce request with the batches of several producers. Brokers accept it because a Produce
# request has no producer id: they check the id in each batch. A request contains at most one batch of each partition.


WirePartition = tuple[bytes, int]
"""A partition as in a request: the encoded topic name or id, and the partition number."""

JOINT_BYTES = 256 * 1024
"""Maximum size in bytes of a joint request.

Beyond this size, the overhead of a separate request is small compared to its records.
"""
JOINT_BATCHES = 500
"""Maximum number of batches in a joint request."""


def is_plain(request: ProduceRequest) -> TypeGuard[BatchesRequest]:
    """Return True if a request may be joined with others.

    A transactional id would apply to all batches of the request.
    """
    return isinstance(request, BatchesRequest) and request.transactional_id is None


class JointRequest:
    """Joins Produce requests of several producers. Created with the request of the first one."""

    __slots__ = ("_bytes", "_requests", "numbers")

    def __init__(self, first: BatchesRequest) -> None:
        self._requests = [first]
        self.numbers = {(name, index): 0 for name, parts in first.topics for index, _ in parts}
        """For each partition, the index of the request that contains it."""
        self._bytes = sum(len(records) for _, parts in first.topics for _, records in parts)

    def __len__(self) -> int:
        """Return the number of joined requests."""
        return len(self._requests)

    def add(self, other: JointRequest) -> bool:
        """Add another request. Return False if it cannot be joined.

        That is the case if its settings differ, it shares a partition, or the result would be too large.
        """
        mine, theirs = self._requests[0], other._requests[0]
        if theirs.acks != mine.acks or theirs.timeout_ms != mine.timeout_ms:
            return False
        if self._bytes + other._bytes > JOINT_BYTES or len(self.numbers) + len(other.numbers) > JOINT_BATCHES:
            return False
        if not self.numbers.keys().isdisjoint(other.numbers):
            return False
        count = len(self._requests)
        self.numbers.update((partition, count + number) for partition, number in other.numbers.items())
        self._requests += other._requests
        self._bytes += other._bytes
        return True

    def request(self) -> BatchesRequest:
        """Return the joint request, with the batches of all added requests."""
        first = self._requests[0]
        if len(self._requests) > 1:
            topics: dict[bytes, list[tuple[int, memoryview]]] = {}
            for request in self._requests:
                for name, parts in request.topics:
                    topics.setdefault(name, []).extend(parts)
            first.topics = list(topics.items())
        return first


def parts_of(response: ProduceResponse, version: int, joint: JointRequest) -> list[ProduceResponse]:
    """Split a response into one response per joined request, each with the partitions of that request."""
    parts = [ProduceResponse(node_endpoints=response.node_endpoints) for _ in range(len(joint))]
    for topic in response.responses:
        name = topic.topic_id.bytes if version >= FIRST_WITH_IDS else topic.name.encode()
        for answer in topic.partition_responses:
            number = joint.numbers.get((name, answer.index))
            if number is not None:
                topics = parts[number].responses
                if not topics or (topics[-1].topic_id, topics[-1].name) != (topic.topic_id, topic.name):
                    topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id))
                topics[-1].partition_responses.append(answer)
    return parts


def take_hints(response: ProduceResponse, version: int, names: Mapping[UUID, str]) -> list[LeaderHint]:
    """Read a response's leader hints once, on behalf of all producers. See `HintReader.take`.

    Returns no hints if the topics are identified by name, because a topic of the same name may have been recreated.
    """
    reader = HintReader(version >= FIRST_WITH_IDS, response.node_endpoints)
    if reader.tells_leaders and response.node_endpoints:
        for topic in response.responses:
            for answer in topic.partition_responses:
                if answer.error_code and topic.topic_id in names:
                    name = names[topic.topic_id]
                    reader.take(name, topic.topic_id, answer.index, answer.error_code, answer.current_leader)
    return reader.hints


SLOW_S = 0.05
"""Seconds per request from which a broker counts as slow.

It may be waiting for replicas or its disk, and may have time for other requests.
"""
FEW = 4
"""Number of additional requests to a slow broker until it is known whether they slow each other down."""
SLOWER = 1.4
"""Factor by which the mean response time may grow when the number of requests doubles.

Beyond it, the broker or this machine is busy with the requests.
"""
STAGES_MOST = 64
"""Maximum number of stages without an increase, after more requests have slowed the broker down."""
LATE = 0.25
"""Weight of the latest response in the running mean of the broker's time per request."""
ROOM = 2
"""Maximum number of parcels that wait for a broker that is not slow.

With fewer, the broker would sometimes be idle. With more, batches would be closed early, and the next records of their
partitions would have to wait for another request.
"""


class Part(NamedTuple):
    """One producer's part of a request to a broker, with the functions that receive its result."""

    owner: Hashable
    request: ProduceRequest
    on_done: Callable[[Any, KafkaError | None], None]
    unsent: Callable[[KafkaError], None]
    """Called instead of ``on_done`` if the request could not be sent."""


class Places(NamedTuple):
    """The producers that have batches in a request, and the partitions of each."""

    owners: list[Hashable]
    numbers: dict[WirePartition, int] | None
    """The index of each partition's producer, or None for a transaction, whose requests are never joined."""

    def keep_out(self, other: Places) -> bool:
        """Return True if another producer's request could not have been joined with this request."""
        mine, theirs = self.owners, other.owners
        if self.numbers is None or other.numbers is None:
            return any(owner not in theirs for owner in mine)
        return any(
            mine[self.numbers[partition]] is not theirs[number]
            for partition, number in other.numbers.items()
            if partition in self.numbers
        )


class Parcel:
    """A request to send. It comes from one producer or is joined from several."""

    __slots__ = ("_joint", "came_at", "left_at", "parts", "version", "way")

    def __init__(self, way: object, version: int, part: Part) -> None:
        """Create a parcel with one producer's request. ``way`` is the connection that is ready for it."""
        self.way = way
        self.version = version
        self.parts = [part]
        self.came_at = 0.0
        self.left_at = 0.0
        """Time at which the parcel was sent, in monotonic seconds."""
        self._joint = JointRequest(part.request) if is_plain(part.request) else None

    def join(self, other: Parcel) -> bool:
        """Add another parcel's requests to this one. Return False if that is impossible."""
        if self._joint is None or other._joint is None or (other.way, other.version) != (self.way, self.version):
            return False
        if not self._joint.add(other._joint):
            return False
        self.parts += other.parts
        return True

    def split(self, owners: Container[Hashable]) -> list[Parcel]:
        """Return a parcel without these owners' requests, and a parcel with only their requests.

        Empty parcels are omitted.
        """
        kinds: dict[bool, Parcel] = {}
        for part in self.parts:
            one = Parcel(self.way, self.version, part)
            one.came_at = self.came_at
            kind = kinds.setdefault(part.owner in owners, one)
            if kind is not one:
                kind.join(one)
        return [kinds[kind] for kind in sorted(kinds)]

    def places(self) -> Places:
        """Return the producers that have batches in the parcel."""
        return Places([part.owner for part in self.parts], self._joint.numbers if self._joint is not None else None)

    def request(self) -> ProduceRequest:
        """Return the Produce request to send, with the batches of all producers."""
        return self.parts[0].request if self._joint is None else self._joint.request()

    def done(self, response: Any, error: KafkaError | None) -> None:
        """Pass the response, or the error if the request was lost, to the producers."""
        if response is None or self._joint is None or len(self.parts) == 1 or isinstance(response, BatchesResponse):
            for part in self.parts:
                part.on_done(response, error)
            return
        for part, answer in zip(self.parts, parts_of(response, self.version, self._joint), strict=True):
            part.on_done(answer, error)

    def refused(self, error: KafkaError) -> None:
        """Pass the error to the producers, because the request could not be sent."""
        for part in self.parts:
            part.unsent(error)


class Breadth:
    """Adaptive maximum of additional requests to a slow broker.

    A *stage* consists of ``limit`` responses. If a stage has used the whole limit, the limit doubles. If this increases
    the mean response time too much, the limit is halved again and stays unchanged for some stages.
    """

    __slots__ = ("_answers", "_before_s", "_full", "_skip", "_stages", "_sum_s", "limit")

    def __init__(self) -> None:
        self.limit = FEW
        self._full = False
        """True if ``limit`` requests were in flight at the same time during this stage."""
        self._answers = 0
        self._sum_s = 0.0
        """Sum of the response times in this stage, in seconds."""
        self._before_s = math.inf
        """Mean response time in seconds of the previous stage, with half the requests in flight."""
        self._stages = 1
        """Number of stages without an increase that will follow the next stage that is too slow."""
        self._skip = 0
        """Number of stages without an increase that remain."""

    def sent(self, under_way: int) -> None:
        """Note how many additional requests are in flight, now that one has been sent."""
        self._full = self._full or under_way >= self.limit

    def answered(self, took_s: float) -> None:
        """Count a response that took ``took_s`` seconds. At the end of a stage, adapt the limit."""
        self._answers += 1
        self._sum_s += took_s
        if self._answers < self.limit:
            return
        mean_s = self._sum_s / self._answers
        if mean_s > SLOWER * self._before_s:
            self.limit = max(FEW, self.limit // 2)
            self._before_s = math.inf
            self._skip, self._stages = self._stages, min(STAGES_MOST, 2 * self._stages)
        elif self._skip:
            self._skip -= 1
        elif self._full:
            self.limit *= 2
            self._before_s = mean_s
        self._answers, self._sum_s, self._full = 0, 0.0, False


class Outbox:
    """Queues the parcels for one broker, oldest first, and tracks the producers with requests in flight.

    The *owner* of a request is its producer.
    """

    def __init__(self) -> None:
        self._waiting: list[Parcel] = []
        self._held: Counter[Hashable] = Counter()
        """Number of waiting requests of each owner."""
        self._on_first: Counter[Hashable] = Counter()
        """Number of requests in flight on the first connection, by owner."""
        self._beside: Counter[Hashable] = Counter()
        """Number of requests in flight on additional connections, by owner."""
        self._contenders: set[Hashable] = set()
        """Owners whose requests could not be joined while the broker was slow. They may use additional connections."""
        self._latest = Places([], None)
        """The owners that have batches in the latest request on the first connection."""
        self._under_way = 0
        """Number of requests in flight on the first connection."""
        self._under_way_beside = 0
        """Number of requests in flight on additional connections."""
        self._breadth = Breadth()
        self._at_work_since = 0.0
        """Time at which the broker began to process its current request on the first connection."""
        self._served_s = 0.0
        """Running mean of the seconds per request on the first connection."""

    def __len__(self) -> int:
        """Return the number of waiting parcels."""
        return len(self._waiting)

    # --- the broker's speed -------------------------------------------------------------------------------------------

    def slow(self, now: float) -> bool:
        """Return True if the broker is slow, so requests should not wait for the first connection."""
        return self._serves_s(now) >= SLOW_S

    def slow_at(self) -> float:
        """Return the time at which the broker will count as `slow` unless it responds first.

        Returns infinity if it already counts as slow, or if no request is in flight.
        """
        return self._at_work_since + SLOW_S if self._under_way and self._served_s < SLOW_S else math.inf

    def _serves_s(self, now: float) -> float:
        return max(self._served_s, now - self._at_work_since) if self._under_way else self._served_s

    def _room_beside(self, now: float) -> int:
        """Return the number of requests that may still be sent on additional connections."""
        return self._breadth.limit - self._under_way_beside if self.slow(now) else 0

    # --- accepting requests -------------------------------------------------------------------------------------------

    def holds_back(self, owner: Hashable) -> bool:
        """Return True if the owner's next request must wait for its previous one.

        The previous one is waiting, or is in flight on an additional connection.
        """
        return owner in self._held or owner in self._beside

    def is_open(self, way_free: bool, now: float) -> bool:
        """Return True if requests are accepted from some owners.

        ``way_free`` is True if the first connection can take a request.
        """
        waiting = len(self._waiting)
        return waiting < max(ROOM, self._room_beside(now)) and bool(way_free or waiting or self._contenders)

    def takes(self, owner: Hashable, way_free: bool, now: float) -> bool:
        """Return True if a request of this owner is accepted.

        ``way_free`` is True if the first connection can take a request. If not, the request joins a waiting parcel,
        follows it, or uses an additional connection like the owner's earlier requests.
        """
        if self.holds_back(owner) or not self.is_open(way_free, now):
            return False
        return bool(way_free or self._waiting) or (owner in self._contenders and owner not in self._on_first)

    def add(self, parcel: Parcel, now: float) -> None:
        """Queue a producer's request after its earlier requests.

        If possible, join it with the requests of other producers.
        """
        owner = parcel.parts[0].owner
        parcel.came_at = now
        if not self.slow(now):
            if self._contenders:
                self._contenders.clear()
                self._breadth = Breadth()
        elif self._latest.keep_out(parcel.places()):
            self._contenders.add(owner)
        behind = 0
        if owner in self._held:
            behind = 1 + max(at for at, other in enumerate(self._waiting) if _has(other, owner))
        self._held[owner] += 1
        if not any(other.join(parcel) for other in self._waiting[behind:]):
            self._waiting.append(parcel)

    # --- sending requests ---------------------------------------------------------------------------------------------

    def wants_connection(self, coming: int, now: float) -> bool:
        """Return True if the waiting parcels need another connection.

        ``coming`` is the number of connections that are already being opened.
        """
        return coming < min(len(self._waiting), self._room_beside(now))

    def first(self, now: float, *, beside: bool) -> Parcel | None:
        """Return the oldest parcel that may be sent now on the first connection or, with ``beside``, on another one.

        While the first connection has requests in flight, the parcels of owners in ``_contenders`` wait up to `SLOW_S`
        for an additional connection, on which the response is likely to arrive sooner. Returns None if no parcel may be
        sent.
        """
        for at, parcel in enumerate(self._waiting):
            stuck: Container[Hashable] = self._beside
            if beside:
                stuck = self._beside.keys() | self._on_first.keys()
            elif self._under_way and self._contenders and now < parcel.came_at + SLOW_S:
                stuck = self._beside.keys() | (self._contenders - self._on_first.keys())
            if not any(part.owner in stuck for part in parcel.parts):
                return parcel
            if not all(part.owner in stuck for part in parcel.parts):
                self._waiting[at : at + 1] = parcel.split(stuck)
                return self._waiting[at]
        return None

    def left(self, parcel: Parcel, now: float, *, beside: bool) -> None:
        """Remove the parcel from the queue, because it is being sent. `ended` must follow."""
        self._waiting.remove(parcel)
        owners = [part.owner for part in parcel.parts]
        _take_away(self._held, owners)
        if beside:
            self._under_way_beside += 1
            self._breadth.sent(self._under_way_beside)
            parcel.left_at = now
            self._beside.update(owners)
            self._contenders.update(owners)
            return
        if not self._under_way:
            self._at_work_since = now
        self._under_way += 1
        self._on_first.update(owners)
        self._latest = parcel.places()

    def ended(self, parcel: Parcel, now: float, *, beside: bool) -> None:
        """Record the end of a sent parcel: it was answered or lost, or could not be sent."""
        owners = [part.owner for part in parcel.parts]
        if beside:
            self._under_way_beside -= 1
            self._breadth.answered(now - parcel.left_at)
            _take_away(self._beside, owners)
            return
        _take_away(self._on_first, owners)
        self._served_s += (now - self._at_work_since - self._served_s) * LATE
        self._at_work_since = now
        self._under_way -= 1

    def forget(self, owner: Hashable) -> None:
        """Forget a producer that has stopped, so that it no longer affects the others."""
        self._contenders.discard(owner)
        self._latest = Places([], None)


def _has(parcel: Parcel, owner: Hashable) -> bool:
    return any(part.owner is owner for part in parcel.parts)


def _take_away(counter: Counter[Hashable], owners: list[Hashable]) -> None:
    for owner in owners:
        counter[owner] -= 1
        if not counter[owner]:
            del counter[owner]

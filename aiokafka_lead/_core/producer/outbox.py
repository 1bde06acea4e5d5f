"""Produce requests of several producers that wait to be sent to one broker.

A broker serves the requests of a connection in order, so one producer's records wait for all earlier requests. Batches
of producers that write to different partitions share a request and do not wait. But a request has at most one batch per
partition, and a transaction needs separate requests. Such requests are sent in order of arrival or, if that would take
long, on additional connections. A producer that uses an additional connection has one request at a time, and none on
the first connection, so that its records stay in order; a separate client would be no faster. A refused request delays
only the batches in it (rule 15 of leadership).
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
from .produce_codec import FIRST_WITH_IDS, BatchesRequest, BatchesResponse

# --- joint requests ---------------------------------------------------------------------------------------------------
#
# One Produce request with the batches of several producers.
#
# Brokers check the producer id in each batch; a request has none. A request has at most one batch per partition.


WirePartition = tuple[bytes, int]
"""A partition as in a request: the topic's encoded name or id, and the partition's number."""

JOINT_BYTES = 256 * 1024
"""Maximum size of a joint request. The overhead of larger requests is small compared to their records."""
JOINT_BATCHES = 500
"""Maximum number of batches in a joint request. Each batch has a separate answer."""


def is_plain(request: ProduceRequest) -> TypeGuard[BatchesRequest]:
    """Return True if a request may be joined. A transaction's id would apply to all batches of a joint request."""
    return isinstance(request, BatchesRequest) and request.transactional_id is None


class JointRequest:
    """Begins with one producer's request, and adds requests of other producers."""

    __slots__ = ("_bytes", "_requests", "numbers")

    def __init__(self, first: BatchesRequest) -> None:
        self._requests = [first]
        self.numbers = {(name, index): 0 for name, parts in first.topics for index, _ in parts}
        """Index of the request with each partition."""
        self._bytes = sum(len(records) for _, parts in first.topics for _, records in parts)

    def __len__(self) -> int:
        """Return the number of requests."""
        return len(self._requests)

    def add(self, other: JointRequest) -> bool:
        """Add another request; return False if its settings differ, it shares a partition, or it is too large."""
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
        """Return the joined request."""
        first = self._requests[0]
        if len(self._requests) > 1:
            topics: dict[bytes, list[tuple[int, memoryview]]] = {}
            for request in self._requests:
                for name, parts in request.topics:
                    topics.setdefault(name, []).extend(parts)
            first.topics = list(topics.items())
        return first


def parts_of(response: ProduceResponse, version: int, joint: JointRequest) -> list[ProduceResponse]:
    """Split an answer into one answer per request, each with that request's partitions."""
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
    """Read an answer's hints once for all producers; see `HintReader.take`.

    Returns no hints if topics are identified by name, because the answer then does not identify their incarnation.
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
"""Seconds per request from which on a broker is slow: it may be waiting for replicas or its disk, and free for more."""
FEW = 4
"""Number of additional requests for a slow broker, until it is known if they slow each other down."""
SLOWER = 1.4
"""If the mean answer time grows by more than this factor when requests are doubled, the broker or this machine is
busy with them."""
STAGES_MOST = 64
"""Maximum number of stages without another increase after a broker has become slower with more requests."""
LATE = 0.25
"""Weight of the latest answer in the broker's mean time per request."""
ROOM = 2
"""Maximum number of parcels that wait for a quick broker. With fewer it would be idle at times. With more, batches
would be closed early, and their partitions' next records would wait for another request."""


class Part(NamedTuple):
    """A request of one producer."""

    owner: Hashable
    request: ProduceRequest
    on_done: Callable[[Any, KafkaError | None], None]
    unsent: Callable[[KafkaError], None]
    """Called instead of ``on_done`` if the request is not sent."""


class Places(NamedTuple):
    """The producers whose batches are in a request."""

    owners: list[Hashable]
    numbers: dict[WirePartition, int] | None
    """Index of the owner by partition; None for a transaction, whose requests are never joined."""

    def keep_out(self, other: Places) -> bool:
        """Return True if another owner's request could not have joined this request."""
        mine, theirs = self.owners, other.owners
        if self.numbers is None or other.numbers is None:
            return any(owner not in theirs for owner in mine)
        return any(
            mine[self.numbers[partition]] is not theirs[number]
            for partition, number in other.numbers.items()
            if partition in self.numbers
        )


class Parcel:
    """One request to send, of one producer or joined from several."""

    __slots__ = ("_joint", "came_at", "left_at", "parts", "version", "way")

    def __init__(self, way: object, version: int, part: Part) -> None:
        """Begin with one producer's part; ``way`` is the connection that was ready for it."""
        self.way = way
        self.version = version
        self.parts = [part]
        self.came_at = 0.0
        self.left_at = 0.0
        """Send time in monotonic seconds."""
        self._joint = JointRequest(part.request) if is_plain(part.request) else None

    def join(self, other: Parcel) -> bool:
        """Add another parcel's parts to the same request; return False if that is impossible."""
        if self._joint is None or other._joint is None or (other.way, other.version) != (self.way, self.version):
            return False
        if not self._joint.add(other._joint):
            return False
        self.parts += other.parts
        return True

    def split(self, owners: Container[Hashable]) -> list[Parcel]:
        """Return a parcel without these owners' requests and a parcel with only these, leaving out an empty parcel."""
        kinds: dict[bool, Parcel] = {}
        for part in self.parts:
            one = Parcel(self.way, self.version, part)
            one.came_at = self.came_at
            kind = kinds.setdefault(part.owner in owners, one)
            if kind is not one:
                kind.join(one)
        return [kinds[kind] for kind in sorted(kinds)]

    def places(self) -> Places:
        """Return the producers whose batches it contains."""
        return Places([part.owner for part in self.parts], self._joint.numbers if self._joint is not None else None)

    def request(self) -> ProduceRequest:
        """Return the request to send."""
        return self.parts[0].request if self._joint is None else self._joint.request()

    def done(self, response: Any, error: KafkaError | None) -> None:
        """Pass on the answer, or the error if the request was lost."""
        if response is None or self._joint is None or len(self.parts) == 1 or isinstance(response, BatchesResponse):
            for part in self.parts:
                part.on_done(response, error)
            return
        for part, answer in zip(self.parts, parts_of(response, self.version, self._joint), strict=True):
            part.on_done(answer, error)

    def refused(self, error: KafkaError) -> None:
        """Pass the error of a request that could not be sent to its producers."""
        for part in self.parts:
            part.unsent(error)


class Breadth:
    """Adapts the number of additional requests for a slow broker: doubles it while requests do not become slower.

    A stage ends after ``limit`` answers; its mean answer time decides about the next stage.
    """

    __slots__ = ("_answers", "_before_s", "_full", "_skip", "_stages", "_sum_s", "limit")

    def __init__(self) -> None:
        self.limit = FEW
        self._full = False
        """True if ``limit`` requests were in flight at the same time."""
        self._answers = 0
        self._sum_s = 0.0
        """Sum of the answer times in this stage."""
        self._before_s = math.inf
        """Mean answer time in the previous stage, with half the requests."""
        self._stages = 1
        """Number of stages without an increase after the next slower stage."""
        self._skip = 0
        """Remaining stages without an increase."""

    def sent(self, under_way: int) -> None:
        """Note the number of requests in flight."""
        self._full = self._full or under_way >= self.limit

    def answered(self, took_s: float) -> None:
        """Count an answer."""
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
    """The waiting parcels of one broker, oldest first, and the producers with requests in flight."""

    def __init__(self) -> None:
        self._waiting: list[Parcel] = []
        self._held: Counter[Hashable] = Counter()
        """Number of waiting requests by owner."""
        self._on_first: Counter[Hashable] = Counter()
        """Each owner's number of requests in flight on the first connection."""
        self._beside: Counter[Hashable] = Counter()
        """Each owner's number of requests in flight on additional connections."""
        self._contenders: set[Hashable] = set()
        """Owners whose requests could not be joined while the broker was slow."""
        self._latest = Places([], None)
        """Owners of the latest request on the first connection."""
        self._under_way = 0
        """Number of requests in flight on the first connection."""
        self._under_way_beside = 0
        """Number of requests in flight on additional connections."""
        self._breadth = Breadth()
        self._at_work_since = 0.0
        """Time at which the broker began with its current request on the first connection."""
        self._served_s = 0.0
        """Recent mean seconds per request on the first connection."""

    def __len__(self) -> int:
        """Return the number of waiting parcels."""
        return len(self._waiting)

    # --- the broker's speed -------------------------------------------------------------------------------------------

    def slow(self, now: float) -> bool:
        """Return True if requests should not wait for the first connection alone."""
        return self._serves_s(now) >= SLOW_S

    def slow_at(self) -> float:
        """Return the time at which the broker becomes `slow` without an answer; infinity if it is, or is idle."""
        return self._at_work_since + SLOW_S if self._under_way and self._served_s < SLOW_S else math.inf

    def _serves_s(self, now: float) -> float:
        return max(self._served_s, now - self._at_work_since) if self._under_way else self._served_s

    def _room_beside(self, now: float) -> int:
        """Return the number of further requests that may be sent on additional connections."""
        return self._breadth.limit - self._under_way_beside if self.slow(now) else 0

    # --- accepting requests -------------------------------------------------------------------------------------------

    def holds_back(self, owner: Hashable) -> bool:
        """Return True if the owner's next request must wait: its last one waits or is on an additional connection."""
        return owner in self._held or owner in self._beside

    def is_open(self, way_free: bool, now: float) -> bool:
        """Return True if some owners' requests are accepted. ``way_free``: the first connection takes a request."""
        waiting = len(self._waiting)
        return waiting < max(ROOM, self._room_beside(now)) and bool(way_free or waiting or self._contenders)

    def takes(self, owner: Hashable, way_free: bool, now: float) -> bool:
        """Return True if a request of this owner is accepted.

        If the connection is not free, the request joins a waiting parcel, follows it, or uses an additional connection
        like the owner's earlier requests.
        """
        if self.holds_back(owner) or not self.is_open(way_free, now):
            return False
        return bool(way_free or self._waiting) or (owner in self._contenders and owner not in self._on_first)

    def add(self, parcel: Parcel, now: float) -> None:
        """Queue a producer's request after its earlier requests, joined with other producers' requests if possible."""
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
        """Return True if waiting parcels need another connection, given the number that is being opened."""
        return coming < min(len(self._waiting), self._room_beside(now))

    def first(self, now: float, *, beside: bool) -> Parcel | None:
        """Return the oldest parcel that may be sent now on the first connection, or ``beside`` it on an additional one.

        A contender's parcel is not queued on a busy first connection at once: an additional connection answers sooner.
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
        """Record that the request was sent; `ended` follows."""
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
        """Record that the request was answered, was lost, or could not be sent."""
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
        """Forget a producer that has ended."""
        self._contenders.discard(owner)
        self._latest = Places([], None)


def _has(parcel: Parcel, owner: Hashable) -> bool:
    return any(part.owner is owner for part in parcel.parts)


def _take_away(counter: Counter[Hashable], owners: list[Hashable]) -> None:
    for owner in owners:
        counter[owner] -= 1
        if not counter[owner]:
            del counter[owner]

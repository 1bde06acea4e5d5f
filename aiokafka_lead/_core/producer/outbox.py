"""Produce requests of several producers that wait for room on their way to one broker.

A broker serves the requests of a connection one after the other, so that one producer's records wait for all that was
sent before. Producers that write to different partitions do not feel that: what they have goes in one request. But a
partition has one batch in a request, and a transaction has requests of its own. Such requests leave in the order in
which they came, and if that would take long, on connections beside the first one. There each producer has one request
at a time, and nothing on its way elsewhere, so that its records stay in order; it is as well off as on a client of its
own. A refused request still holds up nothing but what is in it (rule 15 of leadership).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Hashable
from typing import Any, NamedTuple

from ..._wire.messages.produce import ProduceRequest
from ...errors import KafkaError
from .joint_request import JointRequest, WirePartition, is_plain, parts_of
from .produce_codec import BatchesResponse

__all__ = ["Outbox", "Parcel", "Part"]

SLOW_S = 0.05
"""A broker that takes longer for a request may be waiting for replicas or its disk, with time for others meanwhile."""
FEW = 4
"""Requests beside that a slow broker gets, until it shows whether they make each other slower."""
SLOWER = 1.4
"""Twice the requests take at least this many times as long each if the broker, or this machine, is busy with them."""
STAGES_MOST = 64
"""After this number of stages a broker that was made slower by more requests gets more again, at the latest."""
LATE = 0.25
"""The weight of the latest answer in how long a broker takes for one."""
ROOM = 2
"""Parcels that wait for a broker that is quick. Fewer would leave it idle. More would close batches early, and their
partitions' next records wait for one more request."""


class Part(NamedTuple):
    """A request of one producer."""

    owner: Hashable
    request: ProduceRequest
    on_done: Callable[[Any, KafkaError | None], None]
    unsent: Callable[[KafkaError], None]
    """Called instead of ``on_done`` if the request is not sent."""


class Places(NamedTuple):
    """Whose batches a request has."""

    owners: list[Hashable]
    numbers: dict[WirePartition, int] | None
    """By partition, at which place among the owners; None of a transaction, which goes by itself in any case."""

    def keep_out(self, other: Places) -> bool:
        """Return True if another owner's request could not have gone with this one."""
        mine, theirs = self.owners, other.owners
        if self.numbers is None or other.numbers is None:
            return any(owner not in theirs for owner in mine)
        return any(
            mine[self.numbers[partition]] is not theirs[number]
            for partition, number in other.numbers.items()
            if partition in self.numbers
        )


class Parcel:
    """What leaves as one request: those of several producers, or that of one."""

    __slots__ = ("_joint", "came_at", "left_at", "parts", "version", "way")

    def __init__(self, way: object, version: int, part: Part) -> None:
        """``way``: the connection that was ready for it."""
        self.way = way
        self.version = version
        self.parts = [part]
        self.came_at = 0.0
        self.left_at = 0.0
        """Monotonic seconds."""
        self._joint = JointRequest(part.request) if is_plain(part.request) else None

    def join(self, other: Parcel) -> bool:
        """Take what another one has into the same request; return False if that cannot be."""
        if self._joint is None or other._joint is None or (other.way, other.version) != (self.way, self.version):
            return False
        if not self._joint.add(other._joint):
            return False
        self.parts += other.parts
        return True

    def split(self, owners: Container[Hashable]) -> list[Parcel]:
        """Two parcels, without the requests of these owners and with those alone; only one if it has but one kind."""
        kinds: dict[bool, Parcel] = {}
        for part in self.parts:
            one = Parcel(self.way, self.version, part)
            one.came_at = self.came_at
            kind = kinds.setdefault(part.owner in owners, one)
            if kind is not one:
                kind.join(one)
        return [kinds[kind] for kind in sorted(kinds)]

    def places(self) -> Places:
        """Whose batches are in it."""
        return Places([part.owner for part in self.parts], self._joint.numbers if self._joint is not None else None)

    def request(self) -> ProduceRequest:
        """The request to send."""
        return self.parts[0].request if self._joint is None else self._joint.request()

    def done(self, response: Any, error: KafkaError | None) -> None:
        """The request was answered, or lost."""
        if response is None or self._joint is None or len(self.parts) == 1 or isinstance(response, BatchesResponse):
            for part in self.parts:
                part.on_done(response, error)
            return
        for part, answer in zip(self.parts, parts_of(response, self.version, self._joint), strict=True):
            part.on_done(answer, error)

    def refused(self, error: KafkaError) -> None:
        """The request could not be sent."""
        for part in self.parts:
            part.unsent(error)


class Breadth:
    """How many requests beside the first connection a slow broker gets: more, as long as that makes each no slower.

    It goes by stages, each of as many answers.
    """

    __slots__ = ("_answers", "_before_s", "_full", "_skip", "_stages", "_sum_s", "limit")

    def __init__(self) -> None:
        self.limit = FEW
        self._full = False
        """``limit`` of them were under way at once."""
        self._answers = 0
        self._sum_s = 0.0
        """Of this stage."""
        self._before_s = math.inf
        """How long they took in the stage before, with half as many."""
        self._stages = 1
        """After a stage in which they took longer, this number of them is without more."""
        self._skip = 0
        """The rest of these."""

    def sent(self, under_way: int) -> None:
        """This number is under way."""
        self._full = self._full or under_way >= self.limit

    def answered(self, took_s: float) -> None:
        """One was answered."""
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
    """Of one broker: parcels that wait, oldest first, and which producers have some on their way."""

    def __init__(self) -> None:
        self._waiting: list[Parcel] = []
        self._held: Counter[Hashable] = Counter()
        """By owner, how many of its requests wait."""
        self._on_first: Counter[Hashable] = Counter()
        """By owner, how many of its requests are on their way on the first connection."""
        self._beside: Counter[Hashable] = Counter()
        """The same on others."""
        self._contenders: set[Hashable] = set()
        """Owners whose requests did not go together with others', while the broker was slow."""
        self._latest = Places([], None)
        """Whose batches the latest request on the first connection had."""
        self._under_way = 0
        """Requests on the first connection."""
        self._under_way_beside = 0
        """Requests on others."""
        self._breadth = Breadth()
        self._at_work_since = 0.0
        """When the broker began with the request that it is at on the first connection."""
        self._served_s = 0.0
        """How long it took for one there, of late."""

    def __len__(self) -> int:
        """How many parcels wait."""
        return len(self._waiting)

    # --- how the broker does ------------------------------------------------------------------------------------------

    def slow(self, now: float) -> bool:
        """Return True if requests should not wait for the first connection alone."""
        return self._serves_s(now) >= SLOW_S

    def slow_at(self) -> float:
        """When the broker will be `slow` if it does not answer before; infinity if it is, or has nothing to answer."""
        return self._at_work_since + SLOW_S if self._under_way and self._served_s < SLOW_S else math.inf

    def _serves_s(self, now: float) -> float:
        return max(self._served_s, now - self._at_work_since) if self._under_way else self._served_s

    def _room_beside(self, now: float) -> int:
        """How many more requests the broker may have on other connections."""
        return self._breadth.limit - self._under_way_beside if self.slow(now) else 0

    # --- what comes ---------------------------------------------------------------------------------------------------

    def holds_back(self, owner: Hashable) -> bool:
        """Return True while a request of the owner waits, or is on its way beside: the next one comes after that."""
        return owner in self._held or owner in self._beside

    def is_open(self, way_free: bool, now: float) -> bool:
        """Return True if requests of some owners are taken; ``way_free``: one could leave on the first connection."""
        waiting = len(self._waiting)
        return waiting < max(ROOM, self._room_beside(now)) and bool(way_free or waiting or self._contenders)

    def takes(self, owner: Hashable, way_free: bool, now: float) -> bool:
        """Return True if a request of this owner is taken.

        If the way is not free it goes with one that waits, next to that, or beside as the owner's earlier ones had to.
        """
        if self.holds_back(owner) or not self.is_open(way_free, now):
            return False
        return bool(way_free or self._waiting) or (owner in self._contenders and owner not in self._on_first)

    def add(self, parcel: Parcel, now: float) -> None:
        """Let one producer's request wait, together with others if that can be, but behind those of its own."""
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

    # --- what leaves --------------------------------------------------------------------------------------------------

    def wants_connection(self, coming: int, now: float) -> bool:
        """Return True if what waits had better go beside, where this number of connections more is being made."""
        return coming < min(len(self._waiting), self._room_beside(now))

    def first(self, now: float, *, beside: bool) -> Parcel | None:
        """The oldest parcel that may leave now, on the first connection or on another one.

        One of contenders does not go behind others' requests on the first as soon as it comes: beside, it is answered
        sooner.
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
        """The request is on its way; `ended` says when that is over."""
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
        """The request was answered, was lost, or could not be sent."""
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
        """The producer has ended."""
        self._contenders.discard(owner)
        self._latest = Places([], None)


def _has(parcel: Parcel, owner: Hashable) -> bool:
    return any(part.owner is owner for part in parcel.parts)


def _take_away(counter: Counter[Hashable], owners: list[Hashable]) -> None:
    for owner in owners:
        counter[owner] -= 1
        if not counter[owner]:
            del counter[owner]

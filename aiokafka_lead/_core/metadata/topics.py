"""The topics that the client needs, and the times of look-ups of unknown and missing topics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from ..._values import NamedTuple
from ...types import TopicPartition
from ..backoff import Backoff, Sparingly
from ..trust import Trust, patience_of
from .types import ClusterSnapshot

LOOKUP_TICK_S = 0.02
"""Failed look-ups are retried at multiples of this many seconds, so that many topics can share a request."""

DENIALS_TO_BELIEVE = 3
"""Number of brokers that must keep denying a topic before any broker may be asked about it again."""

ANSWERS_TO_BELIEVE = 4
BELIEVE_AFTER_S = 1.0
"""Seconds after which a topic that brokers deny may count as missing.

KRaft brokers usually lag less than this behind the controller.
"""

WARN_EVERY_S = 300.0
"""Minimum interval in seconds between warnings about the same missing topic or partition."""


def believed(answers: int, waited_s: float) -> bool:
    """Return True if this many responses without a topic or partition, over this time, show that it is missing."""
    return answers >= ANSWERS_TO_BELIEVE and waited_s >= BELIEVE_AFTER_S


class _Lookup:
    """The look-up of a needed topic that the client does not know."""

    __slots__ = ("answers", "denials", "missed_since", "retry_at", "waiters", "warned")

    def __init__(self, retry_at: float) -> None:
        self.retry_at = retry_at
        self.answers = 0
        """Number of consecutive responses without the topic."""
        self.denials: dict[int, Trust] = {}
        """The brokers that denied the topic."""
        self.waiters = 0
        """Number of calls that wait for the topic."""
        self.missed_since = 0.0
        """Time of the first response without the topic. Valid if ``answers`` is not 0."""
        self.warned = False
        """True if the topic counts as missing. A warning may already have been logged."""


class TopicsInUse:
    """Tracks the topics that each refresh requests, and the backoff of each unknown topic.

    A consumer *keeps* a topic until it drops it. A producer *uses* a topic until it has sent no record to it for the
    idle time. An unknown topic has at most one look-up at a time, at growing intervals, regardless of how many calls
    wait for it.
    """

    def __init__(self, max_idle_s: float, backoff: Backoff) -> None:
        self._max_idle_s = max_idle_s
        self._backoff = backoff
        self._patience_s = patience_of(backoff.longest_ms)
        self.everything = False
        """True if the client needs every topic of the cluster."""
        self._all_for: set[object] = set()
        """The users that need all topics."""
        self._kept: Counter[str] = Counter()
        """Number of users of each kept topic."""
        self._expires: dict[str, float] = {}
        """Expiry time of each used topic."""
        self._used: set[str] = set()
        """Topics used since the last call of `expire`.

        It stores no times, because reading the clock in `use` would be too slow.
        """
        self._lookups: dict[str, _Lookup] = {}
        self._warnings = Sparingly(WARN_EVERY_S)

    def __contains__(self, name: object) -> bool:
        return name in self._kept or name in self._expires or name in self._used

    def names(self) -> list[str]:
        """Return the names of all topics that are kept or used."""
        return list(self._kept.keys() | self._expires.keys() | self._used)

    # --- topics in use -----------------------------------------------------------------------------------------------

    def keep(self, names: Iterable[str]) -> None:
        """Keep these topics until `drop` has been called once for each call of this method."""
        self._kept.update(names)

    def drop(self, names: Iterable[str]) -> list[str]:
        """Undo one call of `keep`. Return the topics that no other user needs either."""
        gone = []
        for name in names:
            self._kept[name] -= 1
            if self._kept[name] <= 0:
                del self._kept[name]
            if name not in self and not self._waited_for(name):
                self._lookups.pop(name, None)
                gone.append(name)
        return gone

    def keep_all(self, wanted: bool, user: object) -> bool:
        """Keep all topics for this user, or stop doing so. Return True if this changes `everything`."""
        (self._all_for.add if wanted else self._all_for.discard)(user)
        before, self.everything = self.everything, bool(self._all_for)
        return self.everything != before

    def use(self, name: str) -> None:
        """Note that a producer sends to this topic. It is kept until it has been unused for the idle time."""
        self._used.add(name)

    def expire(self, now: float) -> list[str]:
        """Forget the topics that have been unused for the idle time. Return the topics that are no longer needed."""
        for name in self._used:
            self._expires[name] = now + self._max_idle_s
        self._used.clear()
        idle = [name for name, expiry in self._expires.items() if expiry <= now and not self._waited_for(name)]
        for name in idle:
            del self._expires[name]
        return self.drop(name for name in idle if name not in self._kept)

    # --- unknown topics ----------------------------------------------------------------------------------------------

    def look_up(self, name: str, now: float) -> None:
        """Look up an unknown topic at once, unless a look-up is running or its backoff has not ended."""
        if name not in self._lookups:
            self._lookups[name] = _Lookup(now)

    def wait(self, name: str, now: float) -> object:
        """Count a call that waits for this unknown topic. Return the look-up, to be passed to `leave`."""
        self.look_up(name, now)
        lookup = self._lookups[name]
        lookup.waiters += 1
        return lookup

    def leave(self, name: str, waited_for: object) -> int:
        """Record that a call has stopped waiting for a look-up. Return the number of calls that still wait for it.

        A missing topic that no other user needs is not looked up again. If the look-up has ended, there may already be
        another one, for which other calls wait.
        """
        lookup = self._lookups.get(name)
        if lookup is None or lookup is not waited_for:
            return 0
        lookup.waiters -= 1
        if lookup.waiters == 0 and name not in self._kept:
            del self._lookups[name]
            self._expires.pop(name, None)
            self._used.discard(name)
        return lookup.waiters

    def found(self, name: str) -> None:
        """Record that the topic is now known, which ends its look-up."""
        self._lookups.pop(name, None)

    def missed(self, name: str, node_id: int, now: float) -> bool:
        """Record a response without the topic or without its leaders. The topic is looked up again after the backoff.

        Returns True if a warning should be logged, because the topic counts as missing and no warning about it was
        logged recently. It is always False for kept topics, because consumers log their own warnings (see `Absences`).
        """
        lookup = self._lookups.setdefault(name, _Lookup(now))
        if not lookup.answers:
            lookup.missed_since = now
        lookup.answers += 1
        lookup.denials.setdefault(node_id, Trust()).refused(now, now, self._patience_s)
        retry_at = now + self._backoff.delay_s(lookup.answers)
        lookup.retry_at = math.ceil(retry_at / LOOKUP_TICK_S) * LOOKUP_TICK_S
        if lookup.warned or name in self._kept or not believed(lookup.answers, now - lookup.missed_since):
            return False
        lookup.warned = True
        return self._warnings.allow(name, now)

    def doubted(self, names: Iterable[str], now: float) -> set[int]:
        """Return the brokers to ask last, because they keep denying one of these topics.

        If several brokers deny a topic, it probably does not exist, so no broker is avoided because of it.
        """
        found: set[int] = set()
        for name in names:
            lookup = self._lookups.get(name)
            if lookup is not None:
                denials = [node for node, trust in lookup.denials.items() if trust.in_doubt(now, self._patience_s)]
                if len(denials) < DENIALS_TO_BELIEVE:
                    found.update(denials)
        return found

    def due(self, now: float) -> list[str]:
        """Return the unknown topics whose look-up is due now."""
        return [name for name, lookup in self._lookups.items() if lookup.retry_at <= now]

    def next_due(self) -> float:
        """Return the time at which `due` will next return topics, or infinity if no topic is unknown."""
        return min((lookup.retry_at for lookup in self._lookups.values()), default=math.inf)

    def lookups(self, name: str) -> int:
        """Return the number of consecutive responses without this unknown topic."""
        lookup = self._lookups.get(name)
        return 0 if lookup is None else lookup.answers

    def _waited_for(self, name: str) -> bool:
        lookup = self._lookups.get(name)
        return lookup is not None and lookup.waiters > 0


# --- missing topics and partitions ------------------------------------------------------------------------------------
#
# Decides when to check for missing topics and partitions, when to warn, and when to give up.
#
# Brokers learn of a new topic or partition at different times, so a single response without it proves little; see
# `believed`. A missing topic may also be created at any time. The client therefore checks for it, at growing intervals,
# until it exists or is no longer needed.


LOOK_AT_LEAST_EVERY_MS = 10_000.0

Absent = TopicPartition | str
"""A missing partition, or the name of a topic that has no partitions."""


class Look(NamedTuple):
    """The result of one check for missing topics and partitions."""

    refresh: bool
    """True if the client should request newer metadata."""
    warn_of: list[Absent]
    """Missing topics and partitions about which a warning should be logged now."""
    until: float | None
    """Time of the next check unless an event occurs first, or None if nothing is missing."""


class _Absence:
    __slots__ = ("answers_before", "since", "warn_at")

    def __init__(self, since: float, answers_before: int) -> None:
        self.since = since
        """Time at which the topic or partition was first missing."""
        self.answers_before = answers_before
        """Number of responses before that time."""
        self.warn_at: float | None = None
        """Time of the next warning, or None before the first."""


class Absences:
    """Tracks missing topics and partitions. Decides when to request metadata about them and when to log a warning."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = Backoff(backoff.first_ms, max(backoff.longest_ms, LOOK_AT_LEAST_EVERY_MS), backoff.rng)
        self._absences: dict[Absent, _Absence] = {}
        self._asked = 0
        """Number of refreshes requested since a topic or partition was last added to the missing ones."""
        self._ask_at = 0.0

    def __bool__(self) -> bool:
        """Return True if anything was missing at the last check."""
        return bool(self._absences)

    @property
    def confirmed(self) -> tuple[str, ...]:
        """Names of the topics and partitions that are still missing and for which a warning was logged."""
        return tuple(sorted(str(what) for what, absence in self._absences.items() if absence.warn_at is not None))

    def hurry(self, now: float) -> None:
        """Check at once and restart the growing intervals, because a call is waiting."""
        self._asked, self._ask_at = 0, now

    def look(self, now_absent: Iterable[Absent], answers: int, now: float) -> Look:
        """Update the set of missing topics and partitions.

        ``answers`` is the number of responses about all topics so far.
        """
        former, self._absences = self._absences, {}
        for what in now_absent:
            known = former.get(what)
            if known is None:
                known = _Absence(now, answers)
                self.hurry(now)
            self._absences[what] = known
        if not self._absences:
            return Look(refresh=False, warn_of=[], until=None)
        warn_of: list[Absent] = []
        for what, absence in self._absences.items():
            is_absent = believed(answers - absence.answers_before, now - absence.since)
            if is_absent and (absence.warn_at is None or now >= absence.warn_at):
                absence.warn_at = now + WARN_EVERY_S
                warn_of.append(what)
        refresh = now >= self._ask_at
        if refresh:
            self._asked += 1
            self._ask_at = now + self._backoff.delay_s(self._asked)
        return Look(refresh, warn_of, self._ask_at)


class MissingPartitions:
    """Decides if partitions that one broker reports as unknown are really missing from the cluster."""

    def __init__(self) -> None:
        self._refused: dict[TopicPartition, tuple[float, int]] = {}
        """The time of the first refusal, and the number of other brokers' responses without the partition."""

    def judge(self, refused: Iterable[TopicPartition], counts: Mapping[str, int], now: float) -> set[TopicPartition]:
        """Return the partitions to give up, because they do not exist.

        ``refused`` are the partitions that the broker does not know. ``counts`` contains another broker's number of
        partitions of each topic: 0 if that broker does not know the topic either, and no entry if its response does not
        cover the topic.
        """
        missing = set()
        for tp in refused:
            count = counts.get(tp.topic)
            if count is None:
                continue
            if tp.partition < count:
                self._refused.pop(tp, None)  # the partition exists, so the broker that refused lags behind
                continue
            since, answers = self._refused.get(tp, (now, 0))
            self._refused[tp] = since, answers + 1
            if believed(answers + 1, now - since):
                missing.add(tp)
        return missing


def absent(topics: Iterable[str], partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot) -> Iterable[Absent]:
    """Yield the missing topics, and the missing partitions of existing topics."""
    topics = {name for name in topics if name in snapshot.topics and not snapshot.partition_count(name)}
    yield from topics
    for tp in partitions:
        if tp.topic not in topics and snapshot.lacks(*tp):
            yield tp

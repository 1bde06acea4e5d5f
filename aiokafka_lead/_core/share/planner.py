"""Planning a share group member's requests: which request to send to which broker, and when."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from uuid import UUID

from ..._values import NamedTuple
from ..._wire.messages.share_acknowledge import ShareAcknowledgeRequest
from ..._wire.messages.share_fetch import ShareFetchRequest
from ...errors import KafkaError
from ...types import TopicPartition
from ..leadership.patience import MoveClock, Patience, RetryPolicy
from ..metadata.types import NO_LEADER, ClusterSnapshot
from ..trust import Trust
from .counters import ShareCounters
from .exchange import ACK_LINGER_S, Exchange, Sent, Settled
from .session import (
    FINAL_EPOCH,
    FIRST_VERSION_WITH_RENEWALS,
    FetchLimits,
    SharedPartition,
    acknowledge_request,
    fetch_request,
)

HELD_BACK_MS = 50
"""Maximum time in milliseconds for which a broker may hold a fetch while this member holds records from it.

The acknowledgements of these records have to wait for the fetch, because a session has only one request at a time.
"""

AT_ONCE_MS = 5
"""The same limit after a response that reached its record limit, because more records are already there.

A short limit also helps if the partition gets another leader, because brokers (4.3) then hold the fetch until its time
limit.
"""


class PlacedPartition:
    """An assigned partition, its leader, and the state of fetching it."""

    __slots__ = ("begun", "failure", "leader_epoch", "leader_id", "left_out", "move", "patience", "topic_id", "tp")

    def __init__(self, tp: TopicPartition, topic_id: UUID) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.leader_id = NO_LEADER
        self.leader_epoch = -1
        self.patience = Patience()
        self.failure: type[KafkaError] | None = None
        """The error of the last fetch, or None."""
        self.move = MoveClock()
        self.begun = False
        """True once the partition's leader has answered a fetch. That fixes the group's start offset with "latest"."""
        self.left_out = False
        """True if a response has omitted the partition, because there was no news or the leader has not looked at it
        yet.
        """

    @property
    def key(self) -> SharedPartition:
        """The partition, identified as in share sessions."""
        return SharedPartition(self.topic_id, self.tp.partition)


class Asked(NamedTuple):
    """A partition in a ShareFetch request, with its leader epoch at that time."""

    partition: PlacedPartition
    leader_epoch: int


class Planned(NamedTuple):
    """A request, with the data needed to read its response."""

    exchange: Exchange
    request: ShareFetchRequest | ShareAcknowledgeRequest
    version: int
    sent_at: float
    acks: Mapping[SharedPartition, list[Sent]]
    fetched: Mapping[SharedPartition, Asked]
    """The partitions that the request fetches. It is empty for a ShareAcknowledge."""
    max_records: int


class PlannerOptions(NamedTuple):
    """Options that are part of the requests, under their own names."""

    group_id: str
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    connections_max_idle_ms: float


class SharePlanner:
    """Plans the requests to all brokers. Decides from which broker to fetch each assigned partition."""

    def __init__(self, options: PlannerOptions, member_id: str, settled: Settled) -> None:
        self._options = options
        self._member_id = member_id
        self._settled = settled
        self.retry = RetryPolicy(options.retry_backoff_ms, options.retry_backoff_max_ms)
        self.counters = ShareCounters()
        self.exchanges: dict[int, Exchange] = {}
        """Exchanges by node id."""
        self._partitions: dict[TopicPartition, PlacedPartition] = {}
        self.leaderless: frozenset[TopicPartition] = frozenset()
        """Partitions without a leader at a known address."""

    # --- the assignment -----------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that the group has assigned to this member."""
        return frozenset(self._partitions)

    def assign(self, target: Mapping[TopicPartition, UUID]) -> None:
        """Replace the assignment. Partitions that stay assigned keep their state."""
        known = self._partitions
        self._partitions = {
            tp: known[tp] if tp in known and known[tp].topic_id == topic_id else PlacedPartition(tp, topic_id)
            for tp, topic_id in target.items()
        }

    def place(self, snapshot: ClusterSnapshot) -> None:
        """Look up the leader of each assigned partition in the metadata."""
        leaderless = []
        for tp, partition in self._partitions.items():
            partition.leader_id, partition.leader_epoch = snapshot.leader(*tp)
            if partition.leader_id not in snapshot.brokers:
                leaderless.append(tp)
            elif partition.leader_id not in self.exchanges:
                leader_id = partition.leader_id
                self.exchanges[leader_id] = Exchange(leader_id, self.retry, self._settled, self.counters)
        self.leaderless = frozenset(leaderless)
        for node_id in [node_id for node_id in self.exchanges if node_id not in snapshot.brokers]:
            if not self.exchanges[node_id].holds and not self.exchanges[node_id].busy:
                del self.exchanges[node_id]

    @property
    def sources(self) -> int:
        """The number of brokers that lead assigned partitions."""
        return len({partition.leader_id for partition in self._partitions.values()})

    def leader(self, tp: TopicPartition) -> int | None:
        """Return the broker from which an assigned partition is fetched, or None for any other partition."""
        found = self._partitions.get(tp)
        return None if found is None else found.leader_id

    def _placed(self, node_id: int) -> Iterator[PlacedPartition]:
        return (partition for partition in self._partitions.values() if partition.leader_id == node_id)

    def not_begun(self, assigned: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions whose start offset may not have been fixed by the broker yet."""
        return [tp for tp in assigned if tp not in self._partitions or not self._partitions[tp].begun]

    def in_doubt(self, tp: TopicPartition, now: float) -> bool:
        """Return True if the partition's leader keeps refusing and will probably not recover."""
        partition = self._partitions.get(tp)
        if partition is None:
            return False
        exchange = self.exchanges.get(partition.leader_id)
        return partition.patience.in_doubt(now, self.retry.patience_s) or (
            exchange is not None and exchange.in_doubt(now)
        )

    def stuck(self, now: float, limit_s: float) -> dict[TopicPartition, str]:
        """Return a description of each partition that its leader has refused for at least ``limit_s`` seconds."""
        found = {}
        for tp, partition in self._partitions.items():
            trust: Trust = partition.patience
            failure = partition.failure
            exchange = self.exchanges.get(partition.leader_id)
            if not trust.refusals and exchange is not None:
                trust, failure = exchange.trust, exchange.failure
            refused_s = now - trust.refused_since
            if trust.refusals and refused_s >= limit_s:
                last = "" if failure is None else f", the last time with {failure.__name__}"
                why = f"broker {partition.leader_id} has refused {trust.refusals} times{last}"
                found[tp] = f"{tp} has not been read for {refused_s:.1f} s: {why}"
        return found

    def _wanted(self, exchange: Exchange, now: float, *, fetching: bool) -> dict[SharedPartition, PlacedPartition]:
        """Return the partitions to fetch from a broker now.

        If ``fetching`` is False, only partitions whose start offset is not fixed yet are included.
        """
        return {
            partition.key: partition
            for partition in self._placed(exchange.node_id)
            if (fetching or not partition.begun) and partition.patience.waits_until(now, partition.leader_epoch) <= now
        }

    # --- requests ----------------------------------------------------------------------------------------------------

    def waiting(self, now: float, *, fetching: bool) -> list[Exchange]:
        """Return the exchanges with the brokers to which a request could be sent now.

        ``fetching`` is True if more records may be buffered.
        """
        return [
            exchange
            for exchange in self.exchanges.values()
            if not exchange.busy
            and not exchange.moving
            and now >= exchange.retry_at
            and (
                self._acks_due(exchange, now)
                or self._quiet_at(exchange) <= now
                or self._wanted(exchange, now, fetching=fetching)
            )
        ]

    def _acks_due(self, exchange: Exchange, now: float) -> bool:
        return exchange.has_unsent and (
            exchange.urgent or exchange.has_renewals or now >= exchange.unsent_since + ACK_LINGER_S
        )

    def _quiet_at(self, exchange: Exchange) -> float:
        """Return the time at which a request must be sent to keep the connection open.

        If the broker closed an idle connection, all locks would be lost.
        """
        if not exchange.holds or not exchange.session.is_open:
            return math.inf
        return exchange.asked_at + self._options.connections_max_idle_ms / 2000

    def plan(
        self,
        exchange: Exchange,
        version: int,
        now: float,
        max_records: int,
        *,
        strict: bool,
        moves_at: float = math.inf,
    ) -> Planned | None:
        """Return the next request to a broker, or None if there is nothing to send.

        ``max_records`` is 0 if no more records may be buffered. The session must move to another connection at
        ``moves_at``, which is impossible while a request is in flight.
        """
        exchange.version = version
        exchange.drop_expired(now)
        wanted = self._wanted(exchange, now, fetching=max_records > 0)
        session = exchange.session
        # A broker may hold a fetch for long, unless the records are already there. A fetch also cannot renew locks.
        alone = (exchange.urgent and not exchange.has_more) or exchange.has_renewals or not wanted
        if exchange.has_unsent and session.is_open and alone:
            if not self._acks_due(exchange, now):
                return None
            return self._acknowledge(exchange, version, now)
        if not wanted and not exchange.has_unsent:
            return self._acknowledge(exchange, version, now) if self._quiet_at(exchange) <= now else None
        # Without partitions, it only opens the session that the acknowledgements need.
        wait_ms = self._wait_ms(exchange, moves_at - now) if wanted else 0
        return self._fetch(exchange, version, now, wanted, max_records, wait_ms, strict=strict)

    def _acknowledge(self, exchange: Exchange, version: int, now: float) -> Planned:
        batches, sent = exchange.take(renewals=version >= FIRST_VERSION_WITH_RENEWALS)
        request = acknowledge_request(self._options.group_id, self._member_id, exchange.session.epoch, batches, version)
        self._asked(exchange, now)
        return Planned(exchange, request, version, now, sent, {}, 0)

    def _fetch(
        self,
        exchange: Exchange,
        version: int,
        now: float,
        wanted: Mapping[SharedPartition, PlacedPartition],
        max_records: int,
        wait_ms: int,
        *,
        strict: bool,
    ) -> Planned:
        """Return a ShareFetch for these partitions, which also carries acknowledgements if the session is open."""
        options, session = self._options, exchange.session
        batches, sent = exchange.take(renewals=False) if session.is_open else ({}, {})
        limits = FetchLimits(max_records, wait_ms, options.fetch_min_bytes, options.fetch_max_bytes, strict)
        if max_records <= 0:
            # Brokers respond as soon as the start offset of one partition is fixed, with at most one record.
            limits = limits._replace(max_records=1, min_bytes=0, strict=version >= FIRST_VERSION_WITH_RENEWALS)
        change = session.fetch(wanted, batches)
        request = fetch_request(options.group_id, self._member_id, change, batches, limits, version)
        self._asked(exchange, now)
        asked = {key: Asked(partition, partition.leader_epoch) for key, partition in wanted.items()}
        return Planned(exchange, request, version, now, sent, asked, limits.max_records if wanted else 0)

    def _wait_ms(self, exchange: Exchange, left_s: float) -> int:
        """Return the milliseconds for which the broker may hold a fetch.

        ``left_s`` is the number of seconds until the session moves.
        """
        most = self._options.fetch_max_wait_ms
        if left_s * 1000 < most:
            most = min(most, max(HELD_BACK_MS, int(left_s * 1000)))
        if exchange.has_more:
            exchange.has_more = False
            return min(most, AT_ONCE_MS)
        return min(most, HELD_BACK_MS) if exchange.holds else most

    @staticmethod
    def _asked(exchange: Exchange, now: float) -> None:
        exchange.busy = True
        exchange.asked_at = now

    def reopen(self, exchange: Exchange, version: int, now: float) -> Planned:
        """Return the request that moves a session to another connection.

        When the old connection closes, the broker keeps the acquired records, and accepts their acknowledgements on the
        new connection.
        """
        exchange.version = version
        exchange.session.begin_anew()
        return self._fetch(exchange, version, now, {}, 0, 0, strict=False)

    def close(self, exchange: Exchange, version: int, now: float) -> Planned | None:
        """Return the request that closes a session, with the last acknowledgements, or None if there is no session."""
        if not exchange.session.is_open:
            return None
        batches, sent = exchange.take(renewals=False)
        request = acknowledge_request(self._options.group_id, self._member_id, FINAL_EPOCH, batches, version)
        self._asked(exchange, now)
        return Planned(exchange, request, version, now, sent, {}, 0)

    def next_time(self, now: float) -> float:
        """Return the time at which a request may be due unless an event occurs first, or infinity if there is none."""
        times = [math.inf]
        for exchange in self.exchanges.values():
            if not exchange.busy:
                times.append(exchange.retry_at)
                times.append(exchange.unsent_since + ACK_LINGER_S)
                times.append(self._quiet_at(exchange))
                times += [
                    partition.patience.waits_until(now, partition.leader_epoch)
                    for partition in self._placed(exchange.node_id)
                ]
        return min(at for at in times if at > now)

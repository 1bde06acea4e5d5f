"""Merging the fetches of several consumers from one broker into a single fetch session.

A consumer's request is an *ask*. It stays open until there is data for this consumer. Only one request of the session
is in flight at a time, the *main* request, and the broker holds it while no partition has records. The session includes
every partition that a consumer wants, even while that consumer's ask is briefly closed. Data that arrives during this
time is *kept* for the consumer's next ask. Once a consumer has received data of a partition, it does not want that
partition until its next ask. Partitions of a consumer that does not ask again are no longer fetched.

A partition that a consumer asks for while the main request is pending does not wait for it. It is fetched with
*probes*, requests without a session that the broker answers immediately, until the session's next request includes it.
Two consumers that are at the same offset of a partition share its data. If they are at different offsets, the main
requests alternate between the offsets, and probes fetch the others.

No request iterates over all consumers, or over all partitions of a consumer. The size limit of a request is the sum of
the limits of the open asks, so the memory of all consumers together is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from uuid import UUID

from ..._wire.messages.fetch import FetchableTopicResponse, FetchResponse, NodeEndpoint, PartitionData
from ...errors import FrameTooLargeError, KafkaError
from ...types import TopicPartition
from ..backoff import Backoff
from ..trust import Trust, patience_of
from .fetch_plan import BESIDE_AFTER_S, PlannedFetch, Suspects
from .fetch_session import FetchSession, SessionRequest, names_by_id, version_to_send
from .merged_ask import Answered, Asker, AskingConsumer, Asks, MergedRequest
from .position import PartitionFetch

PROBE_AGAIN_S = 0.04
"""Initial delay in seconds before a probe is repeated after one that returned no data."""

PATIENCE_S = 0.002
"""Seconds for which the next main request waits for consumers that have just been answered to ask again."""

VIRTUAL_SESSION_ID = 1
"""Session id in the answers to asks. Each consumer has its own session with the merger."""


class MergedFetches:
    """Plans the merged fetches from one broker.

    The caller sends the requests that `main` and `probe` return, and then calls `answered` or `failed`.
    """

    def __init__(self, hold_s: float, max_wait_s: float, max_bytes: int, backoff: Backoff) -> None:
        """Start without consumers.

        An ask without data stays open for ``hold_s``, even if the broker answers earlier. A response may have at most
        ``max_bytes``.
        """
        self._hold_s = hold_s
        self._max_wait_s = max_wait_s
        self._max_bytes = max_bytes
        self._backoff = backoff
        self._patience_s = patience_of(backoff.longest_ms)
        self._consumers: dict[Asker, AskingConsumer] = {}
        self._asks = Asks()
        self._by_tp: dict[TopicPartition, list[AskingConsumer]] = {}
        """The consumers that want each partition, in the order of their turns."""
        self._dirty: dict[TopicPartition, None] = {}
        """Partitions that the session's latest request does not contain, or contains with another offset."""
        self._session = FetchSession()
        self._names: dict[UUID, str] = {}
        self._ends: dict[TopicPartition, tuple[int, int, int]] = {}
        """The last known ends of each partition's log: high watermark, last stable offset, log start offset."""
        self._main: MergedRequest | None = None
        self._probe: MergedRequest | None = None
        self._probe_at = math.inf
        self._vain_probes = 0
        """Number of consecutive probes that returned no data."""
        self._suspects = Suspects()
        self._useless = Trust()
        """Counts consecutive responses that contained nothing useful."""
        self._wait_until = 0.0
        self._patient_until = 0.0
        """Time until which the next main request waits for more asks."""

    # --- asks --------------------------------------------------------------------------------------------------------

    def ask(self, owner: Asker, planned: PlannedFetch, now: float) -> Answered | None:
        """Open an ask. If its answer is already known, close it and return the answer."""
        consumer = self._consumers.get(owner)
        if consumer is None:
            consumer = self._consumers[owner] = AskingConsumer(owner)
            changed: Iterable[tuple[TopicPartition, PartitionFetch]] = planned.asked.items()
        else:
            for _, tp in planned.request.forget:
                self._unwant(consumer, tp)
            changed = planned.request.send.items()
        given, consumer.given = consumer.given, set()
        if consumer.away:
            consumer.away = False
            given = set(consumer.wants)
        news: list[tuple[TopicPartition, PartitionData]] = []
        for tp, fetch in changed:
            if tp not in consumer.wants:
                self._by_tp.setdefault(tp, []).append(consumer)
            elif consumer.wants[tp] != fetch:
                consumer.kept.pop(tp, None)
            consumer.wants[tp] = fetch
            if self._session.known.get(tp) != fetch:
                self._stain(tp, now)
            elif tp not in consumer.seen and tp in self._ends:
                news.append((tp, self._end_of(tp)))
        for tp in given:
            if tp not in consumer.kept and tp in consumer.wants and self._session.known.get(tp) != consumer.wants[tp]:
                self._stain(tp, now)
        self._asks.open(consumer, planned, now)
        kept, consumer.kept = consumer.kept, {}
        endpoints, consumer.kept_endpoints = consumer.kept_endpoints, []
        for tp, data in kept.items():
            news.append((tp, data))
            self._give(consumer, tp, data)
        return self._answer(consumer, planned.sent_at, now, news, endpoints) if news else None

    def _end_of(self, tp: TopicPartition) -> PartitionData:
        high_watermark, last_stable_offset, log_start_offset = self._ends[tp]
        return PartitionData(
            partition_index=tp.partition,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log_start_offset,
        )

    def recall(self, owner: Asker, now: float) -> None:
        """Close a consumer's ask without an answer, because the consumer is about to ask for other partitions."""
        consumer = self._consumers.get(owner)
        if consumer is not None:
            self._asks.close(consumer, now)

    def leave(self, owner: Asker) -> None:
        """Remove a consumer, its ask, and the partitions that it wants."""
        consumer = self._consumers.pop(owner, None)
        if consumer is not None:
            self._asks.remove(consumer)
            for tp in list(consumer.wants):
                self._unwant(consumer, tp)

    def _unwant(self, consumer: AskingConsumer, tp: TopicPartition) -> None:
        if consumer.wants.pop(tp, None) is not None:
            consumer.seen.discard(tp)
            consumer.given.discard(tp)
            consumer.kept.pop(tp, None)
            others = self._by_tp[tp]
            others.remove(consumer)
            if not others:
                del self._by_tp[tp]
                self._ends.pop(tp, None)
            self._dirty[tp] = None

    def _stain(self, tp: TopicPartition, now: float) -> None:
        self._dirty[tp] = None
        self._vain_probes = 0
        self._probe_at = min(self._probe_at, now)

    @property
    def idle(self) -> bool:
        """True if no consumer is left."""
        return not self._consumers

    @property
    def asked(self) -> bool:
        """True if at least one ask is open."""
        return bool(self._asks)

    # --- requests ----------------------------------------------------------------------------------------------------

    def main_due(self, now: float) -> bool:
        """Return True if the next main request should be sent now."""
        return self._main is None and self.asked and now >= self._main_at()

    def _main_at(self) -> float:
        return max(self._wait_until, self._patient_until) if self._asks.more_to_come else self._wait_until

    def probe_due(self, now: float) -> bool:
        """Return True if a probe should be sent now."""
        return self._main is not None and self._probe is None and bool(self._dirty) and now >= self._next_probe_at()

    def _next_probe_at(self) -> float:
        assert self._main is not None
        return max(self._probe_at, self._main.sent_at + BESIDE_AFTER_S)

    def next_time(self, now: float) -> float | None:
        """Return the time at which a request will be due unless an event occurs first, or None."""
        if self._main is None:
            at = self._main_at()
            return at if at > now and self.asked else None
        if self._probe is None and self._dirty and self._next_probe_at() < math.inf:
            return max(now, self._next_probe_at())
        return None

    def main(self, version: int, now: float) -> MergedRequest | None:
        """Return the next main request, or None if no partition is wanted. A returned request counts as sent.

        After a response that was too large to read, each request contains only one suspected partition (see
        `Suspects`).
        """
        session = self._session
        for consumer in self._asks.send_away(now):
            self._dirty.update(dict.fromkeys(consumer.wants))
        suspect = self._suspects.next(self._by_tp)
        if suspect is not None:
            fetch = self._in_turn(suspect)[0]
            if fetch is not None:
                self._main = self._beside({suspect: fetch}, version, self._asks.max_bytes, now)
                return self._main
            self._suspects.cleared([suspect])
            return self.main(version, now)
        if session.is_full:
            self._dirty = dict.fromkeys(self._by_tp)
        fetches: dict[TopicPartition, PartitionFetch] = {}
        dropped: list[TopicPartition] = []
        contested: dict[TopicPartition, None] = {}
        for tp in self._dirty:
            fetch, others = self._in_turn(tp)
            if fetch is None:
                dropped.append(tp)
            else:
                fetches[tp] = fetch
                if others:
                    contested[tp] = None
        ids = names_by_id(fetches, version)
        if session.begins_anew(ids):
            session.failed()
            return self.main(version, now)
        if session.is_full:
            self._names = {}
            request = session.full(fetches, ids)
        else:
            request = session.incremental(fetches, dropped)
        for tp, fetch in fetches.items():
            self._names[fetch.topic_id] = tp.topic
        self._dirty = contested
        self._probe_at = now if contested else math.inf
        if not session.known:
            session.failed()
            return None
        max_bytes = min(self._max_bytes, self._asks.max_bytes)
        self._main = MergedRequest(
            False, version_to_send(version, ids), request, session.known, self._names, max_bytes, now
        )
        return self._main

    def probe(self, version: int, now: float) -> MergedRequest | None:
        """Return a request for partitions that the pending main request lacks, or None.

        A returned request counts as sent.
        """
        assert self._main is not None
        self._probe_at = math.inf
        fetches: dict[TopicPartition, PartitionFetch] = {}
        asks: dict[AskingConsumer, PlannedFetch] = {}
        for tp in self._dirty:
            for consumer in self._by_tp.get(tp, ()):
                fetch = consumer.wants[tp]
                if consumer.ask is not None and consumer.wants_now(tp) and fetch != self._main.asked.get(tp):
                    fetches[tp] = fetch
                    asks[consumer] = consumer.ask
                    break
        if not fetches:
            return None
        self._probe = self._beside(fetches, version, sum(ask.max_bytes for ask in asks.values()), now, probe=True)
        return self._probe

    def _beside(
        self,
        fetches: dict[TopicPartition, PartitionFetch],
        version: int,
        max_bytes: int,
        now: float,
        *,
        probe: bool = False,
    ) -> MergedRequest:
        version = version_to_send(version, names_by_id(fetches, version))
        names = {fetch.topic_id: tp.topic for tp, fetch in fetches.items()}
        request = SessionRequest.beside(fetches)
        return MergedRequest(probe, version, request, fetches, names, min(self._max_bytes, max_bytes), now)

    def _in_turn(self, tp: TopicPartition) -> tuple[PartitionFetch | None, bool]:
        """Return the next fetch of a partition, and True if other consumers want other offsets.

        Consumers with different offsets take turns. The fetch is None if no consumer wants the partition now.
        """
        consumers = self._by_tp.get(tp, [])
        wanting = [consumer for consumer in consumers if consumer.wants_now(tp)]
        if not wanting:
            return None, False
        first = wanting[0]
        others = any(consumer.wants[tp] != first.wants[tp] for consumer in wanting)
        if others:
            consumers.remove(first)
            consumers.append(first)
        return first.wants[tp], others

    # --- responses and answers ---------------------------------------------------------------------------------------

    def answered(self, sent: MergedRequest, response: FetchResponse, now: float) -> list[Answered]:
        """Return the answers to the asks that end now.

        An ask ends if the response contains data for its consumer, or if it has been open for long enough.
        """
        self._take(sent)
        self._suspects.cleared(sent.asked)
        readable = not response.error_code
        if not sent.request.sessionless:
            readable = self._session.answered(response.error_code, response.session_id)
        if not readable:
            self._waste(now)
            return []
        pieces, count = self._pieces(sent, response)
        if not sent.probe:
            if sent.request.epoch in (0, -1) and count < len(sent.asked):
                self._session.failed()
                self._waste(now)
            else:
                self._useless.confirmed()
        elif pieces:
            self._vain_probes, self._probe_at = 0, now
        else:
            again_s = PROBE_AGAIN_S * 2**self._vain_probes
            self._vain_probes += again_s < self._max_wait_s / 2
            self._probe_at = now + min(again_s, self._max_wait_s / 2)
        if not sent.probe:
            for consumer in self._asks.open_for(self._hold_s, now):
                pieces.setdefault(consumer, [])
        endpoints = response.node_endpoints
        return [self._answer(consumer, sent.sent_at, now, news, endpoints) for consumer, news in pieces.items()]

    def _pieces(
        self, sent: MergedRequest, response: FetchResponse
    ) -> tuple[dict[AskingConsumer, list[tuple[TopicPartition, PartitionData]]], int]:
        """Return the data for each consumer, and the number of partitions in the response."""
        pieces: dict[AskingConsumer, list[tuple[TopicPartition, PartitionData]]] = {}
        count = 0
        for topic in response.responses:
            name = topic.topic or sent.names.get(topic.topic_id)
            for data in topic.partitions:
                tp = TopicPartition(name or "", data.partition_index)
                asked = sent.asked.get(tp)
                if asked is None:
                    continue
                count += 1
                if not sent.probe and not data.error_code:
                    self._ends[tp] = (data.high_watermark, data.last_stable_offset, data.log_start_offset)
                elif sent.probe and _says_nothing(data):
                    # A probe's response does not update the log ends, because the main request's response does.
                    continue
                for consumer in self._by_tp.get(tp, ()):
                    if not consumer.wants_now(tp) or consumer.wants[tp] != asked:
                        continue
                    if consumer.ask is not None:
                        pieces.setdefault(consumer, []).append((tp, data))
                        self._give(consumer, tp, data)
                    elif tp not in consumer.kept or not _says_nothing(data):
                        consumer.kept[tp] = data
                        consumer.kept_endpoints += response.node_endpoints
                        self._give(consumer, tp, data)
        return pieces, count

    def _give(self, consumer: AskingConsumer, tp: TopicPartition, data: PartitionData) -> None:
        """Give a partition's data to a consumer, which then does not want the partition until its next ask."""
        if not _says_nothing(data):
            consumer.given.add(tp)
            self._dirty[tp] = None

    def failed(self, sent: MergedRequest, error: KafkaError, now: float) -> list[Answered]:
        """Return an answer with the error to each ask of a request that got no response.

        If the response was too large to read, only the asks for the partition responsible fail, once that is known.
        """
        self._take(sent)
        if isinstance(error, FrameTooLargeError):
            if not sent.request.sessionless:
                self._session.failed()
            culprit = self._suspects.accuse(sent.asked)
            return [] if culprit is None else self._end_asks_for(culprit, sent, error, now)
        if sent.probe:
            self._probe_at = sent.sent_at + self._max_wait_s
            return []
        self._session.failed()
        return self.give_up(error, now)

    def refused(self, sent: MergedRequest, error: KafkaError, now: float) -> list[Answered]:
        """Return an answer with the error to each ask of a refused request. Delay the next request."""
        self._waste(now)
        return self.failed(sent, error, now)

    def _end_asks_for(self, tp: TopicPartition, sent: MergedRequest, error: KafkaError, now: float) -> list[Answered]:
        found = []
        for consumer in self._by_tp.get(tp, ()):
            if consumer.wants[tp] == sent.asked[tp]:
                consumer.given.add(tp)
                self._dirty[tp] = None
                if consumer.ask is not None:
                    planned = consumer.ask._replace(request=sent.request, asked={tp: sent.asked[tp]})
                    found.append(Answered(consumer.owner, planned, None, error))
                    self._asks.close(consumer, now)
        return found

    def give_up(self, error: KafkaError, now: float) -> list[Answered]:
        """Return an answer with the error to each open ask, because the broker cannot be reached."""
        found = []
        for consumer in self._asks:
            assert consumer.ask is not None
            found.append(Answered(consumer.owner, consumer.ask, None, error))
            self._asks.close(consumer, now)
        return found

    def close(self) -> SessionRequest | None:
        """Return a request that closes the session, or None if there is no session."""
        return self._session.close()

    def _answer(
        self,
        consumer: AskingConsumer,
        sent_at: float,
        now: float,
        news: Iterable[tuple[TopicPartition, PartitionData]],
        endpoints: Iterable[NodeEndpoint],
    ) -> Answered:
        """Close a consumer's ask. Return the answer, in the form of a Fetch response with only this consumer's data."""
        planned = consumer.ask
        assert planned is not None
        self._asks.close(consumer, now)
        self._patient_until = now + PATIENCE_S
        topics: dict[str, FetchableTopicResponse] = {}
        for tp, data in news:
            consumer.seen.add(tp)
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = FetchableTopicResponse(topic=tp.topic)
            topic.partitions.append(data)
        response = FetchResponse(
            session_id=VIRTUAL_SESSION_ID, responses=list(topics.values()), node_endpoints=list(endpoints)
        )
        return Answered(consumer.owner, planned._replace(sent_at=sent_at), response, None)

    def _take(self, sent: MergedRequest) -> None:
        if sent.probe:
            self._probe = None
        else:
            self._main = None

    def _waste(self, now: float) -> None:
        """Count a response without data. From the second in a row on, delay the next request."""
        self._wait_until = now + self._backoff.delay_s(self._useless.refusals)
        self._useless.refused(now, now, self._patience_s)

    def in_doubt(self, now: float) -> bool:
        """Return True if this broker's responses are useless, so that other brokers should be asked for the leaders."""
        return self._useless.in_doubt(now, self._patience_s)


def _says_nothing(data: PartitionData) -> bool:
    """Return True if a partition's data contains no records and no error. It may still contain the log's ends."""
    return not data.records and not data.error_code and data.diverging_epoch.end_offset < 0

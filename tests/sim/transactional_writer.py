"""A transactional producer without tasks: real state, errands and sequences, and loops in place of its tasks.

A loop is a generator that yields the condition for which it waits, and resumes when that is true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from aiokafka_lead._core.backoff import Backoff
from aiokafka_lead._core.inquiry import MOVED
from aiokafka_lead._core.metadata.refresh import lost as gone
from aiokafka_lead._core.producer.batches import Record
from aiokafka_lead._core.transactions.additions import add_partitions_request, read_added
from aiokafka_lead._core.transactions.errand import Errand
from aiokafka_lead._core.transactions.state import Phase, TransactionState
from aiokafka_lead._core.transactions.verdicts import Call, Verdict, verdict_of
from aiokafka_lead._wire import ApiVersions
from aiokafka_lead.config import ProducerConfig
from aiokafka_lead.errors import KafkaConnectionError, KafkaError
from aiokafka_lead.types import TopicPartition
from tests.simulated.timeline import Timeline
from tests.transactions.history import History, Value, Written

from .cluster import TOPIC
from .transactional_cluster import TransactionalCluster
from .writer import Writer

VERSIONS = ApiVersions({22: (0, 5), 24: (0, 5), 26: (0, 5), 65: (0, 0)})
ABORTED_SHARE = 0.25
"""Share of transactions to abort, among those without a fault."""
Wait = Generator[Callable[[], bool], None, Any]


class TransactionalWriter(Writer):
    """Runs transactions in succession until asked to stop."""

    def __init__(
        self,
        number: int,
        timeline: Timeline,
        cluster: TransactionalCluster,
        config: ProducerConfig,
        history: History,
    ) -> None:
        super().__init__(timeline, cluster, config)
        assert config.transactional_id is not None
        self.state = TransactionState(config.transactional_id, config.transaction_timeout_ms)
        self.stopping = False
        self.stopped = False
        self._brokers = cluster
        self._number = number
        self._history = history
        self._rng = timeline.rng
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, timeline.rng.random)
        self._request_timeout_s = config.request_timeout_ms / 1000
        self._coordinator: int | None = None
        self._adding = False
        self._failed_anew = False
        self._loops = [(self._live(), _now), (self._add_partitions(), _now)]
        """Loops, each with the condition for which it waits."""

    def _identify(self) -> None:
        assert self._accumulator.transactional is not None
        self._sequencing = self._accumulator.transactional
        self._sequencing.on_failure = self._fail

    # --- loops -------------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        super().pump()
        for index, (loop, condition) in enumerate(self._loops):
            while condition():
                condition = next(loop)
                self.client.woken = True
            self._loops[index] = loop, condition
        if self._failed_anew:
            self._failed_anew = False
            self._answers.abort(self.state.aborted, self._timeline.now)
            self._notify()

    def _pause(self, seconds: float) -> Wait:
        until = self._timeline.now + seconds
        self._timeline.later(seconds, self._notify)
        yield lambda: self._timeline.now >= until

    # --- the application's part --------------------------------------------------------------------------------------

    def _live(self) -> Wait:
        yield lambda: self._topic_known()
        yield from self._carry_out(self.state.start())
        yield from self._go_through()
        self.stopped = True
        yield _never

    def _go_through(self) -> Wait:
        transaction = 0
        while not self.stopping and self.state.phase is not Phase.FENCED:
            transaction += 1
            written = self._history.written[self._number, transaction] = Written()
            yield from self._one(transaction, written)
            self.note(written)

    def note(self, written: Written) -> None:
        """Note the outcome of the transaction, as far as it is known."""
        outcome = self.state.fate.outcome
        written.outcome = None if outcome is None else outcome.value

    def _topic_known(self) -> bool:
        known = self._accumulator.topic(TOPIC) is not None
        if not known:
            self.client.request_update()
        return known

    def _one(self, transaction: int, written: Written) -> Wait:
        yield from self._fill(transaction, written)
        if self._rng.random() < ABORTED_SHARE:
            yield from self._abort()
        else:
            yield from self._commit()

    def _fill(self, transaction: int, written: Written) -> Wait:
        rng, state = self._rng, self.state
        state.begin(self._brokers.v2, self._timeline.now)
        self._sequencing.begin(state.number, state.producer_id, state.epoch, state.v2)
        for place in range(rng.randrange(8)):
            if state.phase is not Phase.OPEN:
                break
            value = Value(self._number, transaction, place)
            index = rng.randrange(len(self._brokers.partitions))
            written.values.append((index, value))
            self._put(value, index)
            yield from self._pause(rng.expovariate(60))

    def _put(self, value: Value, index: int) -> None:
        now = self._timeline.now
        topic = self._accumulator.topic(TOPIC)
        assert topic is not None
        record = Record(TOPIC, value.encoded(), None, index, round(now * 1000), ())
        if topic.append(record.value, None, index, record.timestamp_ms, ()) is None:
            assert self._accumulator.append(topic, record, now) is not None, "no memory"

    # --- the transactions' manager -----------------------------------------------------------------------------------

    def _fail(self, error: KafkaError) -> None:
        if self.state.fail(error):
            self._sequencing.end()
            self._failed_anew = True
            self._notify()

    def _commit(self) -> Wait:
        yield from self._send_all()
        if self.state.phase is Phase.FAILED:
            yield from self._abort()
        else:
            yield from self._end()

    def _send_all(self) -> Wait:
        if self.state.phase is Phase.OPEN:
            self.state.commit()
            done: list[bool] = []
            ticket = self._accumulator.start_flush(partial(done.append, True), self._timeline.now)
            if ticket is not None:
                yield lambda: bool(done)
                self._accumulator.end_flush(ticket)
            yield lambda: not self._adding
        if self.state.phase is not Phase.FAILED:
            self._sequencing.end()

    def _abort(self) -> Wait:
        state, accumulator = self.state, self._accumulator
        self._sequencing.end()
        state.abort()
        self._answers.abort(state.aborted, self._timeline.now)
        yield lambda: not self._adding
        until = self._timeline.now + (2.0 if state.v2 else self._request_timeout_s)
        self._timeline.later(until - self._timeline.now, self._notify)
        yield lambda: not accumulator.unanswered or self._timeline.now >= until
        if accumulator.unanswered or self._sequencing.gap:
            state.renew = not state.v2
        yield from self._end()

    def _end(self) -> Wait:
        self.state.touched = self.state.touched or (self.state.v2 and self._sequencing.written)
        errand = self.state.end()
        if errand is not None:
            yield from self._carry_out(errand)

    def _carry_out(self, errand: Errand) -> Wait:
        failures = 0
        while errand.call is not None:
            request, version = errand.request(VERSIONS)
            answer, error = yield from self._ask(request, version, errand.lost)
            verdict = errand.failed(error) if error is not None else errand.answered(answer)
            if verdict is None:
                failures = 0
                self.state.advanced(errand)
                self._advanced()
                continue
            if isinstance(errand.latest, MOVED):
                self._coordinator = None
            failures += 1
            yield from self._pause(self._backoff.delay_s(failures))

    def _advanced(self) -> None:
        """Note that something may be known of the transaction."""

    def _add_partitions(self) -> Wait:
        sequencing = self._sequencing
        while True:
            yield lambda: bool(sequencing.wanted)
            self._adding = True
            number, failures = self.state.number, 0
            queues = list(sequencing.wanted)
            partitions = [TopicPartition(TOPIC, queue.partition) for queue in queues]
            self.state.touched = True
            while self._goes_on(number):
                request, version = add_partitions_request(self.state, partitions, VERSIONS)
                answer, error = yield from self._ask(request, version, self._lost)
                error = error or read_added(answer, partitions)
                verdict = None if error is None else verdict_of(Call.ADD_PARTITIONS, type(error))
                if isinstance(error, MOVED):
                    self._coordinator = None
                if verdict is Verdict.RETRY:
                    failures += 1
                    yield from self._pause(self._backoff.delay_s(failures))
                    continue
                if self._goes_on(number):
                    if error is not None:
                        self._fail(error)
                    else:
                        for queue in queues:
                            sequencing.added(queue)
                            self._accumulator.schedule.evaluate(queue, self._timeline.now)
                break
            self._adding = False

    def _goes_on(self, number: int) -> bool:
        return self.state.number == number and self.state.phase in (Phase.OPEN, Phase.COMMITTING)

    def _lost(self) -> None:
        self.state.renew = not self.state.v2

    # --- the coordinator ---------------------------------------------------------------------------------------------

    def _ask(self, request: Any, version: int, lost: Callable[[], None]) -> Wait:
        """Return the coordinator's answer, or raise the reason why there is none."""
        found = self._coordinator
        if found is None:
            node = self._rng.choice(list(self.client.snapshot.brokers))
            found, error = yield from self._sent(node, lambda peer: self._brokers.coordinator)
            if error is not None:
                return None, error
        self._coordinator = found
        answer, error = yield from self._sent(
            found, lambda peer: self._brokers.ask_coordinator(peer, request, version), lost
        )
        if error is not None:
            self._coordinator = None
        return answer, error

    def _sent(self, node: int, handle: Callable[[Any], Any], lost: Callable[[], None] | None = None) -> Wait:
        until = self._timeline.now + self._request_timeout_s
        self._timeline.later(self._request_timeout_s, self._notify)
        links = self.client.links
        yield lambda: links.ready(node, "coordinator") is not None or self._timeline.now >= until
        link = links.ready(node, "coordinator")
        if link is None:
            self.client.request_update(gone(node))
            return None, KafkaConnectionError("no connection")
        came: list[tuple[Any, KafkaError | None]] = []

        def done(answer: Any, error: KafkaError | None) -> None:
            came.append((answer, error))
            self._notify()

        if lost is not None and self._rng.random() < self._brokers.late_share:
            assert link.peer is not None
            self._timeline.later(self._rng.uniform(0.05, 1.0), partial(link.peer.serve, partial(handle, link.peer)))
            link.lost()
            lost()
            return None, KafkaConnectionError("connection lost")
        link.submit(lambda peer, reply: reply(handle(peer)), done)
        yield lambda: bool(came)
        if came[0][1] is not None and lost is not None:
            lost()
        return came[0]

    def next_at(self) -> float:
        return math.inf if self.stopped else super().next_at()


def _now() -> bool:
    return True


def _never() -> bool:
    return False

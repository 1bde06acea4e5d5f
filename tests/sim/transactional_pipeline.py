"""A pipeline without tasks: the real chain, and transactional producers whose blocks follow each other."""

from __future__ import annotations

from aiokafka_lead._core.transactions.chain import Chain, Chained, Event, Stage
from aiokafka_lead._core.transactions.errand import Outcome
from aiokafka_lead._core.transactions.state import Phase
from aiokafka_lead.config import ProducerConfig
from aiokafka_lead.errors import KafkaError, TransactionAbortedError
from tests.simulated.timeline import Timeline
from tests.transactions.history import History, Written

from .transactional_cluster import TransactionalCluster
from .transactional_writer import ABORTED_SHARE, TransactionalWriter, Wait


class SimChained(Chained):
    """A transaction and its writer."""

    def __init__(self, member: PipelinedWriter, behind: list[Written]) -> None:
        super().__init__()
        self.member = member
        self.written = Written()
        self.behind = behind
        """Transactions in flight when it began."""


class SimPipeline:
    """The order of turns, and the committed transactions."""

    def __init__(self, number: int, history: History) -> None:
        self.number = number
        self.members: list[PipelinedWriter] = []
        self.begun: list[SimChained] = []
        self._chain: Chain[SimChained] = Chain()
        self.history = history
        self._open = False
        self._turn = 0

    def is_turn_of(self, member: PipelinedWriter) -> bool:
        """Return True if a transaction may begin now."""
        if self._open or not self._chain.calm:
            return False
        busy = {chained.member for chained in self._chain}
        free = [other for other in self._in_turn() if other not in busy]
        return bool(free) and free[0] is member

    def _in_turn(self) -> list[PipelinedWriter]:
        return self.members[self._turn :] + self.members[: self._turn]

    def begin(self, member: PipelinedWriter) -> tuple[int, SimChained]:
        """Begin a block, and return its number."""
        chained = SimChained(member, [other.written for other in self._chain])
        self._turn = (self.members.index(member) + 1) % len(self.members)
        self._open = True
        self._chain.begin(chained)
        self.begun.append(chained)
        self.history.written[self.number, len(self.begun)] = chained.written
        return len(self.begun), chained

    def left(self) -> None:
        """End the block."""
        self._open = False
        self._tell()

    def go_on(self) -> None:
        """Commit the first transaction if it is its turn."""
        self._chain.next()
        self._tell()

    def settled(self, chained: SimChained) -> None:
        """Note that the transaction has ended."""
        if chained.stage is Stage.OVER:
            return
        chained.member.note(chained.written)
        if chained.member.state.fate.outcome is Outcome.COMMITTED:
            self._chain.ended(chained)
            self.go_on()
            return
        for each in self._chain.doom_behind(chained, TransactionAbortedError("one before it was aborted")):
            assert each.reason is not None
            each.member.fall(each.reason)
        self._chain.ended(chained)
        self._tell()

    def _tell(self) -> None:
        for member in self.members:
            member.wake()

    def findings(self) -> list[str]:
        """Return committed transactions with a predecessor, in flight at their begin, that is not committed."""
        return [
            f"transaction {number} of pipeline {self.number} is committed behind one that is not"
            for number, chained in enumerate(self.begun, 1)
            if chained.written.outcome == "committed" and any(each.outcome != "committed" for each in chained.behind)
        ]


class PipelinedWriter(TransactionalWriter):
    """A producer of a pipeline."""

    def __init__(
        self, pipeline: SimPipeline, timeline: Timeline, cluster: TransactionalCluster, config: ProducerConfig
    ) -> None:
        self._pipeline = pipeline
        self._chained: SimChained | None = None
        super().__init__(pipeline.number, timeline, cluster, config, pipeline.history)
        pipeline.members.append(self)

    def wake(self) -> None:
        """Check if the wait has ended."""
        self._notify()

    def fall(self, reason: KafkaError) -> None:
        """Fail: a predecessor is not committed."""
        self._fail(reason)

    def _go_through(self) -> Wait:
        while True:
            yield lambda: self.stopping or self._pipeline.is_turn_of(self)
            if self.stopping:
                return
            number, self._chained = self._pipeline.begin(self)
            yield from self._carry_through(self._chained, number)
            self._pipeline.settled(self._chained)

    def _carry_through(self, chained: SimChained, number: int) -> Wait:
        yield from self._fill(number, chained.written)
        if self._rng.random() >= ABORTED_SHARE:
            yield from self._send_all()
        stored = self.state.phase is Phase.COMMITTING
        if stored:
            self.state.store()
            chained.take(Event.STORE)
            self._pipeline.left()
            self._pipeline.go_on()
            yield lambda: chained.stage is not Stage.STORED
        elif chained.stage is Stage.OPEN:
            chained.take(Event.DOOM)
        if chained.stage is Stage.COMMITTING and self.state.phase is Phase.STORED:
            self.state.commit()
            yield from self._end()
        else:
            yield from self._abort()
        if not stored:
            self._pipeline.left()

    def _advanced(self) -> None:
        committed = self.state.fate.outcome is Outcome.COMMITTED
        if committed and self._chained is not None and self._chained.stage is Stage.COMMITTING:
            self._pipeline.settled(self._chained)  # although another epoch may have to come yet

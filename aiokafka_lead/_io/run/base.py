"""Base class of runs whose workers take single records: start, stop, failures and dead letters."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

from ... import errors
from ..._core.run.handler import NoAwaitableError, raw_record
from ..._core.run.refusals import REFUSALS
from ...types import RecordMetadata
from ..cancellation import to_the_end
from ..loop import News, Signal, Waiter
from .judge import SENT, Judge
from .outgoing import DeadLetters, Outgoing, Sending
from .workers import Slot, Worker, Workers, Workload

if TYPE_CHECKING:
    from ..._core.producer.delivery import Delivery

S = TypeVar("S", bound=Slot)
R = TypeVar("R")

CANCELLED_WITHIN_S = 1.0
"""Seconds for which a run waits for cancelled handlers to end."""

IDLE_MS = 60_000.0
"""Time limit in milliseconds of a wait for records."""

SEND_AGAIN_S = 1.0
"""Seconds after which a record is sent again if it could not be written to another topic in time."""


class WorkersRun(ABC, Generic[S, R]):
    """A run in which workers take single records. It owns the records in hand. Its tasks end before it returns."""

    def __init__(
        self,
        judge: Judge[R],
        work: Workload[S, R],
        handle: Callable[[R], Awaitable[object]],
        dead_letters: DeadLetters | None,
        take_over: Callable[[S, R], bool] | None = None,
    ) -> None:
        """Handle the records of ``work``, except those for which ``take_over`` returns True."""
        self._judge = judge
        self._log = judge.log
        self._dead_letters = dead_letters
        self._tasks = anyio.create_task_group()
        self._waiting = Signal()
        """Set when a record starts waiting until it is due, and when another topic has accepted or refused a record."""
        self._outgoing: Outgoing[S] = Outgoing(
            self._send if judge.tracing is None else self._send_traced, self._not_sent, self._waiting.set
        )
        """Sends records to other topics."""
        self._workers = Workers(
            self._tasks,
            work,
            judge.config.concurrency,
            judge.around(handle),
            self._failed,
            self._end,
            take_over,
            self._outgoing.hurry,
            slow_s=judge.config.slow_handler_ms / 1000,
            log=judge.log,
        )
        self._room = Signal()
        """Set when more records can be taken, or when the run may have to end."""
        self._calm = News()
        """Notified when a handler has ended that a task may be waiting for."""
        self._failure: BaseException | None = None
        """The error that ends the run, or None."""
        self._unsent_since: float | None = None
        """Time since which an outage delays records that must be sent to other topics, or None."""
        self._unsent_why = ""
        self._stop_at = math.inf
        """Deadline of the handlers while the consumer is being stopped."""
        self._end_by = math.inf
        """Deadline of the whole run while the consumer is being stopped."""
        self._ended: Waiter[None] = Waiter()

    # --- implemented for each kind of consumer ------------------------------------------------------------------------

    @abstractmethod
    def _is_over(self) -> bool:
        """Return True if there is nothing left to read, because the application has stopped or unsubscribed the
        consumer.
        """

    @abstractmethod
    async def _take(self, most_ms: float) -> None:
        """Take records up to the limit, or wait until more may be taken. Raises the error that prevents reading."""

    @abstractmethod
    async def _wind_up(self) -> None:
        """Take no more records, and wait for the handlers."""

    @abstractmethod
    async def _settle_last(self) -> None:
        """Commit or acknowledge the records that are done, for a limited time."""

    @abstractmethod
    def _attempt(self, slot: S, record: R, error: BaseException) -> int:
        """Count a failure of the record's handler. Return the number of attempts so far, including this one."""

    @abstractmethod
    def _wait(self, slot: S, record: R, error: BaseException, delay_s: float | None) -> None:
        """Handle the record again after ``delay_s`` seconds, or after its backoff if that is None."""

    @abstractmethod
    def _leave(self, slot: S) -> None:
        """Finish with the record in this slot. It will not be handled again."""

    @abstractmethod
    def _give_up(self, slot: S) -> None:
        """Take the record out of this slot although it is not done, and handle no more records."""

    @abstractmethod
    def _next_due(self) -> float | None:
        """Return the earliest time at which a waiting record is due (``time.monotonic()``), or None."""

    @abstractmethod
    def _due(self, now: float) -> None:
        """Continue with the waiting records that are due at the time ``now``."""

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def _live(self, *tasks: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run until the consumer is stopped. Raises the error that ends the run earlier."""
        wound_up = False
        try:
            async with self._tasks:
                for task in (self._go_on_in_time, self._outgoing.run, *tasks):
                    self._tasks.start_soon(task)
                try:
                    await self._feed()
                except (errors.KafkaError, KeyboardInterrupt) as error:
                    self._failure = error  # kept here, because the task group would wrap it
                else:
                    await self._wind_up()
                    wound_up = True
                self._tasks.cancel_scope.cancel()
        finally:
            for sending, delivery in self._outgoing.answers:
                if delivery.exception() is None:
                    self._accepted(sending, delivery.result())
            self._outgoing.slots.clear()
            await to_the_end(self._settle_last, "kafka last commit")
        if self._failure is not None:
            raise self._failure
        if not wound_up:
            raise errors.BackgroundTaskError(
                "the tasks of run() were cancelled, but run() was neither cancelled nor stopped"
            )

    async def _feed(self) -> None:
        """Take records until the consumer is stopped or unsubscribed, or the run fails."""
        refusals = self._judge.refusals
        while not self._is_over() and self._failure is None:
            try:
                await self._take(refusals.look_ms(IDLE_MS, time.monotonic()))
            except errors.IllegalStateError:
                if self._is_over():
                    return
                raise
            except REFUSALS as error:
                await self._room.wait(refusals.bear(error, time.monotonic()))

    async def _go_on_in_time(self) -> None:
        """Continue with waiting records once they are due, and with sent records once other topics have answered."""
        while True:
            due_at = self._next_due()
            await self._waiting.wait(None if due_at is None else max(0.0, due_at - time.monotonic()))
            self._settle_answers()
            self._due(time.monotonic())
            self._workers.rouse()

    def problem(self, now: float) -> str | None:
        """Return a description of the failures that the run currently tolerates, or None."""
        found = self._judge.problem(now)
        if found is None and self._unsent_since is not None:
            found = f"no dead letter or retry could be written for {now - self._unsent_since:.1f} s: {self._unsent_why}"
        return found

    def stuck_since(self) -> float | None:
        """Return the time at which the oldest running handler started (``time.monotonic()``), or None."""
        return self._workers.stuck_since()

    # --- ending the run ----------------------------------------------------------------------------------------------

    async def finish(self, ready_by: float, end_by: float) -> None:
        """End the run of a consumer that is being stopped.

        Handlers have until ``ready_by``, and all other work has until ``end_by``. Both are monotonic times in seconds.
        """
        self._stop_at, self._end_by = ready_by, end_by
        self._room.set()
        self._calm.tell()
        try:
            await self._ended.wait(max(0.0, end_by - time.monotonic()))
        except TimeoutError:
            for worker in self._workers.busy:
                self._log.warning("the handler of %s was cancelled, but has not ended", worker.place)

    async def _until_ended(
        self, workers: Callable[[], list[Worker[S]]], sending: Callable[[], object], deadline: float
    ) -> None:
        """Wait until the deadline for these workers, and for records that are being sent to other topics.

        After that, cancels the workers and waits `CANCELLED_WITHIN_S` for them to end.
        """

        def unfinished() -> object:
            return workers() or sending()

        await self._until_calm(unfinished, deadline)
        for worker in workers():
            self._log.warning("the handler of %s took too long, and is being cancelled", worker.place)
            worker.scope.cancel()
        now = time.monotonic()
        # Leave half of the remaining time for the commit.
        await self._until_calm(unfinished, min(now + CANCELLED_WITHIN_S, (now + self._end_by) / 2))

    async def _until_calm(self, at_work: Callable[[], object], deadline: float) -> None:
        self._outgoing.hurry()
        while at_work():
            left_s = deadline - time.monotonic()
            try:
                await self._calm.wait(None if left_s == math.inf else max(0.0, left_s))
            except TimeoutError:
                return

    def _end(self, slot: S, error: BaseException) -> None:
        """End the run with this error, which concerns the record in the slot."""
        self._give_up(slot)
        if self._failure is None:
            self._failure = error
            self._tasks.cancel_scope.cancel()

    # --- failures ----------------------------------------------------------------------------------------------------

    def _failed(self, slot: S, record: R, error: BaseException) -> None:
        """Handle the exception that a handler has raised: retry, skip, send away or end the run."""
        self._settle(slot, record, error, self._attempt(slot, record, error))

    def _settle(self, slot: S, record: R, error: BaseException, attempts: int) -> None:
        """Decide about a record whose handler has raised this exception, and carry out the decision.

        ``attempts`` is the number of attempts so far, including this one.
        """
        if isinstance(error, NoAwaitableError):
            self._end(slot, errors.ConfigTypeError(str(error)))
            return
        judge = self._judge
        verdict = (judge.passing if judge.is_passing(error) else judge.judge)(record, error, attempts)
        if verdict.failure is not None:
            self._end(slot, verdict.failure)
        elif verdict.fate == "retry":
            self._wait(slot, record, error, verdict.wait_s)
            self._waiting.set()
        elif verdict.fate in SENT:
            self._send_away(Sending(slot, record, verdict, error, attempts))
        else:
            self._leave(slot)

    def _send_away(self, sending: Sending) -> None:
        """Send a record to another topic. Its worker continues with other records."""
        self._outgoing.add(sending)

    async def _send_traced(self, sending: Sending) -> Delivery:
        with self._judge.within(sending.record):
            return await self._send(sending)

    async def _send(self, sending: Sending) -> Delivery:
        """Send the record to the dead-letter topic and return its delivery."""
        assert self._dead_letters is not None
        assert sending.error is not None
        return await self._dead_letters.send(
            raw_record(sending.record), sending.error, sending.attempts, brief=sending.brief
        )

    def _settle_answers(self) -> None:
        """Finish with records that other topics have accepted or refused.

        Other records may have been waiting for them.
        """
        while self._outgoing.answers:
            sending, delivery = self._outgoing.answers.popleft()
            refusal = delivery.exception()
            if refusal is None:
                self._accepted(sending, delivery.result())
            else:
                self._not_sent(sending, refusal)

    def _accepted(self, sending: Sending, at: RecordMetadata) -> None:
        self._unsent_since = None
        self._outgoing.slots.discard(sending.slot)
        self._written(sending, at)
        if sending.error is not None:
            self._judge.sent(sending.verdict.fate, sending.record, sending.error, sending.attempts)
        self._leave(sending.slot)
        self._calm.tell()

    def _written(self, sending: Sending, at: RecordMetadata) -> None:
        """Note that another topic has stored the record. ``at`` contains its new partition and offset."""

    def _not_sent(self, sending: Sending, refusal: Exception) -> None:
        """Send the record again if the ``refusal`` concerned other records or can be tolerated, else end the run."""
        if isinstance(refusal, errors.KafkaError) and refusal.collateral:
            self._outgoing.add(sending)  # without the refused records, which may end the run
            return
        if isinstance(refusal, errors.MessageTooLargeError) and (smaller := self._judge.smaller(sending)) is not None:
            self._outgoing.add(smaller)
            return
        delay_s = self._tolerates(refusal)
        if delay_s is not None:
            self._tasks.start_soon(self._send_later, sending, delay_s, name="kafka letter")
            return
        self._outgoing.slots.discard(sending.slot)
        self._end(sending.slot, self._judge.refused(sending, refusal))

    def _tolerates(self, refusal: Exception) -> float | None:
        """Return the seconds until a record is sent again, or None if this error ends the run."""
        now = time.monotonic()
        if isinstance(refusal, REFUSALS):
            try:
                return self._judge.refusals.bear(refusal, now)
            except REFUSALS:
                return None  # the refusals have lasted for too long
        if not isinstance(refusal, errors.KafkaTimeoutError | errors.KafkaConnectionError):
            return None
        # No broker has refused it. Like other requests of the run, it waits for the end of the outage.
        if self._unsent_since is None:
            self._unsent_since = now
        self._unsent_why = str(refusal)
        return SEND_AGAIN_S

    async def _send_later(self, sending: Sending, delay_s: float) -> None:
        await anyio.sleep(delay_s)
        await self._outgoing.send(sending)

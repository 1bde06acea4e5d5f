"""Decisions about records whose handlers have failed, and their logging and tracing."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..._core.run.failures import described, quotes_input
from ..._core.run.handler import place_of, raw_record
from ..._core.run.later import RetryTopics
from ..._core.run.options import Fate, HandlingConfig, Verdict
from ..._core.run.refusals import REFUSALS, Outages, Refusals, is_outage
from ..._core.tracing import ReadTracing, RunTracing
from ..._options.logs import client_log
from ...errors import HandlerError
from ...errors.shown import shown_cause
from .outgoing import Sending
from .workers import timed

if TYPE_CHECKING:
    from ...config import ClientConfig

R = TypeVar("R")

SENT: tuple[Fate, ...] = ("dead_letter", "later")
"""Decisions after which a record is sent to another topic."""

_SAYS: dict[Fate, tuple[int, str]] = {
    "retry": (logging.INFO, "will be retried"),
    "later": (logging.WARNING, "was sent to a retry topic"),
    "dead_letter": (logging.WARNING, "was sent to the dead-letter topic"),
    "skip": (logging.WARNING, "was skipped"),
    "drop": (logging.INFO, "was skipped"),
    "reject": (logging.ERROR, "was rejected"),
}
"""The log level and the text for each decision."""


class Judge(Generic[R]):
    """Decides about records of a run whose handlers have raised an exception. Logs and traces the decision."""

    def __init__(
        self,
        config: HandlingConfig,
        client: ClientConfig,
        tracing: ReadTracing | None,
        waits: Callable[[Any], bool],
        retry_topics: RetryTopics | None = None,
    ) -> None:
        """Decide according to ``config``. ``waits`` returns True for a record that is waiting for a schema registry."""
        self.retry_topics = retry_topics
        self.config = config
        self.log = client_log("consumer", client.client_id)
        self.refusals = Refusals(config.refusal_patience_ms, client, self.log)
        self.outages = Outages(config.registry_patience_ms, client, self.log, waits)
        self.tracing: RunTracing | None = None if tracing is None else tracing.run()

    def around(self, handle: Callable[[Any], Awaitable[object]]) -> Callable[[Any], Awaitable[object]]:
        """Return the handler with its time limit and its tracing."""
        handle = timed(handle, self.config.handler_timeout_ms)
        return handle if self.tracing is None else self.tracing.around(handle)

    def within(self, record: Any) -> AbstractContextManager[object]:
        """Return a context manager for later work on a failed record. Inside, the record's span is current again."""
        return nullcontext() if self.tracing is None else self.tracing.within(record)

    def together(self, records: Sequence[Any]) -> AbstractContextManager[object]:
        """Return a context manager for one handler call with these records. Their span is current inside."""
        return nullcontext() if self.tracing is None else self.tracing.together(records)

    def problem(self, now: float) -> str | None:
        """Return a description of the failures that the run currently tolerates, or None."""
        return self.refusals.problem(now) or self.outages.problem(now)

    def passed(self, now: float) -> None:
        """Forget earlier refusals, because brokers have accepted requests again. ``now`` is in monotonic seconds."""
        self.refusals.passed(now)
        self.outages.passed(now)

    def is_passing(self, error: BaseException) -> bool:
        """Return True if the error may be temporary and is not the record's fault, so that its attempt does not count.

        Either a schema registry is unavailable, or brokers refuse a handler's records and the run tolerates refusals.
        """
        return is_outage(error) or self.refusals.concerns(error)

    def passing(self, record: Any, error: BaseException, attempts: int) -> Verdict:
        """Decide about a record with an error that may be temporary.

        Up to a time limit, it waits without counting an attempt.
        """
        now = time.monotonic()
        wait_s: float | None
        if isinstance(error, REFUSALS):
            try:
                wait_s = self.refusals.bear(error, now)
            except REFUSALS:  # for too long, perhaps because this record names the refused thing
                return self.judge(record, error, max(1, attempts), self.config.given_up)
        else:
            wait_s = self.outages.bear(record, error, now)
        if wait_s is not None:
            if self.tracing is not None:
                self.tracing.retried(record, error, attempts)
            return Verdict("retry", wait_s=wait_s)
        self._give_up(record, error)
        text = f"{place_of(record)} has waited for a schema registry for registry_patience_ms: {shown_cause(error)}"
        return Verdict("raise", failure=_failure(text, record, error, attempts))

    def judge(self, record: Any, error: BaseException, attempts: int, verdict: Verdict | None = None) -> Verdict:
        """Decide about a record whose handler has raised this exception in its ``attempts``-th attempt.

        If ``verdict`` is given, it is the decision. If the record is sent to another topic, `sent` logs this
        afterwards. The ``failure`` of the result is a `HandlerError`.
        """
        if verdict is None:
            delays = 0 if self.retry_topics is None else self.retry_topics.delays(record)
            verdict = self.config.verdict(error, attempts, delays)
        fate, failed = verdict.fate, verdict.failure
        own = fate == "dead_letter" and self.is_dead_letter(record)
        if own or fate == "raise":
            fate = "raise"
            self._give_up(record, error)
            text = self._text(record, error, attempts)
            if own:
                text = f"{text}; it already is in dead_letter_topic"
            elif failed is not None:
                text = f"{text}; retry_delay failed: {failed!r}"
            elif self.config.dead_letter_topic is None:
                text = f"{text}; with a dead_letter_topic, run would continue"
            return Verdict(fate, failure=_failure(text, record, failed or error, attempts))
        if fate in SENT:
            return verdict
        self._log(fate, record, error, attempts)
        if fate != "retry":
            self._give_up(record, error)
        elif self.tracing is not None:
            self.tracing.retried(record, error, attempts)
        return verdict

    def is_dead_letter(self, record: Any) -> bool:
        """Return True if the record is in the dead-letter topic, or is waiting there for its next attempt."""
        later = self.retry_topics
        topic = record.topic if later is None else later.original(record.topic)
        return bool(topic == self.config.dead_letter_topic)

    def smaller(self, sending: Sending) -> Sending | None:
        """Return a smaller form in which to send a record that was too large with its additional headers, or None.

        A record that is too large for its retry topic becomes a dead letter, and a dead letter loses the description of
        its error. None means that there is no smaller form.
        """
        if sending.error is None or sending.brief or self.config.dead_letter_topic is None:
            return None
        if self.is_dead_letter(sending.record):
            return None
        return sending._replace(verdict=Verdict("dead_letter"), brief=sending.verdict.fate == "dead_letter")

    def sent(self, fate: Fate, record: Any, error: BaseException, attempts: int) -> None:
        """Log and trace a record that has been written to a dead-letter or retry topic."""
        self._log(fate, record, error, attempts)
        if self.tracing is not None and fate == "dead_letter":
            self.tracing.dead_letter(record, error, str(self.config.dead_letter_topic))
        else:
            self._give_up(record, error)

    def refused(self, sending: Sending, refusal: BaseException) -> HandlerError:
        """Return the error that ends the run because a record could not be sent to another topic."""
        record, verdict, error, attempts = sending.record, sending.verdict, sending.error, sending.attempts
        why = "retry topic did not accept it"
        if verdict.fate == "dead_letter":
            why = f"dead letter was not accepted by {self.config.dead_letter_topic}"
        text = f"{place_of(record)} must follow an earlier record of its key"
        if error is not None:
            self._give_up(record, error)
            text = self._text(record, error, attempts)
        return _failure(f"{text}; its {why}: {refusal!r}", record, refusal, attempts)

    def _text(self, record: Any, error: BaseException, attempts: int) -> str:
        return f"{place_of(record)} could not be handled ({attempts} attempts): {described(error)}"

    def _give_up(self, record: Any, error: BaseException) -> None:
        if self.tracing is not None:
            self.tracing.failed(record, error)

    def _log(self, fate: Fate, record: Any, error: BaseException, attempts: int) -> None:
        level, outcome = _SAYS[fate]
        if not self.log.isEnabledFor(level):
            return
        about = {"topic": record.topic, "partition": record.partition}
        # A traceback ends with the messages of all exceptions in the chain. Some of them contain the record's content.
        shown = None if fate == "drop" or quotes_input(error) else error
        text = "%s could not be handled (attempt %d), and %s: %s"
        self.log.log(level, text, place_of(record), attempts, outcome, described(error), extra=about, exc_info=shown)


def _failure(text: str, record: Any, cause: BaseException, attempts: int) -> HandlerError:
    failure = HandlerError(text, record=raw_record(record), attempts=attempts)
    failure.__cause__ = cause
    return failure

"""State of a transactional producer: its phase, producer id, epoch, and open transaction."""

from __future__ import annotations

from enum import Enum

from ... import errors
from ..._values import NamedTuple
from ...errors.base import own_copy
from ...health import TransactionHealth
from ..transitions import Transitions
from .errand import Errand, Outcome
from .verdicts import Call

# --- phases and events ------------------------------------------------------------------------------------------------
#
# The phases of a transactional producer, and the events that lead from one phase to another.
#
# Java's FATAL_ERROR is permanent. Here, only FENCED is permanent: another producer uses the transactional id, and must
# not be fenced in turn. Any problem that a new epoch solves leads to an abort, and then to READY.


class Phase(Enum):
    """Phases of a transactional producer."""

    NEW = "new"
    """The producer has no producer id. It requests one when it starts or begins a transaction."""
    STARTING = "starting"
    """The producer is requesting its producer id, which fences earlier producers with the same transactional id."""
    READY = "ready"
    """The next transaction may begin."""
    OPEN = "open"
    """The transaction accepts records and offsets."""
    FAILED = "failed"
    """Part of the transaction has failed, so it can only be aborted."""
    STORED = "stored"
    """The content of the transaction is stored in the brokers.

    It waits for the end of an earlier transaction (see `Chain`).
    """
    COMMITTING = "committing"
    """The rest of the content is being sent, and then the coordinator is asked to commit."""
    ABORTING = "aborting"
    """Unsent records are being discarded, and then the coordinator is asked to abort."""
    RENEWING = "renewing"
    """The transaction has ended, and the producer is requesting a new epoch for the next one (KIP-360)."""
    HANDED_OVER = "handed over"
    """The content of the transaction is stored in the brokers. Another process will end it."""
    FENCED = "fenced"
    """Another producer has taken over the transactional id."""


class Event(Enum):
    """Events that move a producer to another phase."""

    START = "start"
    """A producer id is needed. Possible in any phase."""
    STARTED = "started"
    """The coordinator returned a producer id."""
    BEGIN = "begin"
    """The application begins a transaction."""
    FAIL = "fail"
    """A record or offset could not be added to the transaction, or the coordinator refused to commit it."""
    COMMIT = "commit"
    """The application commits the transaction."""
    STORE = "store"
    """The content of the transaction is stored in the brokers, but the transaction is not ended yet."""
    ABORT = "abort"
    """The application or an error aborts the transaction."""
    ENDED = "ended"
    """The coordinator has committed or aborted the transaction, or there was no transaction to end."""
    RENEW = "renew"
    """The transaction has ended, and its epoch must not be used again."""
    RENEWED = "renewed"
    """The coordinator returned a new epoch."""
    REFUSED = "refused"
    """The coordinator refuses, and a retry would not help now. For example, an ACL is missing."""
    RESUME = "resume"
    """This producer takes over the open transaction of another process."""
    HAND_OVER = "hand over"
    """The content of the transaction is stored in the brokers, and another process will end it."""
    FENCE = "fence"
    """Another producer has taken over the transactional id."""


TRANSITIONS = Transitions(
    "a transactional producer",
    Phase.NEW,
    {
        Phase.NEW: {Event.START: Phase.STARTING, Event.RESUME: Phase.OPEN},
        Phase.STARTING: {Event.STARTED: Phase.READY, Event.REFUSED: Phase.NEW, Event.FENCE: Phase.FENCED},
        Phase.READY: {Event.BEGIN: Phase.OPEN, Event.RENEW: Phase.RENEWING, Event.START: Phase.STARTING},
        Phase.OPEN: {Event.FAIL: Phase.FAILED, Event.COMMIT: Phase.COMMITTING, Event.ABORT: Phase.ABORTING},
        Phase.FAILED: {Event.ABORT: Phase.ABORTING},
        Phase.STORED: {Event.FAIL: Phase.FAILED, Event.COMMIT: Phase.COMMITTING, Event.ABORT: Phase.ABORTING},
        Phase.COMMITTING: {
            Event.FAIL: Phase.FAILED,
            Event.STORE: Phase.STORED,
            Event.ENDED: Phase.READY,
            Event.RENEW: Phase.RENEWING,
            Event.HAND_OVER: Phase.HANDED_OVER,
            Event.FENCE: Phase.FENCED,
        },
        Phase.ABORTING: {
            Event.ENDED: Phase.READY,
            Event.RENEW: Phase.RENEWING,
            Event.REFUSED: Phase.FAILED,
            Event.FENCE: Phase.FENCED,
        },
        Phase.RENEWING: {Event.RENEWED: Phase.READY, Event.REFUSED: Phase.NEW, Event.FENCE: Phase.FENCED},
        Phase.HANDED_OVER: {},
        Phase.FENCED: {},
    },
)


_PERHAPS_TIMED_OUT = (errors.InvalidProducerEpochError, errors.InvalidTxnStateError)
"""Errors that show a producer that the coordinator may have aborted its transaction because of its timeout."""

_NOT_OVER = (Phase.OPEN, Phase.FAILED, Phase.STORED, Phase.COMMITTING, Phase.ABORTING)


class OpenTransaction(NamedTuple):
    """An open transaction that one process hands over to another, which ends it."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: int
    """2 if the transaction follows KIP-890, otherwise 1. It must end in the version in which it began."""
    begun: bool
    """True if the coordinator may know the transaction, False if no record or offset has been sent."""


class Fate:
    """The outcome of one transaction. Callers may keep it after the next transaction has begun."""

    __slots__ = ("outcome",)

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        """The outcome, or None while it is unknown."""


class TransactionState:
    """Tracks the phase of a transactional producer, with its producer id, epoch and open transaction.

    Changes are logged with the transactional id. The class does no I/O and reads no clock.
    """

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.phase = TRANSITIONS.first
        self.producer_id = -1
        self.epoch = -1
        self.v2 = False
        """True if the current or last transaction follows KIP-890."""
        self.number = 0
        """Number of the current or last transaction, starting with 1."""
        self.touched = False
        """True if the coordinator may know the transaction. If not, there is no transaction to end."""
        self.renew = False
        """True if the epoch must not be used for another transaction.

        A request of this transaction may still be in flight (KAFKA-17754), or its sequence numbers may have a gap.
        """
        self._asked = False
        """True if the coordinator has been asked to end the transaction, and therefore determines the outcome."""
        self.error: errors.KafkaError | None = None
        """The reason why the transaction can only be aborted.

        In phase FENCED, the reason why the producer has ended.
        """
        self.fate = Fate()
        """Outcome of the current or last transaction."""
        self.began_at = 0.0

    # --- the application's calls --------------------------------------------------------------------------------------

    def check_begin(self) -> None:
        """Raise an error if no transaction can begin, even after the work in progress has ended."""
        self.check_fenced()
        if self.phase is Phase.HANDED_OVER:
            raise errors.IllegalStateError("the transaction was handed over: this producer cannot begin another")
        if self.phase in (Phase.OPEN, Phase.FAILED, Phase.STORED):
            raise errors.IllegalStateError("a transaction is open: commit or abort it before you begin another")
        if self.phase is Phase.COMMITTING and not self._asked:
            raise errors.IllegalStateError(
                "another task is committing the open transaction: wait before you begin another"
            )

    def check_open(self, number: int) -> None:
        """Raise an error unless the transaction ``number`` accepts records and offsets."""
        if self.phase is Phase.OPEN and self.number == number:
            return
        self.check_fenced()
        if self.number == number and self.phase is Phase.FAILED:
            raise self.aborted("the transaction has failed: abort it")
        if self.number == number and self.phase in (Phase.STORED, Phase.COMMITTING, Phase.ABORTING):
            raise errors.IllegalStateError("the transaction is being ended: begin another one before you send")
        raise errors.IllegalStateError("no transaction is open: begin a transaction before you send")

    def check_fenced(self) -> None:
        """Raise `ProducerFencedError` if another producer has taken over the transactional id."""
        if self.phase is Phase.FENCED:
            assert self.error is not None
            raise own_copy(self.error)

    def begin(self, v2: bool, now: float) -> None:
        """Begin a transaction. ``v2`` is True if it follows KIP-890."""
        self._take(Event.BEGIN)
        self.number += 1
        self.v2 = v2
        self.touched = self.renew = self._asked = False
        self.error = None
        self.fate = Fate()
        self.began_at = now

    def fail(self, error: errors.KafkaError) -> bool:
        """Mark the transaction as failed, so that it can only be aborted. Return True if it had not already failed."""
        if self._asked or self.phase not in (Phase.OPEN, Phase.STORED, Phase.COMMITTING):
            return False
        self._take(Event.FAIL)
        self.error = error
        return True

    def commit(self) -> None:
        """Begin the commit. From now on, the transaction accepts no records or offsets."""
        self._take(Event.COMMIT)

    def store(self) -> None:
        """Mark the transaction as stored: all its records and offsets are. It can then be committed or aborted."""
        self._take(Event.STORE)

    def abort(self) -> None:
        """Begin to abort the open transaction.

        From now on, the transaction accepts no records or offsets, and its content is discarded.
        """
        self._take(Event.ABORT)

    def hand_over(self) -> OpenTransaction:
        """Hand over the stored transaction, so that another process can end it."""
        self._take(Event.HAND_OVER)
        return OpenTransaction(
            self.transactional_id, self.producer_id, self.epoch, 2 if self.v2 else 1, begun=self.touched
        )

    def resume(self, opened: OpenTransaction, now: float) -> None:
        """Take over another process's transaction. It accepts offsets and can be ended."""
        self._take(Event.RESUME)
        self.number += 1
        self.producer_id, self.epoch = opened.producer_id, opened.epoch
        self.v2 = opened.version == 2
        self.touched = opened.begun
        self.renew = not self.v2  # the sequence numbers that the other process used are unknown here
        self._asked = False
        self.error = None
        self.fate = Fate()
        self.began_at = now

    # --- errands ------------------------------------------------------------------------------------------------------

    def start(self) -> Errand:
        """Return the errand that gets a producer id."""
        self._take(Event.START)
        return Errand(self.transactional_id, self.timeout_ms, Call.START)

    def renewal(self) -> Errand:
        """Return the errand that gets a new epoch outside a transaction."""
        self._take(Event.RENEW)
        return self._errand(Call.RENEW)

    def end(self) -> Errand | None:
        """Return the errand that ends the transaction.

        If the coordinator does not know the transaction, ends it here and returns None.
        """
        committed = self.phase is Phase.COMMITTING
        if not self.touched:
            self.fate.outcome = Outcome.COMMITTED if committed else Outcome.ABORTED
            self._take(Event.ENDED)
            return None
        self._asked = True
        return self._errand(Call.COMMIT if committed else Call.ABORT)

    def _errand(self, call: Call) -> Errand:
        return Errand(
            self.transactional_id, self.timeout_ms, call, self.producer_id, self.epoch, v2=self.v2, renew=self.renew
        )

    def advanced(self, errand: Errand) -> None:
        """Take over the results of an errand that has advanced or ended."""
        if self.phase is Phase.COMMITTING and errand.reason is not None and errand.call is Call.ABORT:
            self._take(Event.FAIL)
            self.error = errand.reason
            self._take(Event.ABORT)
        if errand.fenced:
            self._take(Event.FENCE)
            self.error, self.fate.outcome = errand.refusal, errand.outcome or self.fate.outcome
            return
        if errand.refusal is not None:
            self._refused(errand.refusal)
            return
        if errand.outcome is not None and self.fate.outcome is None:
            self.fate.outcome = errand.outcome
            if errand.outcome is not Outcome.COMMITTED:
                self.error = self.error or errand.reason
            self._take(Event.ENDED if errand.call is None else Event.RENEW)
        elif errand.call is None:
            self._take(Event.STARTED if self.phase is Phase.STARTING else Event.RENEWED)
        if errand.call is None:
            self.producer_id, self.epoch = errand.producer_id, errand.epoch
            self.renew = False

    def _refused(self, error: errors.KafkaError) -> None:
        if self.phase is Phase.COMMITTING:
            self._take(Event.FAIL)
            self.error = error
        else:
            self._take(Event.REFUSED)

    # --- errors and health --------------------------------------------------------------------------------------------

    def aborted(self, text: str) -> errors.TransactionAbortedError:
        """Return the error for a transaction that was aborted or will be aborted."""
        if self.error is not None:
            text = f"{text}: {self.error}"
        if isinstance(self.error, _PERHAPS_TIMED_OUT):
            text += (
                f" (coordinators abort transactions that are older than transaction_timeout_ms, {self.timeout_ms:g})"
            )
        failure = errors.TransactionAbortedError(text)
        failure.__cause__ = self.error
        return failure

    def health(self, now: float) -> TransactionHealth:
        """Return a snapshot of the state, for `Producer.transaction_health`."""
        return TransactionHealth(
            transactional_id=self.transactional_id,
            phase=self.phase.value,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            version=2 if self.v2 else 1,
            age_ms=(now - self.began_at) * 1000 if self.phase in _NOT_OVER else None,
            timeout_ms=self.timeout_ms,
            error=self.error,
        )

    def _take(self, event: Event) -> None:
        self.phase = TRANSITIONS.after(self.phase, event)

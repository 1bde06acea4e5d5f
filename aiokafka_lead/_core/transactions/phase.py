"""The phases of a transactional producer, and the events that lead from one to another.

Java's states include a FATAL_ERROR, which is never left. Here only FENCED is permanent: another producer has the
transactional id, and must not be disturbed. Anything that a new epoch can mend leads to an abort and on to READY.
"""

from __future__ import annotations

from enum import Enum

from ..transitions import Transitions


class Phase(Enum):
    """Phases of a transactional producer."""

    NEW = "new"
    """It has no producer id, and requests one when it is started or begins a transaction."""
    STARTING = "starting"
    """It is requesting its producer id, which fences the previous producer of the transactional id."""
    READY = "ready"
    """The next transaction may begin."""
    OPEN = "open"
    """A transaction accepts records and offsets."""
    FAILED = "failed"
    """Part of the transaction has failed: it can only be aborted."""
    STORED = "stored"
    """The content of the transaction is stored; its end waits for another one (`Chain`)."""
    COMMITTING = "committing"
    """Its content is being sent, then the coordinator is asked to commit."""
    ABORTING = "aborting"
    """Unsent records are discarded, then the coordinator is asked to abort."""
    RENEWING = "renewing"
    """The transaction has ended, and a new epoch is requested before the next one (KIP-360)."""
    HANDED_OVER = "handed over"
    """The content of the transaction is stored; another process ends it."""
    FENCED = "fenced"
    """Another producer has taken over the transactional id."""


class Event(Enum):
    """Events that lead from phase to phase."""

    START = "start"
    """A producer id is needed, from any phase."""
    STARTED = "started"
    """The coordinator returned one."""
    BEGIN = "begin"
    """The application begins a transaction."""
    FAIL = "fail"
    """A record, or offsets, cannot become part of the transaction, or the coordinator refuses to commit it."""
    COMMIT = "commit"
    """The application commits it."""
    STORE = "store"
    """Its content is stored, and it is not ended yet."""
    ABORT = "abort"
    """The application, or an error, aborts it."""
    ENDED = "ended"
    """The coordinator has committed or aborted it, or there was no transaction to end."""
    RENEW = "renew"
    """The epoch may not be used any longer, though the transaction has ended."""
    RENEWED = "renewed"
    """There is a new epoch."""
    REFUSED = "refused"
    """The coordinator refuses, and asking again would not help now, for example without a permission."""
    RESUME = "resume"
    """The open transaction of another process now belongs to this producer."""
    HAND_OVER = "hand over"
    """The content of the transaction is stored, and its end is left to another process."""
    FENCE = "fence"
    """The coordinator has another producer under the transactional id."""


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

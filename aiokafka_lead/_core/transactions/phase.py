"""The phases of a transactional producer, and the events that lead from one to another.

Java's states have a FATAL_ERROR, which nothing leaves. Here only FENCED is for ever: another producer has the
transactional id, and must not be disturbed. Whatever a new epoch can mend leads to an abort and on to READY.
"""

from __future__ import annotations

from enum import Enum

from ..transitions import Transitions

__all__ = ["TRANSITIONS", "Event", "Phase"]


class Phase(Enum):
    """What a transactional producer does."""

    NEW = "new"
    """It has no producer id, and asks for one when it is started or begins a transaction."""
    STARTING = "starting"
    """It asks for its producer id, which fences the producer that had the transactional id before."""
    READY = "ready"
    """The next transaction may begin."""
    OPEN = "open"
    """A transaction takes records and offsets."""
    FAILED = "failed"
    """Something of the transaction has failed: it can only be aborted."""
    STORED = "stored"
    """All that the transaction took is stored; its end waits for that of another one (`Chain`)."""
    COMMITTING = "committing"
    """What it took goes out, then the coordinator is asked to commit."""
    ABORTING = "aborting"
    """What was not sent is discarded, then the coordinator is asked to abort."""
    RENEWING = "renewing"
    """The transaction is over, and a new epoch is asked for before the next one (KIP-360)."""
    HANDED_OVER = "handed over"
    """All that the transaction took is stored; another process ends it."""
    FENCED = "fenced"
    """Another producer has taken over the transactional id."""


class Event(Enum):
    """What leads from phase to phase."""

    START = "start"
    """A producer id is wanted, whatever came before."""
    STARTED = "started"
    """The coordinator gave one."""
    BEGIN = "begin"
    """The application begins a transaction."""
    FAIL = "fail"
    """A record, or offsets, cannot become part of the transaction, or the coordinator refuses to commit it."""
    COMMIT = "commit"
    """The application wants it committed."""
    STORE = "store"
    """What it took is stored, and it is not to be ended yet."""
    ABORT = "abort"
    """It is to be aborted."""
    ENDED = "ended"
    """The coordinator has committed or aborted it, or there was nothing to end."""
    RENEW = "renew"
    """The epoch may not be used any more, though the transaction is over."""
    RENEWED = "renewed"
    """There is a new epoch."""
    REFUSED = "refused"
    """The coordinator refuses, and asking again would not help now: for want of a permission, say."""
    RESUME = "resume"
    """The open transaction of another process is this producer's from now on."""
    HAND_OVER = "hand over"
    """What the transaction took is stored, and its end is left to another process."""
    FENCE = "fence"
    """The coordinator knows another producer under the transactional id."""


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

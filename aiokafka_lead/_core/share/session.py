"""Share sessions: a broker's memory of a member's fetches (KIP-932; Java: ``ShareSessionHandler``).

Both kinds of request carry the session's epoch, which grows by one each time, so only one request is in flight. A
session begins with a ShareFetch of epoch 0, which cannot carry acknowledgements, and ends with a ShareAcknowledge of
epoch -1. Unlike a fetch session it belongs to one connection: when that ends, the broker forgets the session and
releases the records it had acquired.

    request sent        answer                         next request
    ------------------  -----------------------------  -----------------------------------------
    epoch n             no error                       epoch n + 1 (1 after 2**31 - 1)
    epoch n             a session error                epoch 0; acquired records stay acquired
    epoch n             another error                  epoch n + 1
    any                 the connection was lost        epoch 0; all acquired records are lost
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from ..._values import NamedTuple
from ...errors import InvalidShareSessionEpochError, ShareSessionLimitReachedError, ShareSessionNotFoundError

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1

SESSION_ERRORS = frozenset(
    (ShareSessionNotFoundError.code, InvalidShareSessionEpochError.code, ShareSessionLimitReachedError.code)
)
"""Errors after which a new session has to be opened."""


class SharedPartition(NamedTuple):
    """Partition as share sessions name it."""

    topic_id: UUID
    partition: int


class SessionChange(NamedTuple):
    """Session part of a ShareFetch."""

    epoch: int
    add: list[SharedPartition]
    forget: list[SharedPartition]


class ShareSession:
    """Session with one broker, as the member sees it."""

    def __init__(self) -> None:
        self.epoch = INITIAL_EPOCH
        """Epoch of the next request."""
        self.known: set[SharedPartition] = set()
        """Partitions that the broker fetches from once the request in flight has arrived."""

    @property
    def is_open(self) -> bool:
        """True if the broker has the session, so that acknowledgements may be sent."""
        return self.epoch != INITIAL_EPOCH

    def fetch(self, wanted: Iterable[SharedPartition], named: Iterable[SharedPartition] = ()) -> SessionChange:
        """Return the change for a ShareFetch that reads the partitions in ``wanted``.

        ``named`` are the partitions of its acknowledgements: a broker adds every partition that a request names to the
        session.
        """
        wanted = list(wanted)
        if not self.is_open:
            self.known = set(wanted)
            return SessionChange(INITIAL_EPOCH, wanted, [])
        keep = set(wanted)
        add = [partition for partition in wanted if partition not in self.known]
        forget = sorted((self.known | set(named)) - keep, key=lambda entry: (entry.topic_id.int, entry.partition))
        self.known = keep
        return SessionChange(self.epoch, add, forget)

    def answered(self, error_code: int) -> bool:
        """Take in an answer; return True if the session continues."""
        if error_code in SESSION_ERRORS:
            self.begin_anew()
            return False
        self.epoch = self.epoch + 1 if self.epoch < _MAX_EPOCH else 1
        return True

    def begin_anew(self) -> None:
        """Start over: the broker has no session any longer, or a different one."""
        self.epoch = INITIAL_EPOCH
        self.known = set()

    def __repr__(self) -> str:
        return f"<ShareSession epoch={self.epoch} partitions={len(self.known)}>"

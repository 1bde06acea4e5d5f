"""Decides whom to ask what any broker can answer, and when a coordinator is looked up again (rule 33).

Who coordinates a group or a transactional id, or which producer id is free: any broker can say. One that is isolated
from its cluster, or lags behind it, may be wrong for ever, or never know. So may the coordinator that it names.
"""

from __future__ import annotations

from collections.abc import Collection

from ..errors import (
    BrokerError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    KafkaConnectionError,
    KafkaError,
    NotCoordinatorError,
    RequestTimedOutError,
    UnknownServerError,
)
from .trust import Trust

__all__ = ["MOVED", "REFUSALS", "UNANSWERED_S", "CoordinatorInquiry", "Inquiry", "evades"]

MOVED = (CoordinatorNotAvailableError, KafkaConnectionError, NotCoordinatorError, RequestTimedOutError)
"""Errors of a coordinator after which it is looked up at once: it is another broker by now, or may be."""

REFUSALS = (*MOVED, CoordinatorLoadInProgressError, UnknownServerError)
"""Errors of a coordinator that does not do its work. All others are its work: they are about the group, a member, a
transaction, or single partitions."""

IN_A_HURRY_S = 1.0
"""A caller that gave the coordinator less time for its answer than this has learnt nothing about it."""

UNANSWERED_S = 5.0
"""A coordinator that has not answered by then may be frozen, or cut off. Others are asked whether it still is the one,
now and every time that this passes again."""


def evades(error: KafkaError) -> bool:
    """Return True if another broker, or the same one later, may well answer what this one did not."""
    return error.retriable or isinstance(error, UnknownServerError)


class Inquiry:
    """One question that any broker can answer, until an answer has proved right.

    At first the broker with the least to do is asked. In doubt, each broker is asked once before any is asked again.
    """

    __slots__ = ("_asked", "_patience_s", "_trust", "said")

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._trust = Trust()
        self._asked: set[int] = set()
        """Brokers that were asked, in vain so far; emptied when all have been."""
        self.said: dict[int, str] = {}
        """What each broker said last that was asked since an answer was right, and each coordinator that was named."""

    def asks(self, node_id: int) -> None:
        """Note that this broker is asked."""
        self._asked.add(node_id)
        self.said[node_id] = "no answer yet"

    def failed(self, node_id: int, error: KafkaError, asked_at: float, now: float) -> bool:
        """Note that the broker did not help; return True if this leaves the matter in doubt."""
        self._asked.add(node_id)
        self.said[node_id] = error.message
        return self._trust.refused(asked_at, now, self._patience_s)

    def settled(self) -> None:
        """Note that the answer was right."""
        if self.said:
            self._trust.confirmed()
            self._asked.clear()
            self.said.clear()

    def doubted_since(self, now: float) -> float | None:
        """Return when what led to the present doubt began; None without doubt."""
        return self._trust.refused_since if self._trust.in_doubt(now, self._patience_s) else None

    def avoid(self, nodes: Collection[int], now: float) -> Collection[int]:
        """Return those of these brokers that are to be asked after the others."""
        return () if self.doubted_since(now) is None else self._asked_before(nodes)

    def _asked_before(self, nodes: Collection[int]) -> Collection[int]:
        if self._asked.issuperset(nodes):
            self._asked.clear()
        return self._asked


class CoordinatorInquiry(Inquiry):
    """Who coordinates one group or transactional id. An answer is right once that broker does a coordinator's work."""

    __slots__ = ("_silent", "_suspect", "node_id")

    def __init__(self, patience_s: float) -> None:
        super().__init__(patience_s)
        self.node_id: int | None = None
        """The coordinator; None if it has to be looked up."""
        self._suspect: int | None = None
        """The coordinator that refused last, or is silent. Others are asked whether it still is the one."""
        self._silent = False

    def found(self, informant: int, node_id: int) -> None:
        """Note whom a broker has named."""
        self.node_id = node_id
        self.said[informant] = f"named broker {node_id}"

    def silent(self, node_id: int) -> None:
        """Note that the coordinator does not answer, as one does that waits for all members: ask others before it."""
        self._suspect, self._silent = node_id, True

    def answered(self, node_id: int, error: KafkaError | None, asked_at: float, now: float) -> bool:
        """Note what became of a request to the coordinator; return True if it is to be looked up again."""
        self._silent = False
        if error is None or (isinstance(error, BrokerError) and not isinstance(error, REFUSALS)):
            self._suspect = None
            self.settled()
            return False
        if not isinstance(error, REFUSALS) or _in_a_hurry(error, now - asked_at):
            return False
        self._suspect = node_id
        looks_up = self.failed(node_id, error, asked_at, now) or isinstance(error, MOVED)
        if looks_up and self.node_id == node_id:
            self.node_id = None
        return looks_up

    def avoid(self, nodes: Collection[int], now: float) -> Collection[int]:
        """See `Inquiry.avoid`; the suspect is asked last, and in no turn."""
        if not self._silent and self.doubted_since(now) is None:
            return ()
        avoided = self._asked_before([node_id for node_id in nodes if node_id != self._suspect])
        return avoided if self._suspect is None else {*avoided, self._suspect}


def _in_a_hurry(error: KafkaError, waited_s: float) -> bool:
    return isinstance(error, RequestTimedOutError) and error.api is not None and waited_s < IN_A_HURRY_S

"""Selects brokers for requests that any broker can answer; decides when to look up a coordinator again (rule 33).

Any broker can name the coordinator of a group or a transactional id, or a free producer id. A broker that is isolated
from its cluster, or lags behind it, may be permanently wrong or never have the answer. So may the coordinator.
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

MOVED = (CoordinatorNotAvailableError, KafkaConnectionError, NotCoordinatorError, RequestTimedOutError)
"""Errors after which another broker probably is the coordinator by now, or soon: look-ups may repeat quickly."""

REFUSALS = (*MOVED, CoordinatorLoadInProgressError, UnknownServerError)
"""Errors of a coordinator that does not do its work. All other errors are part of its work: they concern the group, a
member, a transaction, or single partitions."""

IN_A_HURRY_S = 1.0
"""A request with a shorter timeout than this says nothing about the coordinator if it times out."""

UNANSWERED_S = 5.0
"""A coordinator that has not answered within this time may be frozen, or isolated. Other brokers are then asked if it
still is the coordinator, and again after each further period."""


def evades(error: KafkaError) -> bool:
    """Return True if another broker, or the same broker later, may have the answer."""
    return error.retriable or isinstance(error, UnknownServerError)


class Inquiry:
    """A question that any broker can answer, until an answer has proved right.

    At first the least loaded broker is asked. In doubt, each broker is asked once before any is asked again.
    """

    __slots__ = ("_asked", "_patience_s", "_trust", "said")

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._trust = Trust()
        self._asked: set[int] = set()
        """Brokers whose answers did not help; cleared when all have been asked."""
        self.said: dict[int, str] = {}
        """Latest error of each broker asked since the last right answer, and of each coordinator named since then."""

    def asks(self, node_id: int) -> None:
        """Record that this broker is asked."""
        self._asked.add(node_id)
        self.said.setdefault(node_id, "no answer yet")

    def failed(self, node_id: int, error: KafkaError, asked_at: float, now: float) -> bool:
        """Record that the broker did not help; return True if the question is in doubt now."""
        self._asked.add(node_id)
        return self._refused(node_id, error, asked_at, now)

    def settled(self) -> None:
        """Record that the answer was right."""
        if self.said:
            self._trust.confirmed()
            self._asked.clear()
            self.said.clear()

    def doubted_since(self, now: float) -> float | None:
        """Return the start of the events that led to the present doubt; None without doubt."""
        return self._trust.refused_since if self._trust.in_doubt(now, self._patience_s) else None

    def avoid(self, nodes: Collection[int], now: float) -> Collection[int]:
        """Return the brokers that should be asked last."""
        return () if self.doubted_since(now) is None else self._asked_before(nodes)

    def _asked_before(self, nodes: Collection[int]) -> set[int]:
        if self._asked.issuperset(nodes):
            self._asked.clear()
        return self._asked

    def _refused(self, node_id: int, error: KafkaError, asked_at: float, now: float) -> bool:
        self.said[node_id] = error.message
        return self._trust.refused(asked_at, now, self._patience_s)


class CoordinatorInquiry(Inquiry):
    """Finds the coordinator of a group or transactional id. An answer is right once the named broker does its work."""

    __slots__ = ("_insists", "_suspect", "node_id")

    def __init__(self, patience_s: float) -> None:
        super().__init__(patience_s)
        self.node_id: int | None = None
        """The coordinator; None if it has to be looked up."""
        self._suspect: int | None = None
        """The coordinator that refused last, or is silent. Other brokers are asked if it still is the coordinator."""
        self._insists = False
        """True if the suspect may wrongly consider itself the coordinator: it is asked last, even without doubt."""

    def found(self, informant: int, node_id: int) -> None:
        """Record the coordinator that a broker has named."""
        self.node_id = node_id
        self.said[informant] = f"named broker {node_id}"

    def silent(self, node_id: int) -> None:
        """Record that the coordinator is silent, perhaps waiting for all members: ask other brokers first."""
        self._suspect, self._insists = node_id, True

    def answered(self, node_id: int, error: KafkaError | None, asked_at: float, now: float) -> bool:
        """Record the result of a request; return True if the coordinator is in doubt or has probably moved.

        Each refusal leads to a look-up, which costs little compared with a wait for a coordinator that never stops
        loading.
        """
        self._insists = False
        if error is None or (isinstance(error, BrokerError) and not isinstance(error, REFUSALS)):
            self._suspect = None
            self.settled()
            return False
        if not isinstance(error, REFUSALS) or _in_a_hurry(error, now - asked_at):
            return False
        self._suspect = node_id
        self._insists = not isinstance(error, MOVED)
        if self.node_id == node_id:
            self.node_id = None
        return self._refused(node_id, error, asked_at, now) or not self._insists

    def avoid(self, nodes: Collection[int], now: float) -> Collection[int]:
        """See `Inquiry.avoid`; each round ends with the suspect, which may be the only broker with the right answer."""
        if not self._insists and self.doubted_since(now) is None:
            return ()
        asked = self._asked_before(nodes)
        others = {node_id for node_id in nodes if node_id != self._suspect}
        return asked if self._suspect is None or asked >= others else {*asked, self._suspect}


def _in_a_hurry(error: KafkaError, waited_s: float) -> bool:
    return isinstance(error, RequestTimedOutError) and error.api is not None and waited_s < IN_A_HURRY_S

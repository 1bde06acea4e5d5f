"""Choosing the broker to ask if any broker can answer, and the time to look up a coordinator again.

Any broker can name the coordinator of a group or a transactional id, or assign a producer id. But a broker that is
isolated from its cluster, or that lags behind it, may keep giving a wrong answer, or none at all. The same is true of a
coordinator. Rule 33 of `_core.leadership` says when the client asks another broker.
"""

from __future__ import annotations

from collections.abc import Collection

from .. import errors
from .trust import DOUBT_AFTER, Trust

MOVED = (
    errors.CoordinatorNotAvailableError,
    errors.KafkaConnectionError,
    errors.NotCoordinatorError,
    errors.RequestTimedOutError,
)
"""Errors after which another broker is probably the coordinator, or soon will be. Look-ups may be repeated quickly."""

REFUSALS = (*MOVED, errors.CoordinatorLoadInProgressError, errors.UnknownServerError)
"""Errors of a coordinator that does not act as one.

All other errors show that it does: they concern the group, a member, a transaction, or single partitions.
"""

IN_A_HURRY_S = 1.0
"""Timeout in seconds below which a request that times out says nothing about the coordinator."""

UNANSWERED_S = 5.0
"""Seconds without an answer after which a coordinator may be stuck or isolated.

Other brokers are then asked for the coordinator, and are asked again after each further period of this length.
"""


UNEXPLAINED_TRIES = 2 * DOUBT_AFTER
"""Number of consecutive failures after which UNKNOWN_SERVER_ERROR is final. It gives no reason, so it may pass."""


def may_repeat(error: errors.KafkaError, failures: int) -> bool:
    """Return True if a request to a coordinator should be repeated, after this number of consecutive failures.

    ``error`` is the latest of them. If the request is not repeated, the application gets the error.
    """
    return error.retriable or (isinstance(error, errors.UnknownServerError) and failures < UNEXPLAINED_TRIES)


def evades(error: errors.KafkaError) -> bool:
    """Return True if the error may be avoided by asking another broker, or the same broker later."""
    return error.retriable or isinstance(error, errors.UnknownServerError)


class Inquiry:
    """Chooses which broker to ask a question that any broker can answer, until an answer has proved right.

    The least loaded broker is asked first. After repeated failures (see `Trust`), each broker is asked once before any
    broker is asked a second time.
    """

    __slots__ = ("_asked", "_patience_s", "_trust", "said")

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._trust = Trust()
        self._asked: set[int] = set()
        """Brokers whose answers did not help. Cleared once every broker has been asked."""
        self.said: dict[int, str] = {}
        """Latest error or answer of each broker asked since the last right answer, for error messages."""

    def asks(self, node_id: int) -> None:
        """Record that the question is being sent to this broker."""
        self._asked.add(node_id)
        self.said.setdefault(node_id, "no answer yet")

    def failed(self, node_id: int, error: errors.KafkaError, asked_at: float, now: float) -> bool:
        """Record that the broker did not help. Return True if other brokers should be asked now."""
        self._asked.add(node_id)
        return self._refused(node_id, error, asked_at, now)

    def settled(self) -> None:
        """Record that the last answer has proved right. Earlier failures no longer count."""
        if self.said:
            self._trust.confirmed()
            self._asked.clear()
            self.said.clear()

    def doubted_since(self, now: float) -> float | None:
        """Return the time of the first failure if other brokers should be asked now, otherwise None."""
        return self._trust.refused_since if self._trust.in_doubt(now, self._patience_s) else None

    def avoid(self, nodes: Collection[int], now: float) -> Collection[int]:
        """Return the brokers that should be asked last, because they did not help before."""
        return () if self.doubted_since(now) is None else self._asked_before(nodes)

    def _asked_before(self, nodes: Collection[int]) -> set[int]:
        if self._asked.issuperset(nodes):
            self._asked.clear()
        return self._asked

    def _refused(self, node_id: int, error: errors.KafkaError, asked_at: float, now: float) -> bool:
        self.said[node_id] = error.message
        return self._trust.refused(asked_at, now, self._patience_s)


class CoordinatorInquiry(Inquiry):
    """Finds the coordinator of a group or a transactional id.

    An answer has proved right when the broker that it names does a coordinator's work.
    """

    __slots__ = ("_insists", "_suspect", "node_id")

    def __init__(self, patience_s: float) -> None:
        super().__init__(patience_s)
        self.node_id: int | None = None
        """Node id of the coordinator, or None if it has to be looked up."""
        self._suspect: int | None = None
        """The last coordinator that refused or did not answer. Other brokers are asked for the coordinator."""
        self._insists = False
        """True if the suspect may wrongly consider itself the coordinator. It is then the last broker to be asked."""

    def found(self, informant: int, node_id: int) -> None:
        """Record that the broker ``informant`` has named this coordinator."""
        self.node_id = node_id
        self.said[informant] = f"named broker {node_id}"

    def silent(self, node_id: int) -> None:
        """Record that the coordinator does not answer, so that other brokers are asked first to name the coordinator.

        The coordinator may be healthy and just waiting for all members to join.
        """
        self._suspect, self._insists = node_id, True

    def answered(self, node_id: int, error: errors.KafkaError | None, asked_at: float, now: float) -> bool:
        """Record the result of a request. Return True if the coordinator should be looked up quickly.

        Every refusal leads to a look-up. A look-up is cheap compared to waiting for a coordinator that never finishes
        loading.
        """
        self._insists = False
        if error is None or (isinstance(error, errors.BrokerError) and not isinstance(error, REFUSALS)):
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
        """See `Inquiry.avoid`. The suspect is asked last. It may be the only broker that knows the coordinator."""
        if not self._insists and self.doubted_since(now) is None:
            return ()
        asked = self._asked_before(nodes)
        others = {node_id for node_id in nodes if node_id != self._suspect}
        return asked if self._suspect is None or asked >= others else {*asked, self._suspect}


def _in_a_hurry(error: errors.KafkaError, waited_s: float) -> bool:
    return isinstance(error, errors.RequestTimedOutError) and error.api is not None and waited_s < IN_A_HURRY_S

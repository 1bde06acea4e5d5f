"""The argument of handlers, and the results that they may return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..._wire import RequestFrame, Response
from ..faults import Fault, Hint

if TYPE_CHECKING:
    from .._state.cluster import BrokerNode
    from .engine import Engine
    from .sasl import Authentication


class CloseConnection(Exception):
    """Raised by a handler to close the connection without a response, as brokers sometimes do."""


class Pending:
    """A response that the handler provides later by `complete`. Until then, the connection is muted."""

    __slots__ = ("done", "on_done", "on_give_up", "response")

    def __init__(self) -> None:
        self.done = False
        self.response: Response | None = None
        # Both are cleared at the end to break the reference cycles with their owners.
        self.on_done: Callable[[Response | None], None] | None = None
        # The handler's callback for the end of the client's connection.
        self.on_give_up: Callable[[], None] | None = None

    def complete(self, response: Response | None) -> None:
        """Send the response. Only the first call has an effect."""
        if not self.done:
            self.response = response
            on_done = self.on_done
            self._end()
            if on_done is not None:
                on_done(response)

    def give_up(self) -> None:
        if not self.done:
            on_give_up = self.on_give_up
            self._end()
            if on_give_up is not None:
                on_give_up()

    def _end(self) -> None:
        self.done, self.on_done, self.on_give_up = True, None, None


class Connection(Protocol):
    """The connection from which a request came, in the form that handlers see."""

    @property
    def node(self) -> BrokerNode: ...

    @property
    def number(self) -> int:
        """Number of the connection in this process."""
        ...

    @property
    def peer(self) -> str:
        """Address of the client."""
        ...

    @property
    def authentication(self) -> Authentication: ...

    software: tuple[str, str]
    """Name and version of the client's software (KIP-511). Both are empty if the client has not sent them."""

    def close(self) -> None:
        """Close the connection once pending writes have been sent."""


class RequestContext:
    """A request, and the broker that has received it: the argument of every handler."""

    __slots__ = ("_rules", "_struck", "api_version", "client_id", "connection", "engine", "node")

    def __init__(self, engine: Engine, connection: Connection, frame: RequestFrame, rules: Sequence[Fault]) -> None:
        self.engine = engine
        self.connection = connection
        self.node = connection.node
        self.api_version = frame.version
        self.client_id = frame.client_id
        # Faults for single topics or partitions. Each is evaluated once. The value is True if it applies to this
        # request.
        self._rules = rules
        self._struck: dict[int, bool] = {}

    @property
    def is_faultless(self) -> bool:
        """True if no fault rule applies to the topics and partitions of this request."""
        return not self._rules

    def fault_code(self, topic: str, partition: int | None = None) -> int:
        """Return the error code that a fault rule sets for this topic or partition, or 0 if there is none."""
        for rule in self._rules:
            if rule.error_code is not None and self._strikes(rule, topic, partition):
                return rule.error_code
        return 0

    def hint(self, topic: str, partition: int) -> Hint | None:
        """Return the leader that a rule names instead of the current leader, or None."""
        for rule in self._rules:
            if rule.hint is not None and self._strikes(rule, topic, partition):
                return rule.hint
        return None

    def _strikes(self, rule: Fault, topic: str, partition: int | None) -> bool:
        if rule.topic not in (None, topic) or rule.partition not in (None, partition):
            return False
        struck = self._struck.get(id(rule))
        if struck is None:
            struck = self._struck[id(rule)] = rule.strike()
        return struck


Handler = Callable[[RequestContext, Any], "Response | Pending | None"]
Handlers = Mapping[int, Handler]
"""Handlers by the number of the API."""

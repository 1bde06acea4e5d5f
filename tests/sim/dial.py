"""An attempt to connect to a host name, with the real search among simulated addresses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from aiokafka_lead._options.addresses import Search
from aiokafka_lead.errors import KafkaConnectionError, KafkaError
from tests.simulated.timeline import Timeline

if TYPE_CHECKING:
    from .cluster import FaultyBroker

HEAD_START_S = 0.25
"""Head start of an address over the next one, if several are raced."""


class Route(Enum):
    """Behaviour of an address without a broker."""

    REFUSED = "refuses"
    SILENT = "gives no answer to a connect"
    DEAF = "accepts, and is silent"
    FOREIGN = "accepts, and hangs up"


OnEnd = Callable[["FaultyBroker | None"], None]


class Dial:
    """The attempts of a link until an address has served, or all have failed."""

    def __init__(
        self,
        timeline: Timeline,
        targets: Mapping[str, FaultyBroker | Route],
        search: Search[KafkaError, FaultyBroker | Route],
        on_end: OnEnd,
    ) -> None:
        self._timeline = timeline
        self._targets = targets
        self._search = search
        search.found = targets
        self._on_end = on_end
        self._stage = 0
        """Incremented at each new wait, so that events of earlier waits are ignored."""
        self._waiting: list[str] = []
        """Addresses whose turn comes next."""
        self._open = 0
        """Connects without an outcome."""
        self._go_on()

    def give_up(self) -> None:
        """Fail because the time for all addresses is up."""
        self._stage += 1
        self._search.failed(KafkaConnectionError("no answer"), silent=True)

    def _go_on(self) -> None:
        self._waiting, self._open = list(self._search.candidates()), 0
        self._wait()
        self._begin()

    def _wait(self) -> None:
        """Start the wait for the next step."""
        self._stage += 1
        if self._search.patience_s < math.inf:
            self._later(self._search.patience_s, lambda: self._failed(silent=True))

    def _later(self, delay_s: float, event: Callable[[], None]) -> None:
        stage = self._stage
        self._timeline.later(delay_s, lambda: event() if stage == self._stage else None)

    def _begin(self) -> None:
        if self._waiting:
            address = self._waiting.pop(0)
            left = len(self._waiting)
            self._open += 1
            self._search.begin(address)
            self._later(self._timeline.latency(), lambda: self._knock(address))
            self._later(HEAD_START_S, lambda: self._begin() if left == len(self._waiting) else None)

    def _knock(self, address: str, silences: int = 0) -> None:
        """Note that the connect has reached the address."""
        target = self._targets[address]
        if target is Route.SILENT:  # TCP tries again after one second, then after two, four, ...
            self._later(2**silences, lambda: self._knock(address, silences + 1))
        elif isinstance(target, Route):
            self._later(
                self._timeline.latency(),
                lambda: self._refused(address) if target is Route.REFUSED else self._accepted(address),
            )
        elif target.running:
            stage = self._stage  # a frozen broker may serve this when the client has given up
            target.serve(lambda: self._answer(address) if stage == self._stage else None)
        else:
            self._later(self._timeline.latency(), lambda: self._refused(address))

    def _answer(self, address: str) -> None:
        self._later(self._timeline.latency(), lambda: self._accepted(address))

    def _refused(self, address: str) -> None:
        self._search.refused(address, KafkaConnectionError("refused"))
        self._open -= 1
        if self._waiting:
            self._begin()
        elif not self._open:
            self._failed(silent=False)

    def _accepted(self, address: str) -> None:
        self._search.reached(address)
        self._wait()
        target = self._targets[address]
        if target is Route.FOREIGN:
            self._later(self._timeline.latency(), lambda: self._failed(silent=False))
        elif not isinstance(target, Route):
            self._served(target)

    def _served(self, broker: FaultyBroker) -> None:
        if broker.running:
            self._stage += 1
            self._search.succeeded()
            self._on_end(broker)
        else:
            self._failed(silent=False)

    def _failed(self, *, silent: bool) -> None:
        self._stage += 1
        self._search.failed(KafkaConnectionError("no answer" if silent else "refused"), silent=silent)
        if self._search.left():
            self._go_on()
        else:
            self._on_end(None)

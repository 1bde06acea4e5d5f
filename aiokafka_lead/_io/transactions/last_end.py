"""Asking a coordinator whether it is done with the end of the transaction before; no task waits for the answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ..._core.transactions.errand import ask_request, read_ended
from ..._core.transactions.pace import EndPace
from ..._wire import ApiVersions, Request
from ...errors import KafkaError
from .asking import Asking, soon_s

HELD_S = 0.1
"""How long the first batches of a transaction wait for the end of the one before. Brokers that have to ask for the same
wait as long, but look only every 20 ms (``add.partitions.to.txn.retry.backoff.max.ms``)."""


class LastEnd:
    """Asks until the coordinator is done, or cannot be asked, or time is up: what waits for it goes on then."""

    def __init__(
        self,
        transactional_id: str,
        asking: Asking,
        pace: EndPace,
        over: Callable[[int], None],
        look_by: Callable[[float], None],
    ) -> None:
        """``over`` gets the number of the transaction that waits; `look` is to be called at the time of ``look_by``."""
        self._transactional_id = transactional_id
        self._asking = asking
        self._pace = pace
        self._over = over
        self._look_by = look_by
        self._number = 0
        """The transaction that waits, or was the latest to."""
        self._asked = 0
        """How often, on its behalf."""
        self._unanswered = False
        """Whether a question is under way."""
        self._ask_at = self._first_at = self._until = 0.0

    def look(self, number: int, now: float) -> float:
        """Ask if it is time to, while this transaction waits; seconds until the next look, at most."""
        if number != self._number:
            self._number = number
            self._asked = 0
            self._unanswered = False
            self._ask_at = self._first_at = now + self._pace.left_s(now)
            self._until = now + HELD_S
        if now >= self._until:
            self._end()
        elif not self._unanswered and now >= self._ask_at:
            self._asked += 1
            self._unanswered = self._asking.submit(self._shape, partial(self._answered, number)) is not None
            if not self._unanswered:
                self._end()
        return max(0.0, (self._until if self._unanswered else min(self._until, self._ask_at)) - now)

    def _shape(self, versions: ApiVersions) -> tuple[Request[Any], int]:
        return ask_request(self._transactional_id, versions)

    def _answered(self, number: int, response: Any, error: KafkaError | None) -> None:
        if number != self._number or not self._unanswered:
            return
        self._unanswered = False
        if error is None and read_ended(response) is not None:
            now = time.monotonic()
            self._ask_at = now + soon_s(now - self._first_at)
            self._look_by(self._ask_at)
        else:
            self._end()

    def _end(self) -> None:
        self._unanswered = False
        self._pace.asked(self._asked)
        self._over(self._number)

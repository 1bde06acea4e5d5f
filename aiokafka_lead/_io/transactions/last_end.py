"""Asks a coordinator if it has finished the end of the previous transaction, without a waiting task."""

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
"""Time for which the first batches of a transaction wait for the end of the previous one. Brokers that have to ask the
coordinator wait as long, but check only every 20 ms (``add.partitions.to.txn.retry.backoff.max.ms``)."""


class LastEnd:
    """Asks until the coordinator has finished, cannot be asked, or time has run out: then waiting work continues."""

    def __init__(
        self,
        transactional_id: str,
        asking: Asking,
        pace: EndPace,
        over: Callable[[int], None],
        look_by: Callable[[float], None],
    ) -> None:
        """``over`` gets the number of the waiting transaction; `look` has to be called at the time of ``look_by``."""
        self._transactional_id = transactional_id
        self._asking = asking
        self._pace = pace
        self._over = over
        self._look_by = look_by
        self._number = 0
        """The waiting transaction, or the latest one."""
        self._asked = 0
        """Number of questions on its behalf."""
        self._unanswered = False
        """True while a question is unanswered."""
        self._ask_at = self._first_at = self._until = 0.0

    def look(self, number: int, now: float) -> float:
        """Ask if it is time, while this transaction waits; return the seconds until the next check, at most."""
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

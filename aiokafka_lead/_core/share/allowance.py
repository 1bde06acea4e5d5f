"""How many records may be acquired ahead of the application."""

from __future__ import annotations

__all__ = ["Allowance"]

FIRST = 64
"""The number of records that are acquired ahead until the application has waited."""

LATE = 0.25
"""A record that has waited for this part of its lock is late: fewer are to be acquired ahead."""

LOCK_S = 30.0
"""How long locks last until a broker says it."""


class Allowance:
    """Never more in hand than locks allow: grows while the application waits for records, shrinks where they wait.

    What is acquired and not worked on keeps other members from working on it. So it begins with few; each wait of the
    application doubles them, and each record that was late for its lock halves them.
    """

    def __init__(self, most: int, *, of_each_broker: bool = False) -> None:
        self._most = most
        self._of_each_broker = of_each_broker
        """Whether the limit grows with the number of brokers: one that is asked for few records is asked often."""
        self.brokers = 1
        """How many have records for the application."""
        self.limit = min(FIRST, most)
        """Records ahead of the application, of all brokers."""
        self.lock_s = LOCK_S
        """How long a lock lasts."""

    @property
    def share(self) -> int:
        """Records ahead of the application, of one broker; no more than before where others have none any more."""
        return min(self._most, max(1, self.limit // self.brokers))

    def starved(self) -> None:
        """The application waits, and nothing is there."""
        most = self._most * self.brokers if self._of_each_broker else self._most
        self.limit = min(most, 2 * self.limit)

    def waited(self, lock_left_s: float) -> None:
        """A record is about to be handed out, with so much of its lock left."""
        if lock_left_s < (1 - LATE) * self.lock_s:
            self.limit = max(1, self.limit // 2)

    def late_at(self, expires_at: float) -> float:
        """When a record is late whose lock ends then."""
        return expires_at - (1 - LATE) * self.lock_s

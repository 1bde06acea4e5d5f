"""Limit on the number of records acquired ahead of the application."""

from __future__ import annotations

FIRST = 64
"""Initial limit, until the application has waited."""

LATE = 0.25
"""Share of a record's lock after which a waiting record is late, which lowers the limit."""

LOCK_S = 30.0
"""Assumed length of a lock until a broker reports it."""


class Allowance:
    """Limit that grows while the application waits for records, and shrinks while records wait for the application.

    Other members cannot handle a record that is acquired here and waits. So the limit begins low; each wait of the
    application doubles it, and each record that is late halves it.
    """

    def __init__(self, most: int, *, of_each_broker: bool = False) -> None:
        self._most = most
        self._of_each_broker = of_each_broker
        """True if the limit grows with the number of brokers: a broker asked for few records is asked often."""
        self.brokers = 1
        """Number of brokers with records for the application."""
        self.limit = min(FIRST, most)
        """Limit over all brokers."""
        self.lock_s = LOCK_S
        """Length of a lock in seconds."""

    @property
    def share(self) -> int:
        """Limit for one broker, which never exceeds the ``most`` given at the start."""
        return min(self._most, max(1, self.limit // self.brokers))

    def starved(self) -> None:
        """Raise the limit: the application waits, and no record is there."""
        most = self._most * self.brokers if self._of_each_broker else self._most
        self.limit = min(most, 2 * self.limit)

    def waited(self, lock_left_s: float) -> None:
        """Lower the limit if the record about to be handed out is late."""
        if lock_left_s < (1 - LATE) * self.lock_s:
            self.limit = max(1, self.limit // 2)

    def late_at(self, expires_at: float) -> float:
        """Return the time at which a record is late if its lock ends at ``expires_at``."""
        return expires_at - (1 - LATE) * self.lock_s

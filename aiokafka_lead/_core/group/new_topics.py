"""Whether a member looks for new topics before it joins again."""

from __future__ import annotations

from ..metadata.types import ClusterSnapshot

__all__ = ["NewTopics"]


class NewTopics:
    """Topics that match a pattern, and that other members may have heard of before this one.

    A member that joined without them would get no part of them, and the group would rebalance once more when it hears
    of them. So it asks for newer metadata first (Java's ``ConsumerCoordinator.poll``).
    """

    def __init__(self, timeout_s: float) -> None:
        """After ``timeout_s`` it joins without newer metadata."""
        self._timeout_s = timeout_s
        self._possible = False
        self._since: tuple[int, float] | None = None
        """The generation of the metadata that is too old, and until when a newer one is waited for."""

    def possible(self) -> None:
        """Others have begun a rebalance."""
        self._possible = True

    def waits_until(self, snapshot: ClusterSnapshot, now: float) -> float | None:
        """How long newer metadata than that of the first call is waited for; None where it is there, or not needed."""
        if not self._possible:
            return None
        if self._since is None:
            self._since = (snapshot.generation, now + self._timeout_s)
        generation, until = self._since
        return until if snapshot.generation <= generation and now < until else None

    def over(self) -> None:
        """The member joins."""
        self._possible, self._since = False, None

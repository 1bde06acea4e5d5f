"""The bytes of ``buffer_memory``: who holds them, and who waits for some, first come first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["BufferMemory", "MemoryClaim"]


class MemoryClaim:
    """A place in the queue for memory. Once granted, the bytes are held for the claim until it is released."""

    __slots__ = ("granted", "on_grant", "size")

    def __init__(self, size: int, on_grant: Callable[[], None]) -> None:
        self.size = size
        self.on_grant = on_grant
        """Called once, when the bytes are there."""
        self.granted = False


class BufferMemory:
    """Counts the bytes of all records that are not yet acknowledged or failed.

    Invariant: while somebody waits nobody else gets anything, so that a large record is not starved by small ones.
    """

    __slots__ = ("_headroom", "limit", "open_until", "used", "waiting")

    def __init__(self, limit: int, headroom: int) -> None:
        """``headroom`` is what one record that fits into an open batch takes at most."""
        self.limit = limit
        self.used = 0
        self.waiting: deque[MemoryClaim] = deque()
        self._headroom = headroom
        self.open_until = limit - headroom
        """While ``used`` is not above this, a record that fits into an open batch fits into memory too (-1: never).

        The one comparison that appending to an open batch costs.
        """

    def take(self, size: int) -> bool:
        """Hold ``size`` bytes, if they are there and nobody waits."""
        if self.waiting or self.used + size > self.limit:
            return False
        self.used += size
        return True

    def give(self, size: int) -> None:
        """Release ``size`` bytes, and grant what waits."""
        self.used -= size
        assert self.used >= 0
        if self.waiting:
            self._grant()

    def claim(self, size: int, on_grant: Callable[[], None]) -> MemoryClaim:
        """Queue for ``size`` bytes, which must not be more than the limit."""
        assert size <= self.limit
        claim = MemoryClaim(size, on_grant)
        self.waiting.append(claim)
        self.open_until = -1
        self._grant()
        return claim

    def release(self, claim: MemoryClaim) -> None:
        """Give a claim up: leave the queue, or give back what was granted. Once for each claim."""
        if claim.granted:
            self.give(claim.size)
            return
        self.waiting.remove(claim)
        self._grant()

    def _grant(self) -> None:
        while self.waiting and self.used + self.waiting[0].size <= self.limit:
            claim = self.waiting.popleft()
            claim.granted = True
            self.used += claim.size
            claim.on_grant()
        if not self.waiting:
            self.open_until = self.limit - self._headroom

"""The bytes of ``buffer_memory``, and a first-come, first-served queue of claims for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class MemoryClaim:
    """A place in the queue for memory. Once granted, the bytes are held for the claim until it is released."""

    __slots__ = ("granted", "on_grant", "size")

    def __init__(self, size: int, on_grant: Callable[[], None]) -> None:
        self.size = size
        self.on_grant = on_grant
        """Called once, when the bytes are available."""
        self.granted = False


class BufferMemory:
    """Counts the bytes of all records that are not yet acknowledged or failed.

    Invariant: while a claim waits, no other request is granted, so that small records do not starve a large one.
    """

    __slots__ = ("_headroom", "limit", "open_until", "used", "waiting")

    def __init__(self, limit: int, headroom: int) -> None:
        """Begin with ``limit`` bytes; ``headroom`` is the largest record that fits into an open batch."""
        self.limit = limit
        self.used = 0
        self.waiting: deque[MemoryClaim] = deque()
        self._headroom = headroom
        self.open_until = limit - headroom
        """While ``used`` is at most this, a record that fits into an open batch also fits into memory (-1: never).

        So appending to an open batch needs a single comparison.
        """

    def take(self, size: int) -> bool:
        """Hold ``size`` bytes and return True, if they are available and no claim waits."""
        if self.waiting or self.used + size > self.limit:
            return False
        self.used += size
        return True

    def give(self, size: int) -> None:
        """Release ``size`` bytes, and grant waiting claims."""
        self.used -= size
        assert self.used >= 0
        if self.waiting:
            self._grant()

    def claim(self, size: int, on_grant: Callable[[], None]) -> MemoryClaim:
        """Queue for ``size`` bytes, which must not exceed the limit."""
        assert size <= self.limit
        claim = MemoryClaim(size, on_grant)
        self.waiting.append(claim)
        self.open_until = -1
        self._grant()
        return claim

    def release(self, claim: MemoryClaim) -> None:
        """Give up a claim: leave the queue, or release the granted bytes. Call it once per claim."""
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

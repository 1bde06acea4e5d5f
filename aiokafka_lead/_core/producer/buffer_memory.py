"""The memory of ``buffer_memory``, and a first-come, first-served queue of claims for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class MemoryClaim:
    """A place in the queue for memory. Granted bytes are held until the claim is released."""

    __slots__ = ("granted", "on_grant", "size")

    def __init__(self, size: int, on_grant: Callable[[], None]) -> None:
        self.size = size
        self.on_grant = on_grant
        """Called once, when the bytes are granted."""
        self.granted = False


class BufferMemory:
    """Grants memory to records until they are acknowledged or have failed.

    Invariant: while a claim waits, no other request is granted. Otherwise, small records could starve a large one.
    """

    __slots__ = ("_headroom", "limit", "open_until", "used", "waiting")

    def __init__(self, limit: int, headroom: int) -> None:
        """Start with ``limit`` bytes. ``headroom`` is the size of the largest record that fits into an open batch."""
        self.limit = limit
        self.used = 0
        self.waiting: deque[MemoryClaim] = deque()
        self._headroom = headroom
        self.open_until = limit - headroom
        """If ``used`` is at most this, any record that fits into an open batch also fits into memory. -1 means never.

        Appending to an open batch therefore needs a single comparison.
        """

    def take(self, size: int) -> bool:
        """Take ``size`` bytes and return True, if they are available and no claim is waiting."""
        if self.waiting or self.used + size > self.limit:
            return False
        self.used += size
        return True

    def give(self, size: int) -> None:
        """Release ``size`` bytes, and grant claims that are waiting."""
        self.used -= size
        assert self.used >= 0
        if self.waiting:
            self._grant()

    def claim(self, size: int, on_grant: Callable[[], None]) -> MemoryClaim:
        """Queue for ``size`` bytes, which must not exceed the limit. ``on_grant`` is called when they are granted."""
        assert size <= self.limit
        claim = MemoryClaim(size, on_grant)
        self.waiting.append(claim)
        self.open_until = -1
        self._grant()
        return claim

    def release(self, claim: MemoryClaim) -> None:
        """Leave the queue, or release the granted bytes. Must be called once for each claim."""
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

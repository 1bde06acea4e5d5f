"""How many requests are worth while on their way to one broker at a time.

A broker serves one request of a connection after the other: a Produce request with ``acks=all`` until every replica has
its records. What is sent behind others waits for them all, so that a record is acknowledged soonest if it waits here
for the next request, with all others that come meanwhile, rather than there in one of its own. Only on a long way it
takes several requests to keep the broker busy. Which of the two it is shows as in TCP Vegas: requests that wait for
others take longer than the quickest one did.

A broker that has much else to do gets one request at a time (rule 15 of leadership). A second one would save the way
there and back, which is short beside that work; and after a leader move both have to be refused before anything may go
to the new leader. What shows such a broker is that several answers in a row are slow. One answer, or a pause of the
broker, is over with the next, and where this client itself is late, answers come together. A broker that is far away
behind a proxy that is near is slow, too, but serves requests beside each other; where no answer has been quick yet, it
gets two requests again now and then to see that.

Compiled through ``request_window.pxd`` where a compiler is.
"""

from __future__ import annotations

__all__ = ["RequestWindow"]

ALONE, SHALLOW, DEEP = 1, 2, 100
"""The bounds of a window: that of a broker with much else to do, and those of others. While one request is served, the
next one had better be there."""
NONE_WAITS, ONE_WAITS = 0.5, 1.0
"""Of the requests under way, how many wait for others at the broker: below the first the window may grow, above the
second it shrinks."""
BUSY_S = 0.02
"""A broker that takes longer for a request may have much else to do."""
SHORT_WAY = 1 / 8
"""The way there and back is short where it takes less than this part of what the broker does."""
SLOW_IN_A_ROW = 2
"""So many slow answers, one after the other, show a broker that has much else to do."""
TRY_AFTER, TRY_AFTER_MOST = 8, 256
"""After this number of answers a broker that may be far away gets two requests again. The number doubles each time, up
to `TRY_AFTER_MOST`."""
MANY_BYTES = 1 << 18
"""What comes in fewer batches goes with the next request, which is no later for that."""
LATE = 0.25
"""The weight of the latest answer in `RequestWindow.served_s`."""
INSTANT_S = 1e-6
"""The shortest time that an answer is taken to need: a coarse clock may show none."""


class RequestWindow:
    """Of one connection: how many of its requests may be under way, as learnt from the times that answers take."""

    __slots__ = (
        "_alone_for",
        "_answered_at",
        "_depth",
        "_far",
        "_opening_s",
        "_quickest_s",
        "_slow_in_a_row",
        "_try_after",
        "_under_way",
        "_was_full",
        "served_s",
    )

    def __init__(self, opening_s: float = 0.0) -> None:
        """``opening_s``: how long it took to open the connection: once there and back, or more."""
        self._opening_s = opening_s
        self._depth = SHALLOW
        """How many may be under way."""
        self._under_way = 0
        self._was_full = False
        """Since the depth was changed."""
        self._answered_at = 0.0
        """When the latest answer came, from which on the broker serves the next request."""
        self._quickest_s = float("inf")
        """The shortest time from a request to its answer."""
        self._far = False
        """Whether requests were served beside each other, when that was last to be seen."""
        self._slow_in_a_row = 0
        """The latest answers that each show a broker with much else to do."""
        self._alone_for = 0
        """Answers since the broker gets one request at a time."""
        self._try_after = TRY_AFTER
        self.served_s = 0.0
        """How long the broker takes for a request before it looks at the next one, of late."""

    def sent(self) -> None:
        """A request was sent; `answered` or `lost` says how it ended."""
        self._under_way += 1

    def lost(self) -> None:
        """A request that was sent is not answered."""
        self._under_way -= 1

    def answered(self, sent_at: float, now: float) -> None:
        """A request that was sent at that time was answered; both in monotonic seconds."""
        took_s = max(INSTANT_S, now - sent_at)
        self._quickest_s = min(self._quickest_s, took_s)
        wait = self._under_way * (1 - self._quickest_s / took_s)
        beside_s = self._answered_at - sent_at
        served_s = now - max(sent_at, self._answered_at)
        self._answered_at = now
        self.served_s += (served_s - self.served_s) * LATE
        self._under_way -= 1
        # To open takes longer than the way where a name is looked up, or TLS is done by a broker that is busy.
        busy_s = max(BUSY_S, min(self._opening_s, self._quickest_s) / SHORT_WAY)
        if self._depth == ALONE:
            self._look_out(served_s < busy_s / 2)
        elif served_s > busy_s and not self._serves_beside(beside_s, took_s):
            self._slow_in_a_row += 1
            if self._slow_in_a_row == SLOW_IN_A_ROW:
                self._set_depth(ALONE)
        else:
            self._slow_in_a_row = 0
            self._try_after = TRY_AFTER
            if wait <= NONE_WAITS and self._was_full:
                self._set_depth(min(DEEP, self._depth + 1))
            elif wait > ONE_WAITS:
                self._set_depth(max(SHALLOW, self._depth - 1))

    def _serves_beside(self, beside_s: float, took_s: float) -> bool:
        """Whether the broker is far, so that it serves requests beside each other.

        ``beside_s``: how long the request was under way while the one before was not answered. It says nothing where
        that is short.
        """
        if beside_s > self._quickest_s / 2:
            self._far = took_s - self._quickest_s < beside_s / 2
        return self._far

    def _look_out(self, quick: bool) -> None:
        """Give the broker two requests where it is quick again, or to see whether it is far away."""
        self._alone_for += 1
        may_be_far = self._quickest_s > BUSY_S
        if quick:
            self._set_depth(SHALLOW)
        elif may_be_far and self._alone_for >= self._try_after:
            self._try_after = min(TRY_AFTER_MOST, 2 * self._try_after)
            self._set_depth(SHALLOW)

    def _set_depth(self, depth: int) -> None:
        self._depth = depth
        self._was_full = False
        self._slow_in_a_row = self._alone_for = 0

    def is_full(self, filled_bytes: int = 0) -> bool:
        """Whether the next request had better wait for an answer.

        ``filled_bytes``: of the batches that were filled since the last look. They go at once, so that a producer under
        load keeps its brokers at work; but those to a broker with much else to do only where they are many.
        """
        if filled_bytes >= (MANY_BYTES if self._depth == ALONE else 1):
            return False
        full = self._under_way >= self._depth
        self._was_full = self._was_full or full
        return full

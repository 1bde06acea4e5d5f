"""Learns the useful number of simultaneous requests to one broker.

A broker serves the requests of a connection one by one: a Produce request with ``acks=all`` until every replica has its
records. A request waits for all requests before it. So a record is acknowledged soonest if it waits in the client for
the next request, together with all records that arrive in the meantime, rather than at the broker in a separate
request. Only a long network path needs several requests to keep the broker busy. The two cases are distinguished as in
TCP Vegas: requests that wait at the broker take longer than the quickest request.

A broker with much other work gets one request at a time (rule 15 of leadership). A second request would only save the
round trip, which is short compared to that work. And after a leader move, both requests have to be refused before a
batch may be sent to the new leader. This is recognised from several slow answers in a row. A single slow answer
or a pause of the broker affects one answer only, and if this client itself is late, answers arrive together. A distant
broker behind a near proxy is slow, too, but serves requests concurrently. If no answer has been quick yet, the broker
gets two requests at times to find out.

Compiled through ``request_window.pxd`` if a compiler is available.
"""

from __future__ import annotations

ALONE, SHALLOW, DEEP = 1, 2, 100
"""Sizes of a window: for a broker with much other work, and bounds for other brokers. While one request is served, the
next should already be at the broker."""
NONE_WAITS, ONE_WAITS = 0.5, 1.0
"""Number of requests in flight that wait for others at the broker: below the first value the window may grow, above the
second it shrinks."""
BUSY_S = 0.02
"""Seconds per request from which on a broker may have much other work."""
SHORT_WAY = 1 / 8
"""The round trip is short if it takes less than this fraction of the broker's work."""
SLOW_IN_A_ROW = 2
"""Number of consecutive slow answers that show a broker with much other work."""
TRY_AFTER, TRY_AFTER_MOST = 8, 256
"""Number of answers after which a broker that may be distant gets two requests again; doubles each time up to
`TRY_AFTER_MOST`."""
MANY_BYTES = 1 << 18
"""With fewer bytes in full batches, these wait for the next request, which does not delay them."""
LATE = 0.25
"""Weight of the latest answer in `RequestWindow.served_s`."""
INSTANT_S = 1e-6
"""The shortest time that an answer is assumed to take: a coarse clock may show zero."""


class RequestWindow:
    """Limits the requests in flight on one connection, based on the answer times."""

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
        """Begin without answers. ``opening_s`` is the time it took to open the connection: one round trip or more."""
        self._opening_s = opening_s
        self._depth = SHALLOW
        """Maximum number of requests in flight."""
        self._under_way = 0
        self._was_full = False
        """True if the window was full since the depth was changed."""
        self._answered_at = 0.0
        """Time of the latest answer; since then the broker serves the next request."""
        self._quickest_s = float("inf")
        """The shortest time from a request to its answer."""
        self._far = False
        """True if requests were served concurrently when it was last possible to see."""
        self._slow_in_a_row = 0
        """Number of consecutive slow answers, up to the latest."""
        self._alone_for = 0
        """Number of answers since the broker gets one request at a time."""
        self._try_after = TRY_AFTER
        self.served_s = 0.0
        """Recent mean time that the broker takes for a request before it begins with the next."""

    def sent(self) -> None:
        """Count a request that was sent; `answered` or `lost` follows."""
        self._under_way += 1

    def lost(self) -> None:
        """Count a request that will not be answered."""
        self._under_way -= 1

    def answered(self, sent_at: float, now: float) -> None:
        """Adapt to the answer to a request sent at ``sent_at``; both times are monotonic seconds."""
        took_s = max(INSTANT_S, now - sent_at)
        self._quickest_s = min(self._quickest_s, took_s)
        wait = self._under_way * (1 - self._quickest_s / took_s)
        beside_s = self._answered_at - sent_at
        served_s = now - max(sent_at, self._answered_at)
        self._answered_at = now
        self.served_s += (served_s - self.served_s) * LATE
        self._under_way -= 1
        # Opening takes longer than a round trip if a name is looked up, or TLS is done by a busy broker.
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
        """Return True if the broker is distant, so that it serves requests concurrently.

        ``beside_s`` is the time for which the request was in flight together with the previous request. A short time
        proves nothing.
        """
        if beside_s > self._quickest_s / 2:
            self._far = took_s - self._quickest_s < beside_s / 2
        return self._far

    def _look_out(self, quick: bool) -> None:
        """Allow two requests if the broker is quick again, or to find out if it is distant."""
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
        """Return True if the next request should wait for an answer.

        ``filled_bytes`` is the size of the batches filled since the last call. They are sent immediately, so that a
        producer under load keeps its brokers busy; to a broker with much other work, only from `MANY_BYTES` on.
        """
        if filled_bytes >= (MANY_BYTES if self._depth == ALONE else 1):
            return False
        full = self._under_way >= self._depth
        self._was_full = self._was_full or full
        return full

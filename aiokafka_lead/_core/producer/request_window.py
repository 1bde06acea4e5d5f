"""An adaptive limit on simultaneous requests to one broker.

A broker serves the requests of a connection one by one. With ``acks=all``, a Produce request lasts until every replica
has its records, and all later requests wait for it. A record is therefore acknowledged soonest if it waits in the
client for the next request, with all records that arrive in the meantime, instead of waiting at the broker in a request
of its own. Several requests are needed only on a long network path, to keep the broker busy. The two cases are
distinguished as in TCP Vegas: a request that has to wait at the broker takes longer than the quickest request.

A broker with much other work gets one request at a time (rule 15 of `_core.leadership`). A second request would only
save the round trip, which is short compared to that work. Moreover, if a leader moves, all requests in flight must be
refused before a batch may be sent to the new leader. Several slow responses in a row show that a broker has much other
work. A single slow response, or a pause of the broker, affects only one response. If this client is late, responses
arrive together. A distant broker behind a near proxy is also slow, but serves requests concurrently. To detect this, a
broker that has never responded quickly is sent two requests from time to time.

If a compiler is available, this code is compiled through ``request_window.pxd``.
"""

from __future__ import annotations

ALONE, SHALLOW, DEEP = 1, 2, 100
"""Window sizes: for a broker with much other work, and the bounds for other brokers.

While one request is served, the next should already be at the broker.
"""
NONE_WAITS, ONE_WAITS = 0.5, 1.0
"""Number of requests in flight that wait at the broker for other requests.

Below the first value, the window may grow. Above the second, it shrinks.
"""
BUSY_S = 0.02
"""Seconds per request from which on a broker may have much other work."""
SHORT_WAY = 1 / 8
"""A round trip counts as short if it takes less than this fraction of the broker's time for a request."""
SLOW_IN_A_ROW = 2
"""Number of consecutive slow responses that show that a broker has much other work."""
TRY_AFTER, TRY_AFTER_MOST = 8, 256
"""Number of responses after which a broker that may be distant is sent two requests again.

It doubles each time, up to the second value.
"""
MANY_BYTES = 1 << 18
"""Size in bytes below which full batches wait for the next request, which does not delay them."""
LATE = 0.25
"""Weight of the latest response in `RequestWindow.served_s`."""
INSTANT_S = 1e-6
"""Minimum time in seconds that a response is assumed to take, because a coarse clock may show zero."""


class RequestWindow:
    """Limits the requests in flight on one connection, based on the response times."""

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
        """Start without responses.

        ``opening_s`` is the time that it took to open the connection, which is at least one round trip.
        """
        self._opening_s = opening_s
        self._depth = SHALLOW
        """Maximum number of requests in flight."""
        self._under_way = 0
        self._was_full = False
        """True if the window has been full since its size was last changed."""
        self._answered_at = 0.0
        """Time of the latest response, when the broker began to serve the next request."""
        self._quickest_s = float("inf")
        """Shortest time in seconds from a request to its response."""
        self._far = False
        """True if the broker served requests concurrently when this was last observable."""
        self._slow_in_a_row = 0
        """Number of consecutive slow responses, including the latest."""
        self._alone_for = 0
        """Number of responses since the broker was limited to one request at a time."""
        self._try_after = TRY_AFTER
        self.served_s = 0.0
        """Running mean of the seconds that the broker takes for a request before it starts the next."""

    def sent(self) -> None:
        """Count a request that is being sent. `answered` or `lost` must follow."""
        self._under_way += 1

    def lost(self) -> None:
        """Record that a request that was sent will not be answered, because its connection was lost."""
        self._under_way -= 1

    def answered(self, sent_at: float, now: float) -> None:
        """Adapt to the response to a request that was sent at ``sent_at``. Times are in monotonic seconds."""
        took_s = max(INSTANT_S, now - sent_at)
        self._quickest_s = min(self._quickest_s, took_s)
        wait = self._under_way * (1 - self._quickest_s / took_s)
        beside_s = self._answered_at - sent_at
        served_s = now - max(sent_at, self._answered_at)
        self._answered_at = now
        self.served_s += (served_s - self.served_s) * LATE
        self._under_way -= 1
        # Opening takes longer than a round trip if the name is resolved, or if a busy broker does TLS.
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
        """Return True if the broker serves requests concurrently, which means that it is distant.

        ``beside_s`` is the number of seconds for which this request and the previous one were both in flight. A short
        time proves nothing.
        """
        if beside_s > self._quickest_s / 2:
            self._far = took_s - self._quickest_s < beside_s / 2
        return self._far

    def _look_out(self, quick: bool) -> None:
        """Allow two requests if the broker is quick again, or to find out whether it is distant."""
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
        """Return True if the next request should wait for a response.

        ``filled_bytes`` is the size of the batches that became full since the last call. They are sent immediately, so
        a producer under load keeps its brokers busy. For a broker with much other work, this applies only if they have
        at least `MANY_BYTES`.
        """
        if filled_bytes >= (MANY_BYTES if self._depth == ALONE else 1):
            return False
        full = self._under_way >= self._depth
        self._was_full = self._was_full or full
        return full

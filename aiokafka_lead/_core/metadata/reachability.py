"""Connection backoff and setup timeout of each address (KIP-144, KIP-580, KIP-601).

State is kept for each host and port, not for each node id. A bootstrap server and a broker at the same address
therefore fail together, a broker that moves to a new address starts without a backoff, and a backoff survives a
rebootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any

from ..._options.addresses import Addresses, Search
from ...errors import KafkaError, MisroutedConnectionError, SaslAuthenticationFailedError
from ...errors.base import without_frames
from ..backoff import Backoff
from ..chance import random
from ..trust import Trust, patience_of

Endpoint = tuple[str, int]
"""Host and port as the cluster advertises them, before DNS resolution."""

REMEMBERED_ADDRESSES = 4096
"""Number of addresses to remember. If there are more, those with the oldest failures are forgotten."""

LOOKED_FURTHER = 1 / 8
"""Fraction of the time since a helpful response for which a connection to an unhelpful bootstrap server is kept.

It limits new connections to 60 per hour.
"""


class NodeState(Enum):
    """Availability of a node for requests. Only BACKOFF counts as unavailable (KIP-899)."""

    READY = "ready"
    """A connection is open. It may be busy."""
    CONNECTING = "connecting"
    """A connection is being opened."""
    CONNECTABLE = "connectable"
    """There is no connection, and one may be opened now."""
    BACKOFF = "backoff"
    """The node is unknown, or the backoff after a failed attempt or a lost connection has not ended."""


class _Failures:
    """The failures at one address since a connection to it last became ready."""

    __slots__ = ("count", "error", "failed_at", "refused_since", "retry_at", "setup_count")

    def __init__(self, error: KafkaError, failed_at: float) -> None:
        self.error = error
        self.failed_at = failed_at
        self.count = 0
        self.setup_count = 0
        """Number of failures before a connection was ready.

        Each failure doubles the setup timeout of the next attempt.
        """
        self.retry_at = 0.0
        self.refused_since: float | None = None
        """Time since which an address or login that used to work has been refused, without any other failure since."""


class Reachability:
    """Records the failures of each address, and decides when the next attempt may be made.

    Times are in monotonic seconds. Arguments that are client options are in milliseconds.
    """

    def __init__(
        self,
        *,
        reconnect_backoff_ms: float,
        reconnect_backoff_max_ms: float,
        setup_timeout_ms: float,
        setup_timeout_max_ms: float,
        retry_backoff_max_ms: float = 1000,
        refused_login_ms: float = 0,
        rng: Callable[[], float] = random,
    ) -> None:
        """Start without failures.

        If an address or login that used to work is refused, that becomes final after ``refused_login_ms``.
        """
        self._backoff = Backoff(reconnect_backoff_ms, reconnect_backoff_max_ms, rng)
        self._setup_timeout = Backoff(setup_timeout_ms, setup_timeout_max_ms, rng)
        self._setup_timeout_min_s = setup_timeout_ms / 1000
        self._failures: dict[Endpoint, _Failures] = {}
        self._addresses: dict[Endpoint, Addresses[KafkaError]] = {}
        self._patience_s = patience_of(retry_backoff_max_ms)
        self._refused_login_s = refused_login_ms / 1000
        self._logged_in = False
        """True if any broker has accepted the login. All brokers share the credentials."""
        self._evasions: dict[Endpoint, Trust] = {}
        self._ready_at: dict[Endpoint, float] = {}
        self._astray: set[Endpoint] = set()
        self._asked_older: set[Endpoint] = set()
        """Addresses at which connections start with an older version of ApiVersions."""

    def failed(self, endpoint: Endpoint, now: float, error: KafkaError) -> None:
        """Record that an attempt failed before the connection was ready.

        If the address or the login used to work, mark a refusal as retriable; see `final_error`.
        """
        self._note(endpoint, now, error, in_setup=True)

    def lost(self, endpoint: Endpoint, now: float, error: KafkaError) -> None:
        """Record that a ready connection was lost. Do not call this for connections that this client closed."""
        self._note(endpoint, now, error, in_setup=False)

    def succeeded(self, endpoint: Endpoint, now: float) -> None:
        """Record that a connection became ready. Earlier failures of the address no longer count."""
        self._failures.pop(endpoint, None)
        self._logged_in = True
        self._ready_at.pop(endpoint, None)
        self._ready_at[endpoint] = now
        if len(self._ready_at) > REMEMBERED_ADDRESSES:
            del self._ready_at[next(iter(self._ready_at))]

    def ready_since(self, endpoint: Endpoint, at: float) -> bool:
        """Return True if a connection became ready at this time or later."""
        return self._ready_at.get(endpoint, -math.inf) >= at

    def search(self, endpoint: Endpoint) -> Search[KafkaError, Any]:
        """Start an attempt to connect. It tries the host's IP addresses in turn and remembers those that failed."""
        addresses = self._addresses.pop(endpoint, None) or Addresses()
        self._addresses[endpoint] = addresses
        if len(self._addresses) > REMEMBERED_ADDRESSES:
            del self._addresses[next(iter(self._addresses))]
        return Search(addresses)

    def leave(self, endpoint: Endpoint, error: KafkaError) -> bool:
        """Prefer the host's other IP addresses, because the last one led to a broker that does not help.

        Returns True if another IP address may be better.
        """
        addresses = self._addresses.get(endpoint)
        return addresses is not None and addresses.leave(error)

    def may_lead_elsewhere(self, endpoint: Endpoint, now: float, loss_s: float = 0.0) -> bool:
        """Return True if a new connection to this address may reach a different broker.

        The same address can lead to several brokers, for example through a load balancer. A connection is kept for at
        least half of the patience (see `patience_of`). ``loss_s`` is the number of seconds for which no broker's
        response has helped. New connections become rarer as it grows, because a partition may have no leader for hours,
        and many clients may need it.
        """
        return not self.ready_since(endpoint, now - max(self._patience_s / 2, loss_s * LOOKED_FURTHER))

    def all_left(self, endpoint: Endpoint) -> bool:
        """Return True if all IP addresses of the host lead to brokers that do not help, and all are reachable."""
        addresses = self._addresses.get(endpoint)
        return addresses is None or addresses.all_left

    def patience_s(self, endpoint: Endpoint) -> float:
        """Return the seconds to wait for a response at the current IP address before trying another.

        Returns infinity if the host has no known IP address.
        """
        addresses = self._addresses.get(endpoint)
        return math.inf if addresses is None else addresses.patience_s

    def evaded(self, endpoint: Endpoint, asked_at: float, now: float) -> None:
        """Count a failure of the broker at this address to answer a request that any broker can answer."""
        evasions = self._evasions.pop(endpoint, None) or Trust()
        evasions.refused(asked_at, now, self._patience_s)
        self._evasions[endpoint] = evasions
        if len(self._evasions) > REMEMBERED_ADDRESSES:
            del self._evasions[next(iter(self._evasions))]

    def informed(self, endpoint: Endpoint) -> None:
        """Record that the broker answered. Its earlier failures no longer count."""
        self._evasions.pop(endpoint, None)
        addresses = self._addresses.get(endpoint)
        if addresses is not None:
            addresses.stayed()

    def in_doubt(self, endpoint: Endpoint, now: float) -> bool:
        """Return True if other brokers should be asked before the broker at this address."""
        evasions = self._evasions.get(endpoint)
        return evasions is not None and evasions.in_doubt(now, self._patience_s)

    def led_astray(self, endpoint: Endpoint) -> None:
        """Remember that a connection to this address has reached another cluster."""
        if len(self._astray) < REMEMBERED_ADDRESSES:
            self._astray.add(endpoint)

    def has_led_astray(self, endpoint: Endpoint) -> bool:
        """Return True if this address has ever led to another cluster.

        Older connections to that cluster may still be open.
        """
        return endpoint in self._astray

    def hung_up(self, endpoint: Endpoint, *, older: bool) -> bool:
        """Record that the broker closed the connection instead of answering ApiVersions.

        Returns True if the caller should connect again at once with an older version, because the broker may not know
        the newest. With ``older``, the older version was refused in the same way. The version is then not the cause,
        and the next connection starts with the newest version again.
        """
        if older:
            self._asked_older.discard(endpoint)
            return False
        if len(self._asked_older) >= REMEMBERED_ADDRESSES:
            self._asked_older.clear()
        self._asked_older.add(endpoint)
        return True

    def has_newer_version(self, endpoint: Endpoint) -> None:
        """Record that the broker knows the newest version of ApiVersions. It hung up for another reason."""
        self._asked_older.discard(endpoint)

    def asks_older_version(self, endpoint: Endpoint) -> bool:
        """Return True if a connection should start with an older version of ApiVersions (see `hung_up`)."""
        return endpoint in self._asked_older

    def retry_at(self, endpoint: Endpoint) -> float:
        """Return the time at which a connection may be opened, or 0.0 if it may be opened now."""
        failures = self._failures.get(endpoint)
        return 0.0 if failures is None else failures.retry_at

    def last_error(self, endpoint: Endpoint) -> KafkaError | None:
        """Return the error of the last attempt or connection, or None.

        None means that a connection is ready, or that no attempt has failed yet.
        """
        failures = self._failures.get(endpoint)
        return None if failures is None else failures.error

    def final_error(self, endpoint: Endpoint) -> KafkaError | None:
        """Return the last error if waiting cannot help, otherwise None.

        Two kinds of refusal are never final here: of a login that some broker has accepted before, and any other
        refusal by a broker to which the client was connected before. A broker that has just started may not have loaded
        its users yet. Operations with a deadline may retry until then. For all others, ``error.retriable`` becomes
        False after ``refused_login_ms``.
        """
        failures = self._failures.get(endpoint)
        if failures is None or failures.error.retriable or failures.refused_since is not None:
            return None
        return failures.error

    def failed_since(self, endpoint: Endpoint, at: float) -> bool:
        """Return True if an attempt failed, or the connection was lost, at this time or later."""
        failures = self._failures.get(endpoint)
        return failures is not None and failures.failed_at >= at

    def setup_timeout_s(self, endpoint: Endpoint) -> float:
        """Return the timeout of the next connection setup in seconds. Never less than the option's value (KIP-601)."""
        failures = self._failures.get(endpoint)
        if failures is None or not failures.setup_count:
            return self._setup_timeout_min_s
        return max(self._setup_timeout_min_s, self._setup_timeout.delay_s(failures.setup_count + 1))

    def _has_worked(self, endpoint: Endpoint, refusal: KafkaError) -> bool:
        """Return True if this login has succeeded before or, for any other refusal, if this address has worked."""
        if isinstance(refusal, SaslAuthenticationFailedError):
            return self._logged_in
        addresses = self._addresses.get(endpoint)
        return not refusal.retriable and addresses is not None and addresses.successes > 0

    def _note(self, endpoint: Endpoint, now: float, error: KafkaError, *, in_setup: bool) -> None:
        """Store a failure, and delay the next attempt. Forget the oldest failures if there are too many."""
        known = self._failures.pop(endpoint, None)
        if known is None:
            known = _Failures(error, now)
        known.error, known.failed_at = without_frames(error), now
        if not self._has_worked(endpoint, error):
            known.refused_since = None
        elif known.refused_since is None:
            known.refused_since = now
        if known.refused_since is not None and now - known.refused_since < self._refused_login_s:
            error.retriable = True
        # Several connections to the same broker are lost together. Count them as a single failure.
        if now >= known.retry_at:
            known.count += 1
            known.setup_count += in_setup
            delay_s = self._backoff.delay_s(known.count)
            if isinstance(error, MisroutedConnectionError):
                delay_s /= 2  # a wrong broker refuses cheaply, and records wait for the right one
            known.retry_at = now + delay_s
        self._failures[endpoint] = known
        if len(self._failures) > REMEMBERED_ADDRESSES:
            del self._failures[next(iter(self._failures))]

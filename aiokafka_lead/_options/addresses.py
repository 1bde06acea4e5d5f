"""Choosing between a host's addresses: which to try, in which order, and when to give up one that does not respond.

A host name may have an address that does not respond, or that belongs to another service. Java tries the next address
with each attempt to connect (``client.dns.lookup=use_all_dns_ips``), and librdkafka tries all of them without a
backoff. Here, an address that has not failed since the last success is tried at once. An address that has failed comes
last until its failure is forgotten. Connections to brokers and HTTP connections both use this code.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Generic, TypeVar

E = TypeVar("E")
T = TypeVar("T")

PATIENCE_S = 0.5
"""Initial seconds for which an address that does not respond delays the next one.

If it were shorter, addresses that are merely distant would be given up.
"""

_MOST_DOUBLINGS = 10
_REMEMBERED = 64
"""Number of failures to remember for each host, which usually has only a few addresses at a time."""


def without_root(host: str) -> str:
    """Return a host name without the trailing dot. Certificates, TLS and Kerberos use names without it.

    With the dot, which is common in Kubernetes, a resolver does not try the name in its search domains.
    """
    return host.removesuffix(".")


class _Rank(IntEnum):
    """The rank of an address. Addresses with lower ranks are tried first."""

    FRESH = 0
    """No failure is remembered."""
    FAILED_BEFORE = 1
    """The address has failed, but not since the last success of the host."""
    FAILED = 2
    """The address has failed since the last success of the host."""


class _Failure(Generic[E]):
    def __init__(self, error: E, after: int, silences: int) -> None:
        self.error = error
        self.after = after
        """Number of successes of the host before the failure."""
        self.silences = silences
        """Number of consecutive times that the address did not respond."""


class Addresses(Generic[E]):
    """Tracks the addresses of a host, with the failure of each until it succeeds. Threads may share it."""

    def __init__(self) -> None:
        self.failures: dict[str, _Failure[E]] = {}
        """The failure of each address, oldest first."""
        self.successes = 0
        """Number of connections that became ready."""
        self._latest: str | None = None
        """The address of the connection that became ready most recently."""
        self.known: Collection[str] = ()
        """The addresses to which the host was last resolved."""
        self._left: dict[str, int] = {}
        """Number of times that each address has been left since it last led to the right peer."""

    def failed(self, address: str, error: E, *, silent: bool = False) -> None:
        """Remember that no connection to the address became ready. ``silent`` is True if it did not respond."""
        known = self.failures.pop(address, None)
        silences = 0 if not silent else 1 if known is None else known.silences + 1
        self.failures[address] = _Failure(error, self.successes, silences)
        while len(self.failures) > _REMEMBERED:
            self.failures.pop(next(iter(self.failures)), None)

    def succeeded(self, address: str) -> None:
        """Record a connection that became ready.

        This forgets the failure of its address, and lets other addresses be retried.
        """
        self.failures.pop(address, None)
        self.successes += 1
        self._latest = address

    def leave(self, error: E) -> bool:
        """Prefer the other addresses, because the latest one led to the wrong peer.

        Returns True if this address is left for the first time and another address has not been left yet. An address
        that has been left is tried again only if no other address leads to the right peer.
        """
        latest = self._latest
        if latest is None:
            return False
        self.failed(latest, error)
        self._left[latest] = self._left.get(latest, 0) + 1
        return self._left[latest] == 1 and not self.all_left

    @property
    def all_left(self) -> bool:
        """True if every address has led to the wrong peer, and not to the right one since."""
        return self._left.keys() >= {*self.known}

    def stayed(self) -> None:
        """Record that the latest connection has led to the right peer, so its address is not avoided."""
        if self._latest is not None:
            self._left.pop(self._latest, None)

    @property
    def patience_s(self) -> float:
        """Seconds that the latest address has to respond before it is left, or infinity if there is no other address.

        This time doubles whenever the address is left, so that a slow address will eventually have enough time.
        """
        if self._latest is None or len(self.known) < 2:
            return math.inf
        return PATIENCE_S * float(2 ** min(self._left.get(self._latest, 0), _MOST_DOUBLINGS))

    def rank(self, address: str) -> _Rank:
        """Return the rank of the address in the order of attempts."""
        failure = self.failures.get(address)
        if failure is None:
            return _Rank.FRESH
        return _Rank.FAILED if failure.after == self.successes else _Rank.FAILED_BEFORE


class Search(Generic[E, T]):
    """An attempt to connect to a host, which tries the host's addresses until a connection is ready.

    Call `candidates`, then `begin` for each tried address, then `refused` or `reached`, and then `failed` or
    `succeeded`.
    """

    def __init__(self, addresses: Addresses[E], shared_s: float = 0) -> None:
        """Start an attempt.

        A silent address gets its share of ``shared_s``, but at least `PATIENCE_S`.
        """
        self.found: Mapping[str, T] = {}
        """The addresses to which the host currently resolves."""
        self._addresses = addresses
        self._shared_s = shared_s
        self._trying: list[str] = []
        self._begun: list[str] = []
        self._done: set[str] = set()
        """Addresses that have failed in this attempt, which does not try them again."""
        self._reached = self._silent = False
        """The first is True if an address has accepted a connection, the second if one has not answered."""

    def candidates(self, most: int | None = None) -> dict[str, T]:
        """Return up to ``most`` addresses to connect to now, in order. The first to accept is used.

        Addresses that have failed before are returned one at a time, because an address that accepts and then fails
        would win a race.
        """
        self._addresses.known = list(self.found)
        fresh = [address for address in self.found if self._rank(address) is _Rank.FRESH]
        failed = sorted((address for address in self._failures() if self._may_try(address)), key=self._rank)
        self._trying, self._begun = fresh[:most] or failed[:1], []
        return {address: self.found[address] for address in self._trying}

    def begin(self, address: str) -> None:
        """Record that a connection to the address is being opened. `refused` or `reached` must follow."""
        self._begun.append(address)

    def refused(self, address: str, error: E) -> None:
        """Record that no connection to the address could be opened."""
        self._begun.remove(address)
        self._done.add(address)
        self._addresses.failed(address, error)

    def reached(self, address: str) -> None:
        """Record that the address has accepted a connection. From now on, only its responses count."""
        self._trying, self._begun = [address], [address]
        self._reached = True

    def failed(self, error: E, *, silent: bool) -> bool:
        """Record that the current addresses have failed or, if ``silent``, have not responded.

        Return True if this is new.
        """
        news = not self._addresses.failures.keys() >= set(self._begun)
        for address in self._begun:
            self._addresses.failed(address, error, silent=silent)
        if silent:
            self._silent = True
            self._done.clear()  # other addresses may have recovered, and this one may only be slow
        else:
            self._done.update(self._begun)
        self._begun = []
        return news

    def succeeded(self) -> None:
        """Record that the connection is ready, so the failure of its address is forgotten."""
        self._addresses.succeeded(self._trying[0])

    def left(self) -> bool:
        """Return True if another address should be tried at once.

        Addresses that have not failed since the last success come first, followed by addresses that refuse connections
        or do not respond. An address that accepts a connection and then fails is retried only after a backoff.
        """
        if any(self._rank(address) is not _Rank.FAILED and self._may_try(address) for address in self.found):
            return True
        return (self._silent or not self._reached) and any(map(self._may_try, self.found))

    @property
    def patience_s(self) -> float:
        """Seconds to wait for the next response, or infinity if only the time limit of the attempt applies.

        This time doubles whenever the address does not respond, so that a slow address will eventually have enough
        time.
        """
        if len(self.found) < 2:
            return math.inf
        failures = self._failures()
        silences = max((failures[address].silences for address in self._trying if address in failures), default=0)
        return max(PATIENCE_S, self._shared_s / len(self.found)) * float(2 ** min(silences, _MOST_DOUBLINGS))

    @property
    def errors(self) -> dict[str, E]:
        """The errors of the host's addresses since its last success."""
        failures = self._failures()
        failed = [address for address in self.found if self._rank(address) is _Rank.FAILED and address in failures]
        return {address: failures[address].error for address in failed}

    def _failures(self) -> dict[str, _Failure[E]]:
        """Return a copy of the failures, in order, which other threads do not change."""
        return dict(self._addresses.failures)

    def _rank(self, address: str) -> _Rank:
        return self._addresses.rank(address)

    def _may_try(self, address: str) -> bool:
        return address in self.found and (address not in self._done or self._rank(address) is _Rank.FRESH)

"""Decides which addresses of a name are tried, in which order, and how long a silent one is waited for.

A name may have an address at which nobody answers, or something else does. Java goes to the next address with each
connect (``client.dns.lookup=use_all_dns_ips``), and librdkafka without a backoff until it has been at each. Here, too,
an address that has not failed since the last success is tried at once, and one that has failed comes last for as long
as that is remembered. Connections to brokers and those of HTTP share this.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

__all__ = ["MOST_PATIENCE_S", "Addresses", "Search"]

E = TypeVar("E")
T = TypeVar("T")

MOST_PATIENCE_S = 1.0
"""How long a silent address of a broker holds up the next one, the first time."""

_LEAST_PATIENCE_S = 0.5
"""Less would give up addresses that are merely far away, however many a name has."""

_MOST_DOUBLINGS = 10
_REMEMBERED = 64
"""Failures that are remembered for one name; a name has few addresses at a time."""


class _Rank(IntEnum):
    """The order of addresses: one rank is tried after the other."""

    FRESH = 0
    """No failure is remembered."""
    FAILED_BEFORE = 1
    """It has failed, but not since the name's last success."""
    FAILED = 2
    """It has failed since then."""


@dataclass(slots=True)
class _Failure(Generic[E]):
    error: E
    after: int
    """How many successes of the name came before it."""
    silences: int
    """How often in a row the address was silent."""


class Addresses(Generic[E]):
    """Remembers which addresses of one name have failed, until each succeeds. Threads may share it."""

    def __init__(self) -> None:
        self.failures: dict[str, _Failure[E]] = {}
        """The one that failed longest ago comes first."""
        self.successes = 0
        """Connections that became ready."""
        self._latest: str | None = None
        """The address of the latest one."""
        self.known: Collection[str] = ()
        """What the name resolved to last."""
        self._left: dict[str, int] = {}
        """How often each was left, of those that led to nobody of use since."""

    def failed(self, address: str, error: E, *, silent: bool = False) -> None:
        """No connection to the address could be made ready; ``silent`` if it just did not answer."""
        known = self.failures.pop(address, None)
        silences = 0 if not silent else 1 if known is None else known.silences + 1
        self.failures[address] = _Failure(error, self.successes, silences)
        while len(self.failures) > _REMEMBERED:
            self.failures.pop(next(iter(self.failures)), None)

    def succeeded(self, address: str) -> None:
        """A connection to the address became ready: forget its failure, and try the others again when it fails."""
        self.failures.pop(address, None)
        self.successes += 1
        self._latest = address

    def leave(self, error: E) -> bool:
        """What the latest connection led to is of no use after all: others are tried before that address.

        Returns True if there is one that has not been left, too, and this address had not been before: then nobody is
        at the others, or the search would not have led here again.
        """
        latest = self._latest
        if latest is None:
            return False
        self.failed(latest, error)
        self._left[latest] = self._left.get(latest, 0) + 1
        return self._left[latest] == 1 and not self._left.keys() >= {*self.known}

    def stayed(self) -> None:
        """What the latest connection led to was of use."""
        if self._latest is not None:
            self._left.pop(self._latest, None)

    @property
    def patience_s(self) -> float:
        """Time for the latest address to answer before it is left; infinity if the name has no other.

        It doubles each time that the address is left, so that a slow one gets the time that it needs in the end.
        """
        if self._latest is None or len(self.known) < 2:
            return math.inf
        return MOST_PATIENCE_S * float(2 ** min(self._left.get(self._latest, 0), _MOST_DOUBLINGS))

    def rank(self, address: str) -> _Rank:
        """When the address is tried."""
        failure = self.failures.get(address)
        if failure is None:
            return _Rank.FRESH
        return _Rank.FAILED if failure.after == self.successes else _Rank.FAILED_BEFORE


class Search(Generic[E, T]):
    """One try to connect to a name, at one address after the other until one is ready.

    `candidates`, then `begin` for each that is connected to, and `refused` or `reached`; then `failed` or `succeeded`.
    """

    def __init__(self, addresses: Addresses[E], timeout_s: float, most_patience_s: float = math.inf) -> None:
        """``timeout_s`` is the time for all of it, and ``most_patience_s`` bounds one silent address's share of it."""
        self.found: Mapping[str, T] = {}
        """What the name resolves to now."""
        self._addresses = addresses
        self._timeout_s = timeout_s
        self._most_patience_s = most_patience_s
        self._trying: list[str] = []
        self._begun: list[str] = []
        self._done: set[str] = set()
        """Addresses that have failed in this search, and are not tried again."""
        self._reached = self._silent = False
        """Whether an address has accepted a connection, and whether one has been silent."""

    def candidates(self, most: int | None = None) -> dict[str, T]:
        """The addresses to connect to now, in this order, ``most`` of them; the first that accepts is the one to use.

        Those that have failed come one by one: a race would be won by what accepts and then fails.
        """
        self._addresses.known = list(self.found)
        fresh = [address for address in self.found if self._rank(address) is _Rank.FRESH]
        failed = sorted((address for address in self._failures() if self._may_try(address)), key=self._rank)
        self._trying, self._begun = fresh[:most] or failed[:1], []
        return {address: self.found[address] for address in self._trying}

    def begin(self, address: str) -> None:
        """The address is being connected to."""
        self._begun.append(address)

    def refused(self, address: str, error: E) -> None:
        """No connection to the address came about."""
        self._begun.remove(address)
        self._done.add(address)
        self._addresses.failed(address, error)

    def reached(self, address: str) -> None:
        """The address has accepted a connection: only its answers count from now on."""
        self._trying, self._begun = [address], [address]
        self._reached = True

    def failed(self, error: E, *, silent: bool) -> bool:
        """The addresses that were begun have failed, ``silent`` if they just did not answer. Return True if new."""
        news = not self._addresses.failures.keys() >= set(self._begun)
        for address in self._begun:
            self._addresses.failed(address, error, silent=silent)
        if silent:
            self._silent = True
            self._done.clear()  # the others may be back by now, and this one may be slow
        else:
            self._done.update(self._begun)
        self._begun = []
        return news

    def succeeded(self) -> None:
        """The address that was reached is ready."""
        self._addresses.succeeded(self._trying[0])

    def left(self) -> bool:
        """Whether to try another address at once.

        Each that has not failed since the last success; then those that refuse connections or are silent. What accepts
        a connection and fails is not tried again before a backoff.
        """
        if any(self._rank(address) is not _Rank.FAILED and self._may_try(address) for address in self.found):
            return True
        return (self._silent or not self._reached) and any(map(self._may_try, self.found))

    @property
    def patience_s(self) -> float:
        """How long the next answer is waited for; infinity where the search's own time is the only bound.

        It doubles with each silence of the address, so that a slow one gets the time that it needs in the end.
        """
        if len(self.found) < 2:
            return math.inf
        failures = self._failures()
        silences = max((failures[address].silences for address in self._trying if address in failures), default=0)
        share_s = max(_LEAST_PATIENCE_S, min(self._timeout_s / len(self.found), self._most_patience_s))
        return share_s * float(2 ** min(silences, _MOST_DOUBLINGS))

    @property
    def errors(self) -> dict[str, E]:
        """What the name's addresses have failed with since its last success."""
        failures = self._failures()
        failed = [address for address in self.found if self._rank(address) is _Rank.FAILED and address in failures]
        return {address: failures[address].error for address in failed}

    def _failures(self) -> dict[str, _Failure[E]]:
        """As they are now, in the same order, whatever other threads do."""
        return dict(self._addresses.failures)

    def _rank(self, address: str) -> _Rank:
        return self._addresses.rank(address)

    def _may_try(self, address: str) -> bool:
        return address in self.found and (address not in self._done or self._rank(address) is _Rank.FRESH)

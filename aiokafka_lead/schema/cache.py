"""Cache of the registry's responses and permanent errors, in which concurrent calls share a request."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

import anyio

from .._io.loop import Waiter, loop_token, spawn_host
from ..errors import KafkaError, SchemaRegistryError, SchemaRegistryUnavailableError
from ..errors.base import own_copy, without_frames

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

AGAIN_S = 1.0
"""Seconds until a request is repeated after the registry has failed."""

MAX_ABSENT = 1000
"""Maximum number of cached errors. Records may contain any of four billion schema ids that do not exist."""


class Cache(Generic[K, V]):
    """Caches responses by key. Concurrent calls share one request, which continues if a call is cancelled."""

    def __init__(self, fetch: Callable[[K], Awaitable[V]], *, absent_s: float, kept_s: float = math.inf) -> None:
        """Create a cache that keeps responses for ``kept_s`` seconds, and permanent errors for ``absent_s`` seconds."""
        self._fetch = fetch
        self._absent_s = absent_s
        self._kept_s = kept_s
        self._found: dict[K, tuple[V, float]] = {}
        self._absent: dict[K, tuple[KafkaError, float]] = {}
        self._flights: dict[tuple[object, K], Waiter[V]] = {}

    async def get(self, key: K) -> V:
        """Return the response, from the cache or a new request. Raises the errors of the request."""
        now = time.monotonic()
        found = self._found.get(key)
        if found is not None and now < found[1]:
            return found[0]
        absent = self._absent.get(key)
        if absent is not None and now < absent[1]:
            raise own_copy(absent[0])
        place = (loop_token(), key)
        flight = self._flights.get(place)
        if flight is None:
            flight = self._flights[place] = Waiter()
            spawn_host(partial(self._fly, place, flight), "kafka schema registry")
        return await flight.wait()

    async def known(self, key: K, within_s: float) -> tuple[V, float]:
        """Return the response, and its expiry in monotonic seconds.

        If an expired response is cached, waits at most ``within_s`` seconds for a new one. If none arrives in time or
        the registry fails, returns the expired response, valid for another `AGAIN_S` seconds. Without a cached
        response, raises the errors of the request.
        """
        known = self._found.get(key)
        try:
            with anyio.move_on_after(math.inf if known is None else within_s):
                value = await self.get(key)
                found = self._found.get(key)
                return value, found[1] if found is not None and found[0] is value else time.monotonic()
        except SchemaRegistryError as error:
            if known is None or not error.at_fault:
                raise
        assert known is not None  # without a known answer, there is no time limit
        return known[0], time.monotonic() + AGAIN_S

    def has(self, key: K, value: V) -> bool:
        """Return True if ``value`` is the cached response, even if it has expired."""
        found = self._found.get(key)
        return found is not None and found[0] is value

    def forget(self) -> None:
        """Clear the cache. Later calls do not share requests that are in progress now."""
        self._found.clear()
        self._absent.clear()
        self._flights.clear()

    def forget_absent(self) -> None:
        """Clear the cached errors. Later calls do not share requests that are in progress now."""
        self._absent.clear()
        self._flights.clear()

    async def _fly(self, place: tuple[object, K], flight: Waiter[V]) -> None:
        """Send a request, cache its result, and pass the result to all callers that wait for ``flight``."""
        key = place[1]
        try:
            try:
                value = await self._fetch(key)
            except KafkaError as error:
                if not error.retriable and self._flights.get(place) is flight:
                    self._remember_absent(key, error)
                flight.set_error(without_frames(error))
            except Exception as error:
                flight.set_error(error)
            else:
                if self._flights.get(place) is flight:  # not forgotten in the meantime
                    self._found[key] = (value, time.monotonic() + self._kept_s)
                    self._absent.pop(key, None)
                flight.set_result(value)
        finally:
            if self._flights.get(place) is flight:
                del self._flights[place]
            flight.set_error(SchemaRegistryUnavailableError("the request to the schema registry was cancelled"))

    def _remember_absent(self, key: K, error: KafkaError) -> None:
        self._absent.pop(key, None)
        while len(self._absent) >= MAX_ABSENT:
            del self._absent[next(iter(self._absent))]
        absent_s = min(self._absent_s, AGAIN_S) if getattr(error, "at_fault", False) else self._absent_s
        self._absent[key] = (error, time.monotonic() + absent_s)

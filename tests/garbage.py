"""Support for tests which check that objects are freed without the garbage collector."""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_socket_is_dropped() -> Iterator[None]:
    """Fail if the block leaves a socket or a transport that was not closed before it became garbage."""
    gc.collect()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(warning.message) for warning in seen] == []


@contextmanager
def no_cycles_are_left() -> Iterator[None]:
    """Fail if the block leaves objects of this package in reference cycles, which only the collector frees.

    Such cycles keep alive what they refer to, for example the bytes of a fetch response, until the next collection, and
    each collection blocks the event loop.
    """
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        found = Counter(kind for kind in map(_kind, gc.garbage) if kind.startswith("aiokafka_lead."))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not found, found


def _kind(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"

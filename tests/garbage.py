"""Support for tests that an object is freed without the garbage collector."""

from __future__ import annotations

import gc
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_socket_is_dropped() -> Iterator[None]:
    """Fails if a socket or a transport was not closed before it became garbage."""
    gc.collect()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(warning.message) for warning in seen] == []


@contextmanager
def no_cycles_are_left() -> Iterator[None]:
    """Fails if objects of this package became garbage that only the collector finds.

    Such cycles keep what they hold until it comes by, a fetch answer's bytes for instance, and each of its passes holds
    up the event loop.
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

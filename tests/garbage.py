"""What is left to the garbage collector."""

from __future__ import annotations

import gc
import warnings
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

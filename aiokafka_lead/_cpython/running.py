"""The thread in which an event loop runs, from asyncio's internal state.

It has no ``.pxd``: it is the same for compiled modules.
"""

from __future__ import annotations

import asyncio
import threading


def thread_entry(loop: asyncio.AbstractEventLoop) -> tuple[dict[str, object], str] | None:
    """Return a dict, and the key under which it has this thread's identity while the event loop runs in it.

    This is the state behind asyncio's ``is_running``. Returns None for an event loop of another kind, or without that
    state.
    """
    if not isinstance(loop, asyncio.BaseEventLoop) or type(loop).is_running is not asyncio.BaseEventLoop.is_running:
        return None
    known = vars(loop)
    return (known, "_thread_id") if known.get("_thread_id") == threading.get_ident() else None

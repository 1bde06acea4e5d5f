"""Recognises the thread in which an event loop is running, from asyncio's internal state.

There is no ``.pxd``, because compiled modules use the same code.
"""

from __future__ import annotations

import asyncio
import threading


def thread_entry(loop: asyncio.AbstractEventLoop) -> tuple[dict[str, object], str] | None:
    """Return a dict and a key. While the event loop is running in this thread, the key's value is the id of the thread.

    This is the state that asyncio's ``is_running`` reads. Returns None for an event loop of another kind, or without
    that state.
    """
    if not isinstance(loop, asyncio.BaseEventLoop) or type(loop).is_running is not asyncio.BaseEventLoop.is_running:
        return None
    known = vars(loop)
    return (known, "_thread_id") if known.get("_thread_id") == threading.get_ident() else None

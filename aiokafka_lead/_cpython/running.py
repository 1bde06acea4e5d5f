"""Which thread an event loop runs in, by what asyncio notes of it for itself.

It has no ``.pxd``: it is the same for compiled modules.
"""

from __future__ import annotations

import asyncio
import threading

__all__ = ["thread_entry"]


def thread_entry(loop: asyncio.AbstractEventLoop) -> tuple[dict[str, object], str] | None:
    """A dict, and the key under which it has this thread's identity for as long as the event loop runs in it.

    What asyncio's own ``is_running`` looks at; None for an event loop of another kind, or without such a note.
    """
    if not isinstance(loop, asyncio.BaseEventLoop) or type(loop).is_running is not asyncio.BaseEventLoop.is_running:
        return None
    known = vars(loop)
    return (known, "_thread_id") if known.get("_thread_id") == threading.get_ident() else None

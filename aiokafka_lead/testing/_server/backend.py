"""Detection of the running event loop."""

from __future__ import annotations

import asyncio
import sys


def running_backend() -> str | None:
    """Return ``"asyncio"``, ``"trio"`` or None.

    trio is checked first, because it may run in guest mode on an asyncio loop.
    """
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return "trio"
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return None
    return "asyncio"

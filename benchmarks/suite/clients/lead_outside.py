"""This client without transactions, with a flush in place of each commit."""

from __future__ import annotations

from typing import Any

import anyio.lowlevel

from ..transactions import back_to_back
from ..workload import Workload
from .lead import producer


async def transactions(work: Workload) -> dict[str, Any]:
    """Send the same records as in transactions, with a flush in place of each commit."""
    async with producer(work) as one:
        return await back_to_back(work, anyio.lowlevel.checkpoint, one.send, one.flush)

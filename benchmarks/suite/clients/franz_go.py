"""franz-go, in a separate process."""

from __future__ import annotations

from typing import Any

from ..transactions import of_another_language
from ..workload import Workload


async def transactions(work: Workload) -> dict[str, Any]:
    """Commit transactions in succession."""
    return await of_another_language("franz-go", work)

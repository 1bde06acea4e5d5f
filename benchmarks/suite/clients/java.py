"""Apache Kafka's Java client, in a separate process."""

from __future__ import annotations

from typing import Any

from .. import share as share_groups
from ..transactions import of_another_language
from ..workload import Workload


async def transactions(work: Workload) -> dict[str, Any]:
    """Commit transactions in succession."""
    return await of_another_language("java", work)


async def share(work: Workload) -> dict[str, Any]:
    """Take records of a share group."""
    return await share_groups.of_another_language("java", work)


async def share_moves(work: Workload) -> list[float]:
    """Acknowledge records of a share group while leaders move."""
    return await share_groups.moves_of_another_language("java", work)

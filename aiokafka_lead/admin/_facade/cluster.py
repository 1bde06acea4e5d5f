"""The cluster as a whole."""

from __future__ import annotations

from .. import _checks, _cluster
from ..types import ClusterDescription
from .base import AdminArea


class ClusterCalls(AdminArea):
    """The cluster as a whole."""

    async def describe_cluster(
        self, *, include_fenced_brokers: bool = False, timeout_ms: float | None = None
    ) -> ClusterDescription:
        """The cluster's id, brokers and controller; fenced brokers on request (Kafka 4.0)."""
        _checks.boolean("include_fenced_brokers", include_fenced_brokers)
        return await _cluster.describe(self._calls, include_fenced_brokers, self._calls.deadline(timeout_ms))

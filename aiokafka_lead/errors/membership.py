"""What goes wrong between a member and its group, as this client sees it."""

from __future__ import annotations

from .base import KafkaError

__all__ = ["AssignorError", "CommitFailedError", "RebalanceListenerError"]


class CommitFailedError(KafkaError):
    """The consumer is not, or no longer, the member that owns these partitions: their records come again elsewhere."""


class AssignorError(KafkaError):
    """An assignor of ``partition_assignment_strategy`` has failed; its own error is the cause."""


class RebalanceListenerError(KafkaError):
    """The listener of a subscription has failed; its own error is the cause. The rebalance went on."""

"""Errors between a member and its group, detected by this client."""

from __future__ import annotations

from .base import KafkaError

__all__ = ["AssignorError", "CommitFailedError", "RebalanceListenerError"]


class CommitFailedError(KafkaError):
    """The consumer does not own these partitions, or no longer does: another member will get their records again."""


class AssignorError(KafkaError):
    """An assignor of ``partition_assignment_strategy`` failed; its own error is the cause."""


class RebalanceListenerError(KafkaError):
    """The listener of a subscription failed; its own error is the cause. The rebalance continued."""

"""Interfaces that applications implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..types import TopicPartition

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class ConsumerRebalanceListener(ABC):
    """Called, plain or async, when a rebalance revokes or assigns partitions; not when the consumer is stopped."""

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Handle revoked partitions; their positions can still be committed."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """Handle the new assignment, all partitions of it, before the first record is handed out."""


class AbstractTokenProvider(ABC):
    """Provides tokens for SASL/OAUTHBEARER."""

    @abstractmethod
    async def token(self) -> str:
        """Return a token that is still valid."""

    def extensions(self) -> dict[str, str]:
        """Return the extensions to send with each token (KIP-342)."""
        return {}

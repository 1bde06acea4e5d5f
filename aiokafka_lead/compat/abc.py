"""Interfaces that applications implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..types import TopicPartition

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class ConsumerRebalanceListener(ABC):
    """Listens to rebalances of a group. Its methods may be ``async``, and are not called when the consumer stops."""

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Handle the revocation of partitions, whose positions can still be committed."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """Handle the whole new assignment, before any of its records is handed out."""


class AbstractTokenProvider(ABC):
    """Provides tokens for SASL/OAUTHBEARER."""

    @abstractmethod
    async def token(self) -> str:
        """Return a token that is still valid."""

    def extensions(self) -> dict[str, str]:
        """Return the extensions to send with each token (KIP-342)."""
        return {}

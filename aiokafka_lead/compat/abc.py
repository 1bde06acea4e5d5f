"""Base classes that applications implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..types import TopicPartition

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class ConsumerRebalanceListener(ABC):
    """Base class of rebalance listeners.

    The methods may be ``async``. They are not called when the consumer stops.
    """

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Handle the revocation of partitions. Their offsets can still be committed."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """Handle the new assignment, which contains all partitions, before its records are returned."""


class AbstractTokenProvider(ABC):
    """Base class of token providers for SASL/OAUTHBEARER."""

    @abstractmethod
    async def token(self) -> str:
        """Return a token that is still valid."""

    def extensions(self) -> dict[str, str]:
        """Return the extensions to send with each token (KIP-342)."""
        return {}

"""What applications implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ..types import TopicPartition

__all__ = ["AbstractTokenProvider", "ConsumerRebalanceListener"]


class ConsumerRebalanceListener(ABC):
    """Is called, plain or async, when a rebalance takes or gives partitions; not when the consumer is stopped."""

    @abstractmethod
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """These were the consumer's until now; their positions can still be committed."""

    @abstractmethod
    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """All partitions that are the consumer's from now on, before their first record is handed out."""


class AbstractTokenProvider(ABC):
    """Gives tokens for SASL/OAUTHBEARER."""

    @abstractmethod
    async def token(self) -> str:
        """A token that is still valid."""

    def extensions(self) -> dict[str, str]:
        """What is sent with each token (KIP-342)."""
        return {}

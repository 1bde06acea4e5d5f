"""The composition root: what producer, consumer and admin client have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ._io.metadata_actor import MetadataActor
from .config import ClientConfig


class Client:
    """Connections, metadata and background tasks of one facade. Internal."""

    brokers: Any
    metadata: MetadataActor
    fatal: BaseException | None

    def __init__(self, config: ClientConfig) -> None:
        self.config = config

    async def start(self) -> None:
        """Bootstrap: connect, negotiate versions, take the first metadata."""
        raise NotImplementedError

    async def stop(self, timeout_ms: float | None = None) -> None:
        """End every task and connection; always ends."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise if the client cannot be used here and now: cheap."""
        raise NotImplementedError

    def spawn(self, fn: Callable[..., Awaitable[None]], *args: Any, name: str) -> None:
        """Run a task until the client stops; an error that escapes it becomes the client's fatal error."""
        raise NotImplementedError

    def on_fatal(self, listener: Callable[[BaseException], None]) -> None:
        """Call this once when a background task has failed for good."""
        raise NotImplementedError

    async def request(self, node_id: int, request: Any, *, lane: Any = None, timeout_ms: float | None = None) -> Any:
        """The node's response to a request."""
        raise NotImplementedError

    async def request_any(self, request: Any, *, timeout_ms: float | None = None) -> Any:
        """The response of whichever broker has the least to do."""
        raise NotImplementedError

    async def controller(self, timeout_ms: float | None = None) -> int:
        """The node that takes requests for the controller."""
        raise NotImplementedError

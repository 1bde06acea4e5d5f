"""Byte streams to brokers, one implementation per kind of event loop."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from ....errors import KafkaConnectionError
from ....errors.shown import shown
from ...loop import in_trio
from .base import OnStage, Transport, TransportHandler

if TYPE_CHECKING:
    from .anyio_transport import AnyioTransport
    from .asyncio_transport import AsyncioTransport

__all__ = ["Transport", "TransportHandler", "open_transport"]

PORT_MAX = 65_535
HOST_CHARACTERS = 253
"""The longest name of the DNS (RFC 1035)."""


def _kind() -> type[AnyioTransport | AsyncioTransport]:
    """The implementation for the running event loop; only that one is imported."""
    if in_trio():
        from .anyio_transport import AnyioTransport

        return AnyioTransport
    from .asyncio_transport import AsyncioTransport

    return AsyncioTransport


async def open_transport(
    host: str,
    port: int,
    *,
    ssl_context: ssl.SSLContext | None,
    handler: TransportHandler,
    max_frame_bytes: int,
    on_stage: OnStage,
) -> Transport:
    """Connects to a broker on the running event loop; with ``ssl_context`` through TLS.

    The name is resolved anew and its addresses compete. Raises `KafkaConnectionError`, `NotKafkaError` or
    `SslAuthenticationError`; has no timeout of its own.
    """
    # Metadata and hints say where brokers are, and operating systems take port 70000 for 4464.
    if not 0 < port <= PORT_MAX or not 0 < len(host) <= HOST_CHARACTERS or not host.isprintable():
        raise KafkaConnectionError(f"cannot connect: {shown(host)}:{port} is no address")
    return await _kind().open(
        host,
        port,
        ssl_context=ssl_context,
        handler=handler,
        max_frame_bytes=max_frame_bytes,
        on_stage=on_stage,
    )

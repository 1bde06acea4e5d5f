"""Byte streams to brokers, one implementation per kind of event loop."""

from __future__ import annotations

import ssl

from ...loop import in_trio
from .anyio_transport import AnyioTransport
from .asyncio_transport import AsyncioTransport
from .base import OnStage, Transport, TransportHandler

__all__ = ["AnyioTransport", "AsyncioTransport", "Transport", "TransportHandler", "open_transport"]


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
    kind = AnyioTransport if in_trio() else AsyncioTransport
    return await kind.open(
        host,
        port,
        ssl_context=ssl_context,
        handler=handler,
        max_frame_bytes=max_frame_bytes,
        on_stage=on_stage,
    )

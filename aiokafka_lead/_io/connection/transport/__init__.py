"""Byte streams to brokers, implemented for each kind of event loop."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from ...._values import NamedTuple
from .base import Transport, TransportHandler
from .dial import AddressInfo, Progress, race, resolve
from .kind import Kind, kind_of_transport
from .way import Way, way_of

__all__ = ["AddressInfo", "Dialled", "Transport", "TransportHandler", "Way", "dial", "resolve", "way_of"]


class Dialled(NamedTuple):
    """An address that has accepted a connection.

    Call `open` at once, because no other code would close the connection.
    """

    address: str
    kind: Kind
    connected: Any

    async def open(
        self, host: str, *, ssl_context: ssl.SSLContext | None, handler: TransportHandler, max_frame_bytes: int
    ) -> Transport:
        """Open the byte stream on this connection. With ``ssl_context``, use TLS and verify the host's certificate.

        ``handler`` receives frames of at most ``max_frame_bytes``. There is no timeout. Raises `KafkaConnectionError`,
        `NotKafkaError` or `SslAuthenticationError`.
        """
        return await self.kind.open(
            self.connected, host, ssl_context=ssl_context, handler=handler, max_frame_bytes=max_frame_bytes
        )


async def dial(
    addresses: Mapping[str, AddressInfo], progress: Progress, kind: Kind | None = None, way: Way | None = None
) -> Dialled:
    """Connect to the first of these addresses that accepts a connection, directly or through ``way``.

    ``progress`` receives the result of each attempt. There is no timeout. Raises `KafkaConnectionError`.
    """
    kind = kind or kind_of_transport()
    connect: Any = kind.connect if way is None else way.connect
    drop: Any = kind.drop
    address, connected = await race(addresses, connect, drop, progress)
    return Dialled(address, kind, connected)

"""Selects the implementation of byte streams for the running event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ...loop import in_trio

if TYPE_CHECKING:
    from .anyio_transport import AnyioTransport
    from .asyncio_transport import AsyncioTransport

Kind: TypeAlias = "type[AnyioTransport] | type[AsyncioTransport]"


def kind_of_transport() -> Kind:
    """Return the transport class for the running event loop, asyncio or trio. Import no other class."""
    if in_trio():
        from .anyio_transport import AnyioTransport

        return AnyioTransport
    from .asyncio_transport import AsyncioTransport

    return AsyncioTransport

"""Connects to brokers through a proxy, or with a function of the application."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from ...._forks import detach_in_children
from ....config import ClientConfig
from ....errors import KafkaConnectionError
from ....errors.shown import shown
from ...loop import in_trio
from .dial import AddressInfo, check_endpoint, tune

if TYPE_CHECKING:
    from ....config.options import Connect


class Way:
    """Connects to brokers with a function, for example of the application.

    The function also resolves host names, because the network behind a proxy may have other names.
    """

    def __init__(self, connect: Connect, label: str) -> None:
        """Connect with ``connect``, which error messages describe as ``label``."""
        self._connect = connect
        self.label = label

    def addresses(self, host: str, port: int) -> dict[str, AddressInfo]:
        """Return the unresolved host as the only address, for `connect`. Raises `KafkaConnectionError`."""
        check_endpoint(host, port)
        return {host: (socket.AF_UNSPEC, (host, port))}

    async def connect(self, address: AddressInfo) -> Any:
        """Return a connected object that the running event loop's transport can use. Raises `KafkaConnectionError`."""
        host, port = address[1]
        try:
            sock: Any = await self._connect(host, port)
        except Exception as error:
            kind = type(error) if isinstance(error, KafkaConnectionError) else KafkaConnectionError
            reason = shown(str(error)) or type(error).__name__
            raise kind(f"cannot connect through {self.label}: {reason}") from error
        if not isinstance(sock, socket.socket):
            given = f"it gave a {type(sock).__name__}, not a socket.socket"
            raise KafkaConnectionError(f"cannot connect through {self.label}: {given}")
        try:
            sock.setblocking(False)
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                tune(sock)
            detach_in_children(sock)
            if not in_trio():
                return sock
            from anyio.abc import SocketStream  # imported here because the import is slow

            return await SocketStream.from_socket(sock)
        except BaseException:
            sock.close()
            raise


def way_of(config: ClientConfig) -> Way | None:
    """Return the proxy or the function from the options. None if the client connects directly."""
    if config.connect is not None:
        return Way(config.connect, "the function given as connect")
    if config.proxy_url is None:
        return None
    from .proxies import proxy_of  # imported here because few users have a proxy

    proxy = proxy_of(config.proxy_url)
    return Way(proxy.connect, proxy.label)

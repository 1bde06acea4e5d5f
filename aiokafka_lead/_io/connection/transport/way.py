"""Another way to brokers than a plain connect: through a proxy, or by the application's own means."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit

from anyio.abc import SocketStream

from ....config.options import Connect
from ....errors import KafkaConnectionError
from ....errors.shown import shown
from ...forks import detach_in_children
from ...loop import in_trio
from .dial import AddressInfo, tune

__all__ = ["Way", "own_way", "proxied"]


class Way:
    """Connects by a function. Names are left to it: the network beyond a proxy may know others than this one."""

    def __init__(self, connect: Connect, label: str) -> None:
        """``label`` names the way in errors."""
        self._connect = connect
        self._label = label

    def addresses(self, host: str, port: int) -> dict[str, AddressInfo]:
        """The host as the only address of its name, for `connect`."""
        return {host: (socket.AF_UNSPEC, (host, port))}

    async def connect(self, address: AddressInfo) -> Any:
        """What the transport of the running event loop is opened with. Raises `KafkaConnectionError`."""
        host, port = address[1]
        try:
            sock: Any = await self._connect(host, port)
        except Exception as error:
            text = f"cannot connect through {self._label}: {shown(str(error)) or type(error).__name__}"
            raise KafkaConnectionError(text) from error
        if not isinstance(sock, socket.socket):
            kind = type(sock).__name__
            raise KafkaConnectionError(f"cannot connect through {self._label}: it gave a {kind}, not a socket.socket")
        try:
            sock.setblocking(False)
            if sock.family in (socket.AF_INET, socket.AF_INET6):
                tune(sock)
            detach_in_children(sock)
            return await SocketStream.from_socket(sock) if in_trio() else sock
        except BaseException:
            sock.close()
            raise


def own_way(connect: Connect) -> Way:
    """The way of the option ``connect``."""
    return Way(connect, "the function given as connect")


def proxied(url: str) -> Way:
    """The way through a proxy, which resolves the brokers' names."""
    split = urlsplit(url)

    async def connect(host: str, port: int) -> socket.socket:
        if in_trio():
            from python_socks.async_.trio import Proxy as TrioProxy

            opened = await TrioProxy.from_url(url, rdns=True).connect(host, port, timeout=_NO_TIMEOUT_S)
            return socket.socket(fileno=opened.detach())
        from python_socks.async_.asyncio import Proxy

        return await Proxy.from_url(url, rdns=True).connect(host, port, timeout=_NO_TIMEOUT_S)

    return Way(connect, f"the proxy {split.hostname}:{split.port}")


_NO_TIMEOUT_S = 86_400.0
"""The time of a connection's set-up bounds it."""

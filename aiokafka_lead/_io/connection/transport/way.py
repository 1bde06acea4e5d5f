"""Ways to brokers other than a plain connect: through a proxy, or by a function of the application."""

from __future__ import annotations

import socket
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ....config import ClientConfig
from ....errors import KafkaConnectionError
from ....errors.shown import shown
from ...forks import detach_in_children
from ...loop import in_trio
from .dial import AddressInfo, tune

if TYPE_CHECKING:
    from ....config.options import Connect

_NO_TIMEOUT_S = 86_400.0
"""For python-socks, which has a timeout of its own: the time of a connection's set-up is the limit."""


class Way:
    """Connects by a function, which resolves names: the network behind a proxy may have other names."""

    def __init__(self, connect: Connect, label: str) -> None:
        """Connect by ``connect``; ``label`` names the way in errors."""
        self._connect = connect
        self._label = label

    def addresses(self, host: str, port: int) -> dict[str, AddressInfo]:
        """Return the host as the only address of its name, for `connect`."""
        return {host: (socket.AF_UNSPEC, (host, port))}

    async def connect(self, address: AddressInfo) -> Any:
        """Return the object with which the running event loop's transport is opened. Raises `KafkaConnectionError`."""
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
            if not in_trio():
                return sock
            from anyio.abc import SocketStream  # only here: it costs as much as all of this package's errors

            return await SocketStream.from_socket(sock)
        except BaseException:
            sock.close()
            raise


def way_of(config: ClientConfig) -> Way | None:
    """Return the way from the options; None if brokers are connected to directly."""
    if config.connect is not None:
        return Way(config.connect, "the function given as connect")
    return None if config.proxy_url is None else _proxied(config.proxy_url)


def _proxied(url: str) -> Way:
    split = urlsplit(url)

    async def connect(host: str, port: int) -> socket.socket:
        kind = import_module(f"python_socks.async_.{'trio' if in_trio() else 'asyncio'}").Proxy
        opened: Any = await kind.from_url(url, rdns=True).connect(host, port, timeout=_NO_TIMEOUT_S)
        return socket.socket(fileno=opened.detach()) if in_trio() else opened

    return Way(connect, f"the proxy {split.hostname}:{split.port}")

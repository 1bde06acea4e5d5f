"""Connections to brokers through SOCKS4, SOCKS5 and HTTP CONNECT proxies."""

from __future__ import annotations

import asyncio
import base64
import socket
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from ....errors import KafkaConnectionError
from ...loop import in_trio
from .dial import race, resolve
from .kind import kind_of_transport

_NO_TIMEOUT_S = 86_400.0
"""Disables the timeout of python-socks, because the setup of a connection is limited elsewhere."""

_ANSWER_BYTES = 16 * 1024
"""Maximum size in bytes of the head of a response to CONNECT."""


def proxy_of(url: str) -> Proxy:
    """Return the proxy that a URL describes. The options have already checked the URL."""
    split = urlsplit(url)
    kind = _HttpProxy if split.scheme == "http" else _SocksProxy
    login = unquote(split.username or ""), unquote(split.password or "")
    return kind(split.scheme, split.hostname or "", split.port or 0, *login)


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Proxy:
    """The address of a proxy, and the login. User name and password are empty strings if there is none."""

    def __init__(self, scheme: str, host: str, port: int, user: str, password: str) -> None:
        self._scheme = scheme
        self._host = host
        self._port = port
        self._user = user
        self._password = password
        self.label = f"the proxy {_authority(host, port)}"
        """Name of the proxy in error messages."""

    async def connect(self, host: str, port: int) -> socket.socket:
        """Return a socket connected to this host through the proxy. Raises `KafkaConnectionError`."""
        kind = KafkaConnectionError
        try:
            return await self._through(host, port)
        except Exception as error:
            kind = type(error) if isinstance(error, KafkaConnectionError) else kind
            reason = str(error) or type(error).__name__
        raise kind(reason)  # without the cause, because variables in its traceback contain the password

    async def _through(self, host: str, port: int) -> socket.socket:
        raise NotImplementedError

    async def _reach(self) -> Any:
        """Return a socket connected to the proxy, at any address of its host."""
        kind = kind_of_transport()
        connect: Any = kind.connect
        drop: Any = kind.drop
        _, connected = await race(await resolve(self._host, self._port), connect, drop, _Unrecorded())
        if not in_trio():
            return connected
        import trio
        from anyio.abc import SocketAttribute

        return trio.socket.from_stdlib_socket(connected.extra(SocketAttribute.raw_socket))


class _Unrecorded:
    """A `Progress` that ignores all results, because only brokers' addresses are recorded, not a proxy's."""

    def begin(self, address: str, /) -> None:
        pass

    def refused(self, address: str, error: KafkaConnectionError, /) -> None:
        pass


class _SocksProxy(Proxy):
    """A SOCKS4 or SOCKS5 proxy, whose protocol python-socks implements."""

    async def _through(self, host: str, port: int) -> socket.socket:
        kinds = import_module("python_socks").ProxyType
        kind = import_module(f"python_socks.async_.{'trio' if in_trio() else 'asyncio'}").Proxy
        of_kind = kinds.SOCKS4 if self._scheme == "socks4" else kinds.SOCKS5
        proxy = kind(of_kind, self._host, self._port, self._user, self._password, rdns=True, forward=_Before(self))
        opened: Any = await proxy.connect(host, port, timeout=_NO_TIMEOUT_S)
        return socket.socket(fileno=opened.detach()) if in_trio() else opened


class _Before:
    """Opens the socket to the proxy for python-socks, which would try only one address of the proxy's host."""

    def __init__(self, proxy: _SocksProxy) -> None:
        self._proxy = proxy

    async def connect(self, dest_host: str, dest_port: int, timeout: float | None = None) -> Any:
        """Return a socket connected to the proxy. The arguments, which python-socks passes, are ignored."""
        return await self._proxy._reach()


class _HttpProxy(Proxy):
    """A proxy that supports CONNECT (RFC 9110, section 9.3.6).

    This does not use python-socks, which assumes that the first packet of a response contains the whole head. If the
    head takes several packets, python-socks leaves the rest to be read as data from the broker.
    """

    async def _through(self, host: str, port: int) -> socket.socket:
        """Return a socket connected to this host by the method CONNECT.

        Raises `KafkaConnectionError` if the proxy refuses.
        """
        sock = await self._reach()
        try:
            await _send(sock, self._request(host, port))
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                byte = await _receive(sock, 1)  # no more than the head, because the bytes after it come from the broker
                if not byte:
                    raise KafkaConnectionError("it closed the connection" + (f" after {head!r}" if head else ""))
                head += byte
                if len(head) > _ANSWER_BYTES:
                    raise KafkaConnectionError(f"the head of its response is too long: {head[:40]!r}...")
            status = head.partition(b"\r\n")[0].decode(errors="replace")
            if not status.startswith("HTTP/") or status.partition(" ")[2][:1] != "2":
                raise KafkaConnectionError(f"it answered {status!r}")
        except BaseException:
            sock.close()
            raise
        return socket.socket(fileno=sock.detach()) if in_trio() else sock

    def _request(self, host: str, port: int) -> bytes:
        where = _authority(host if host.isascii() else host.encode("idna").decode(), port)
        lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
        if self._user or self._password:
            login = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
            lines.append(f"Proxy-Authorization: Basic {login}")
        return "\r\n".join([*lines, "", ""]).encode()


async def _send(sock: Any, data: bytes) -> None:
    if not in_trio():
        await asyncio.get_running_loop().sock_sendall(sock, data)
        return
    while data:
        data = data[await sock.send(data) :]


async def _receive(sock: Any, size: int) -> bytes:
    data: bytes = await (sock.recv(size) if in_trio() else asyncio.get_running_loop().sock_recv(sock, size))
    return data

"""Proxies for tests: a proxy with SOCKS5 and HTTP CONNECT on one port, and Debian's proxies."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import struct
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import pytest

from .ports import PortPool


class Proxy:
    """A proxy that speaks SOCKS5 and CONNECT on one port, and resolves names that are unknown elsewhere."""

    def __init__(self, user: str | None = None, password: str | None = None) -> None:
        self.port = 0
        self.hangs = False
        """True for a proxy that accepts connections but never answers."""
        self.requests: list[bytes] = []
        """Heads of the requests to CONNECT."""
        self.asked: list[tuple[str, int]] = []
        """Hosts and ports that clients asked for."""
        self.names: dict[str, str] = {}
        self._login = None if user is None else (user, password)

    async def handle(self, client: anyio.abc.SocketStream) -> None:
        async with client:
            try:
                first = await client.receive(1)
                if self.hangs:
                    await anyio.sleep_forever()
                to = await (self._socks(client) if first == b"\x05" else self._connect(client, first))
                if to is not None:
                    async with to, anyio.create_task_group() as pumps:
                        pumps.start_soon(pump, client, to, pumps.cancel_scope)
                        pumps.start_soon(pump, to, client, pumps.cancel_scope)
            except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

    async def _socks(self, client: anyio.abc.SocketStream) -> anyio.abc.SocketStream | None:
        (count,) = await read(client, 1)
        methods = await read(client, count)
        if self._login is not None:
            if 2 not in methods:
                await client.send(b"\x05\xff")
                return None
            await client.send(b"\x05\x02")
            _, size = await read(client, 2)
            user = (await read(client, size)).decode()
            (size,) = await read(client, 1)
            password = (await read(client, size)).decode()
            right = (user, password) == self._login
            await client.send(b"\x01\x00" if right else b"\x01\x01")
            if not right:
                return None
        else:
            await client.send(b"\x05\x00")
        _, _, _, kind = await read(client, 4)
        if kind == 3:
            (size,) = await read(client, 1)
            host = (await read(client, size)).decode()
        else:
            host = socket.inet_ntoa(await read(client, 4))
        (port,) = struct.unpack(">H", await read(client, 2))
        to = await self._reach(host, port)
        await client.send(b"\x05" + (b"\x05" if to is None else b"\x00") + b"\x00\x01" + bytes(6))
        return to

    async def _connect(self, client: anyio.abc.SocketStream, head: bytes) -> anyio.abc.SocketStream | None:
        while b"\r\n\r\n" not in head:
            head += await client.receive()
        self.requests.append(head)
        if self._login is not None:
            login = base64.b64encode(":".join(map(str, self._login)).encode())
            if b"\r\nProxy-Authorization: Basic " + login + b"\r\n" not in head:
                await client.send(b"HTTP/1.1 407 Who are you?\r\n\r\n")
                return None
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        to = await self._reach(host.strip("[]"), int(port))
        # In two packets: a proxy may write its answer line by line.
        await client.send(b"HTTP/1.1 502 No\r\n" if to is None else b"HTTP/1.1 200 OK\r\n")
        await anyio.sleep(0.01)
        await client.send(b"Via: a test\r\n\r\n")
        return to

    async def _reach(self, host: str, port: int) -> anyio.abc.SocketStream | None:
        self.asked.append((host, port))
        try:
            return await anyio.connect_tcp(self.names.get(host, host), port)
        except OSError:
            return None


async def read(stream: anyio.abc.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += await stream.receive(size - len(data))
    return data


async def pump(one: anyio.abc.SocketStream, other: anyio.abc.SocketStream, scope: anyio.CancelScope) -> None:
    try:
        while True:
            await other.send(await one.receive())
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        scope.cancel()


@asynccontextmanager
async def proxy(user: str | None = None, password: str | None = None) -> AsyncIterator[Proxy]:
    made = Proxy(user, password)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        made.port = listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.start_soon(listener.serve, made.handle)
        yield made
        tasks.cancel_scope.cancel()


PROXIES = ("microsocks", "danted", "tinyproxy")
"""Debian's proxies: the first two speak SOCKS5, the last one CONNECT."""

NO_PROXIES = "no proxies"
"""Beginning of the reason for skipping tests of real proxies."""


@asynccontextmanager
async def real_proxy(kind: str, folder: Path, user: str | None = None, password: str = "") -> AsyncIterator[RealProxy]:
    """Yield one of `PROXIES`, with a login if it supports one."""
    if shutil.which(kind) is None:
        pytest.skip(f"{NO_PROXIES}: {kind} is not installed (apt-get install microsocks dante-server tinyproxy)")
    with PortPool() as ports:
        made = RealProxy(kind, ports.take(), folder, user, password)
        await made.start()
        try:
            yield made
        finally:
            made.kill()


class RealProxy:
    """A process that can be killed, and restarted on the same port."""

    def __init__(self, kind: str, port: int, folder: Path, user: str | None, password: str) -> None:
        self.has_login = user is not None and kind != "danted"  # dante knows the users of the machine
        self.port = port
        login = f"{user}:{password}@" if self.has_login else ""
        self.url = f"{'http' if kind == 'tinyproxy' else 'socks5'}://{login}127.0.0.1:{port}"
        config = folder / f"{kind}.conf"
        lines: list[str] = []
        if kind == "microsocks":
            credentials = ["-u", str(user), "-P", password] if self.has_login else []
            self._command = [kind, "-i", "127.0.0.1", "-p", str(port), *credentials]
        elif kind == "danted":
            everyone = "pass { from: 0.0.0.0/0 to: 0.0.0.0/0 }"
            lines = ["logoutput: stderr", f"internal: 127.0.0.1 port = {port}", "external: 127.0.0.1"]
            lines += ["clientmethod: none", "socksmethod: none", f"client {everyone}", f"socks {everyone}"]
            self._command = [kind, "-f", str(config)]
        else:
            lines = [f"Port {port}", "Listen 127.0.0.1", "Allow 127.0.0.1", "Timeout 600", "MaxClients 1000"]
            lines += [f"BasicAuth {user} {password}"] if self.has_login else []
            self._command = [kind, "-d", "-c", str(config)]
        if lines:
            config.write_text("".join(f"{line}\n" for line in lines))
        self._process: subprocess.Popen[bytes] | None = None

    def _begin(self) -> None:
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    async def start(self) -> None:
        """Start the process; return once it listens."""
        self._begin()
        with anyio.fail_after(30):
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", self.port)).aclose()
                except OSError:
                    await anyio.sleep(0.02)
                else:
                    return

    def freeze(self) -> None:
        """Suspend the process and its children until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume them."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process and its children, with every connection through them."""
        self._signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):  # killed before
            os.killpg(self._process.pid, number)

"""TLS contexts for new connections.

A context is fixed, comes from the application's function, or is created from files that may be replaced. Certificates
may be valid for days or hours, and clients run longer than that. If files are replaced on disk, for example by
Kubernetes, they are read again before the next connection is opened. Open connections do not change.
"""

from __future__ import annotations

import inspect
import os
from functools import partial
from ssl import SSLContext
from typing import TYPE_CHECKING, Protocol

import anyio

from ..._options.checks import function_of
from ..._options.logs import ClientLog, client_log
from ...config import ClientConfig
from ...errors import KafkaConnectionError
from ...security import ContextFactory
from ..threads import BlockingCalls

if TYPE_CHECKING:
    from ..._options.tls import TlsMaterial


class TlsContexts(Protocol):
    """Provides the TLS contexts for all connections of a client."""

    async def next(self) -> SSLContext:
        """Return the context for the next connection. Raises `KafkaConnectionError` if there is none."""
        ...


def new_tls_contexts(config: ClientConfig) -> TlsContexts:
    """Return the provider for the ``ssl_*`` options."""
    log = client_log("connection", config.client_id)
    if isinstance(config.ssl_context, SSLContext):
        return _Given(config.ssl_context)
    if config.ssl_context is not None:
        return _Asked(config.ssl_context, log)
    return _Read(config.tls_material, log)


class _Given:
    """A fixed context that the application has passed."""

    def __init__(self, context: SSLContext) -> None:
        self._context = context

    async def next(self) -> SSLContext:
        return self._context


class _Renewed:
    """Base class for contexts that change. If creating a new context fails, the previous one stays in use."""

    def __init__(self, source: str, log: ClientLog) -> None:
        self._source = source
        self._log = log
        self._calls = BlockingCalls("TLS certificates", at_once=1)
        self._one_at_a_time = anyio.Lock()
        self._context: SSLContext | None = None
        self._warned = ""

    async def next(self) -> SSLContext:
        async with self._one_at_a_time:
            try:
                self._context = await self._renew(self._context)
            except Exception as error:
                text = f"{self._source} cannot be used now: {str(error) or type(error).__name__}"
                if self._context is None:
                    raise KafkaConnectionError(text) from error
                if text != self._warned:
                    self._log.warning("the TLS context could not be renewed, so the old one stays in use: %s", text)
                self._warned = text
            else:
                self._warned = ""
            return self._context

    async def _renew(self, current: SSLContext | None) -> SSLContext:
        """Return a new context, or the current one if nothing has changed."""
        raise NotImplementedError


class _Asked(_Renewed):
    """Contexts from the application's function, which is called before each connection."""

    def __init__(self, factory: ContextFactory, log: ClientLog) -> None:
        super().__init__("the result of ssl_context", log)
        self._factory = factory
        self._waits = inspect.iscoroutinefunction(function_of(factory))

    async def _renew(self, current: SSLContext | None) -> SSLContext:
        given = self._factory() if self._waits else await self._calls.run(self._factory)
        context = await given if inspect.isawaitable(given) else given
        if not isinstance(context, SSLContext):
            raise TypeError(f"it must be an ssl.SSLContext, not {type(context).__name__}")
        return context


class _Read(_Renewed):
    """Contexts from the files that the options name. A changed file leads to a new context."""

    def __init__(self, material: TlsMaterial, log: ClientLog) -> None:
        super().__init__("the certificate or key of an ssl_* option", log)
        self._material = material
        self._look: Look | None = None
        """State of the files just before they were read for the current context."""

    async def _renew(self, current: SSLContext | None) -> SSLContext:
        if current is not None and not self._material.files:
            return current
        look, context = await self._calls.run(partial(read_if_changed, self._material, self._look))
        self._look = look
        context = context or current
        assert context is not None, "how files look is known only with a context of them"
        return context


Look = tuple[tuple[object, ...], ...]
"""State of the files that can be compared with a later state."""


def read_if_changed(material: TlsMaterial, known: Look | None) -> tuple[Look, SSLContext | None]:
    """Return the current state of the files and, if it has changed, a new context. Raises `ConfigError`."""
    look = tuple(map(_look_of, material.files))
    return look, None if look == known else material.context()


def _look_of(path: str) -> tuple[object, ...]:
    """Return data that changes if a file is written or replaced, or if a link in its path changes."""
    try:
        real = os.path.realpath(path)
        found = os.stat(real)
    except OSError:
        return (path,)  # creating the context raises an error with the reason
    return real, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

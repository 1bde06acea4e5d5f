"""Base classes of the clients, for starting and stopping."""

from __future__ import annotations

import asyncio
import sys
import traceback
import warnings
from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

from .._io.client import Client
from .util import get_running_loop

__all__ = ["Life", "Startable"]

_NOT_KEPT = {"self", "topics", "sasl_plain_password"}
"""Arguments that are not stored, because they are not options, or are secret."""


class Startable:
    """Base class that starts a native client.

    As in aiokafka, a client can be started again after a failed start, also if it was stopped meanwhile. Clients that
    do not set ``_begun`` can be started again after every stop.
    """

    _native: Any
    _starting: asyncio.Lock
    _begun = False
    """True once `start` has succeeded. Set only by clients that cannot be started again after a stop."""
    _closed: bool | None = None
    """True after `stop`, and None before the options are checked. Read by FastStream."""

    def _renew(self) -> None:
        """Replace the native client with a new one."""
        raise NotImplementedError

    def _connections(self) -> Client:
        """Return the native client's connections."""
        return self._native._client  # type: ignore[no-any-return]

    async def _start_native(self) -> None:
        """Start the native client, unless it is running. Concurrent calls wait for the same start.

        If the start fails, replace the client, because in aiokafka it can be started again.
        """
        async with self._starting:
            if self._closed and not self._begun:
                self._renew()
                self._closed = False
            if self._begun or self._connections().running:
                self._connections().check()
                return
            try:
                await self._native.start()
            except BaseException:
                self._renew()
                raise


class Life(Startable):
    """Base class with ``async with``, and with a warning for a client that was not stopped.

    Belongs to one asyncio event loop.
    """

    _kind: ClassVar[str]
    """Key of the client in the context that the event loop's exception handler receives."""
    _source_traceback: Any = None
    _loop: asyncio.AbstractEventLoop
    _options_given: Mapping[str, Any] = {}
    """Options as given, which libraries read as attributes, such as ``_fetch_max_wait_ms``."""

    def _belongs_to(self, loop: asyncio.AbstractEventLoop, given: Mapping[str, Any]) -> None:
        """Store the event loop and the arguments. Called from ``__init__``."""
        self._loop = loop
        self._starting = asyncio.Lock()
        self._options_given = {name: value for name, value in given.items() if name not in _NOT_KEPT}
        if loop.get_debug():
            self._source_traceback = traceback.extract_stack(sys._getframe(2))

    def _check_loop(self) -> None:
        assert self._loop is get_running_loop(), "Please create objects with the same loop as running with"

    def __getattr__(self, name: str) -> Any:
        option = name.removeprefix("_")
        if name != option and option in self._options_given:
            return self._options_given[option]
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name.startswith("_") and not name.startswith("__"):
            text += " in aiokafka_lead.compat; its guide (From aiokafka) lists replacements"
        raise AttributeError(text, name=name, obj=self)

    def __del__(self, _warnings: Any = warnings) -> None:
        if self._closed is False:
            name = f"Unclosed AIOKafka{self._kind.capitalize()}"
            _warnings.warn(f"{name} {self!r}", ResourceWarning, source=self)
            context = {self._kind: self, "message": name}
            if self._source_traceback is not None:
                context["source_traceback"] = self._source_traceback
            self._loop.call_exception_handler(context)

    async def start(self) -> None:
        """Connect to the cluster. Raises `KafkaConnectionError`."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Close all connections."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

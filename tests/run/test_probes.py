"""The HTTP server for probes."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.abc import Listener, TaskGroup

from aiokafka_lead._io.run import service

pytestmark = pytest.mark.anyio


class ExhaustedListener(Listener[Any]):
    """A listener that cannot accept a connection at first, as without file descriptors."""

    def __init__(self, failure: Exception) -> None:
        self._failures = [failure]
        self.serves = anyio.Event()

    async def serve(self, handler: Callable[[Any], Any], task_group: TaskGroup | None = None) -> None:
        async with anyio.create_task_group():
            if self._failures:
                raise self._failures.pop()
            self.serves.set()
            await anyio.sleep_forever()

    async def aclose(self) -> None: ...


def broken_by(cause: Exception) -> Exception:
    error = anyio.BrokenResourceError()  # by listeners of Unix sockets
    error.__cause__ = cause
    return error


TOO_MANY = OSError(errno.EMFILE, "Too many open files")


@pytest.mark.parametrize("failure", [TOO_MANY, broken_by(TOO_MANY)], ids=["tcp", "unix"])
async def test_connections_that_cannot_be_accepted_do_not_end_the_service(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "ACCEPT_AGAIN_S", 0.0)
    listener, warnings = ExhaustedListener(failure), list[str]()

    async def handle(stream: Any) -> None: ...

    handler: Callable[[Any], Awaitable[object]] = handle
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.serve, listener, handler, lambda text, *values: warnings.append(text % values))
        with anyio.fail_after(20):
            await listener.serves.wait()
        tasks.cancel_scope.cancel()
    assert warnings == ["a connection could not be accepted: [Errno 24] Too many open files"]

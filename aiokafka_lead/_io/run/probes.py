"""A minimal HTTP server for an orchestrator's probes, which runs on the consumer's event loop."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream, Listener

from ..._values import NamedTuple

REQUEST_MAX_BYTES = 8192
"""Maximum size in bytes of the head of a request. Probes send a few hundred bytes."""

ACCEPT_AGAIN_S = 1.0
"""Pause in seconds after a connection could not be accepted."""

REQUEST_WITHIN_S = 5.0
"""Time limit of a request in seconds. Slower clients are disconnected, because probes try again."""


class Page(NamedTuple):
    """The response to a probe."""

    status: int
    content_type: str
    body: bytes


def json_page(status: int, content: Mapping[str, object]) -> Page:
    """Return a page with JSON content."""
    return Page(status, "application/json", json.dumps(content).encode())


async def serve(
    listener: Listener[Any], handle: Callable[[Any], Awaitable[object]], warn: Callable[[str, object], object]
) -> None:
    """Handle connections until cancelled.

    Continue if one cannot be accepted, for example because of too many open files. ``warn`` logs the reason.
    """
    while True:
        try:
            await listener.serve(handle)
        except* (OSError, anyio.BrokenResourceError) as failures:
            error: BaseException = failures
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            warn("a connection could not be accepted: %s", error.__cause__ or error)
        await anyio.sleep(ACCEPT_AGAIN_S)


async def serve_pages(
    host: str | None,
    port: int,
    pages: Mapping[str, Callable[[], Page]],
    warn: Callable[[str, object], object],
    *,
    task_status: anyio.abc.TaskStatus[None],
) -> None:
    """Answer GET and HEAD requests for these paths until cancelled. Raises OSError if the address cannot be bound."""
    try:
        listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on port {port}: {error.strerror or error}") from error
    async with listener:
        task_status.started()

        async def handle(stream: ByteStream) -> None:
            async with stream:
                with anyio.move_on_after(REQUEST_WITHIN_S):
                    try:
                        await stream.send(_answer(await _head(stream), pages))
                    except (anyio.BrokenResourceError, anyio.EndOfStream):
                        return

        await serve(listener, handle, warn)


async def _head(stream: ByteStream) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received and len(received) < REQUEST_MAX_BYTES:
        received += await stream.receive(REQUEST_MAX_BYTES)
    return received


def _answer(head: bytes, pages: Mapping[str, Callable[[], Page]]) -> bytes:
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
    found = pages.get(path)
    if method not in (b"GET", b"HEAD"):
        page = json_page(405, {"detail": "GET or HEAD"})
    elif found is None:
        page = json_page(404, {"detail": "one of " + ", ".join(pages)})
    else:
        page = found()
    lines = (
        f"HTTP/1.1 {page.status} {_REASONS.get(page.status, '')}",
        f"content-type: {page.content_type}",
        f"content-length: {len(page.body)}",
        "cache-control: no-store",
        "connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (b"" if method == b"HEAD" else page.body)


_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

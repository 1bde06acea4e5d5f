"""Responses of a FastAPI app to requests that fail because of Kafka."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress

from fastapi import Request, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import JSONResponse

from . import errors
from ._core.run.failures import described, quotes_input
from ._core.run.refusals import is_outage

RETRY_AFTER_S = 5
"""Value of Retry-After in seconds, in responses to requests that fail because Kafka is unreachable."""

_CLOSE_CODES = {413: 1009, 500: 1011, 503: 1013}
"""Codes with which a WebSocket is closed in place of a response (RFC 6455 and IANA's registry)."""

_log = logging.getLogger("aiokafka_lead.fastapi")


async def too_large(request: Request | WebSocket, error: Exception) -> Response | None:
    """Respond with status 413 to a request whose record is too large."""
    return await _refused(request, 413, "too large")


async def unavailable(request: Request | WebSocket, error: Exception) -> Response | None:
    """Respond with status 503, or 500 for a mistake of the program, and log the error."""
    method = request.method if isinstance(request, Request) else "WebSocket"
    if not _is_mistake(error):
        _log.warning("%s %s: %s", method, request.url.path, described(error))
        return await _refused(request, 503, "try again later", {"Retry-After": str(RETRY_AFTER_S)})
    shown = None if quotes_input(error) else error
    _log.error("%s %s: %s", method, request.url.path, described(error), exc_info=shown)
    return await _refused(request, 500, "internal error")


async def _refused(
    request: Request | WebSocket, status: int, detail: str, headers: Mapping[str, str] | None = None
) -> Response | None:
    """Return the response to a failed request. A WebSocket gets no response and is closed instead."""
    if isinstance(request, Request):
        return JSONResponse({"detail": detail}, status, headers)
    with suppress(RuntimeError, WebSocketDisconnect):  # it is already closed
        await request.close(_CLOSE_CODES[status], detail)
    return None


def _is_mistake(error: Exception) -> bool:
    """Return True for a mistake of the program, which repeating the request cannot correct."""
    if isinstance(error, errors.RecordSerializationError):
        return not is_outage(error)
    return isinstance(error, errors.ConfigError | errors.ConfigTypeError | errors.IllegalStateError) and not isinstance(
        error, errors.ClientClosedError
    )

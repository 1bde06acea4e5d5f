"""Handlers of the APIs, with a module for each API or family of APIs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..._wire import Request
from .._server.context import Handler, Handlers

_MODULES = (
    "acls",
    "configs",
    "consumer_groups",
    "coordinators",
    "fetch",
    "group_admin",
    "list_offsets",
    "metadata",
    "offsets",
    "produce",
    "share_fetch",
    "share_groups",
    "topics",
    "transactions",
)


def all_handlers() -> Handlers:
    """Return the handler of each API by its number.

    Each module has a mapping HANDLERS from request class to handler.
    """
    found: dict[int, Handler] = {}
    for name in _MODULES:
        handlers: Mapping[type[Request[Any]], Handler] = import_module(f"{__name__}.{name}").HANDLERS
        found.update({request.API_KEY: handler for request, handler in handlers.items()})
    return found

"""From an API's number to its classes, whose module is imported then."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Any

from .api_key import NAMES
from .message import Request


@cache
def request_class(api_key: int) -> type[Request[Any]]:
    """The request class of an API. Its `RESPONSE` is the answer's. Raises `KeyError` for an unknown key."""
    name = NAMES[api_key]
    module = import_module(f"{__package__}.messages.{re.sub('(?<!^)(?=[A-Z])', '_', name).lower()}")
    found: type[Request[Any]] = getattr(module, name + "Request")
    return found

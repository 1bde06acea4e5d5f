"""Schemas and values of them."""

from __future__ import annotations

import json
from typing import Any

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
ORDER_TEXT = json.dumps(ORDER)

LATER: dict[str, Any] = {**ORDER, "fields": [*ORDER["fields"], {"name": "cents", "type": "int", "default": 0}]}
"""Reads data written by `ORDER`."""

OTHER: dict[str, Any] = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
"""Cannot read data written by `ORDER`."""


def order(number: int) -> dict[str, Any]:
    """Return a value of `ORDER`."""
    return {"id": number, "customer": f"c{number}", "note": "first" if number == 1 else None}

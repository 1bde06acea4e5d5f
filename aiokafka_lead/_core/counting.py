"""From running counts to the metrics that applications get.

The class of the metrics is the table: a count stands there under its own name, and its docstring says what is counted.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

__all__ = ["counts_of"]


def counts_of(metrics: type, *counters: object) -> dict[str, Any]:
    """What the counters have of the fields of this dataclass, now."""
    return {
        field.name: getattr(each, field.name)
        for field in fields(metrics)
        for each in counters
        if hasattr(each, field.name)
    }

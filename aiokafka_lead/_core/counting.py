"""Builds the metrics for applications from running counts.

The dataclass of the metrics is the table: each field has the name of its count, and a docstring that describes it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

__all__ = ["counts_of"]


def counts_of(metrics: type, *counters: object) -> dict[str, Any]:
    """Return the current values of the dataclass fields that the counters have."""
    return {
        field.name: getattr(each, field.name)
        for field in fields(metrics)
        for each in counters
        if hasattr(each, field.name)
    }

"""Builds the application's metrics (see `metrics`) from running counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from .latencies import Latencies, LatenciesByNode

M = TypeVar("M")


def counts_of(metrics: type, *counters: object, **of_this_moment: Any) -> dict[str, Any]:
    """Return the values of a metrics class, by the name of the field.

    They come from the keyword arguments, and otherwise from attributes of ``counters`` with the same names.
    """
    counted = {
        field.name: getattr(each, field.name)
        for field in fields(metrics)
        for each in counters
        if hasattr(each, field.name)
    }
    return counted | of_this_moment


def snapshot(metrics: type[M], values: Mapping[str, Any]) -> M:
    """Return a copy of the current values. May be called from a thread other than the event loop's."""
    from ..metrics import figures

    known = figures(metrics)
    return metrics(
        **{name: _frozen(value, known[name].rows if name in known else None) for name, value in values.items()}
    )


def _frozen(value: Any, rows: type | None) -> Any:
    if isinstance(value, Latencies | LatenciesByNode):
        return value.snapshot()
    if isinstance(value, dict) and rows is not None:
        names = [field.name for field in fields(rows)]
        return {
            key: each if isinstance(each, rows) else rows(*(getattr(each, name) for name in names))
            for key, each in list(value.items())
        }
    return dict(value) if isinstance(value, dict) else value

"""Requests and responses in aiokafka's form, in which structures are tuples, and dicts in ``to_object()``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["Request", "Response", "Rows"]

Column = tuple[str, str] | tuple[str, str, "Rows"]
"""Name of a field in aiokafka, its native name, and for an array of structures, their columns."""


class Rows:
    """Converts native structures to aiokafka's tuples and dicts."""

    def __init__(self, *columns: Column) -> None:
        self.columns = columns

    def tuples(self, structures: Iterable[Any]) -> list[tuple[Any, ...]]:
        """Return a tuple for each structure, in the order of the columns."""
        return [tuple(self._cell(one, column) for column in self.columns) for one in structures]

    def _cell(self, structure: Any, column: Column) -> Any:
        value = getattr(structure, column[1])
        if len(column) == 3:
            return column[2].tuples(value or ())
        return list(value) if isinstance(value, (list, tuple)) else value

    def objects(self, rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
        """Return a dict for each tuple."""
        return [
            {
                column[0]: column[2].objects(cell) if len(column) == 3 else cell
                for column, cell in zip(self.columns, row, strict=True)
            }
            for row in rows
        ]


class Response:
    """Response of a broker, with its fields as attributes."""

    def __init__(self, fields: Rows, structure: Any) -> None:
        self._fields = fields
        (row,) = fields.tuples([structure])
        for column, cell in zip(fields.columns, row, strict=True):
            setattr(self, column[0], cell)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the response has no field {name!r}")

    def to_object(self) -> dict[str, Any]:
        """Return the response as a dict, with structures as dicts."""
        row = [getattr(self, column[0]) for column in self._fields.columns]
        return self._fields.objects([row])[0]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_object()!r})"


class Request(ABC):
    """Request for `AIOKafkaClient.send`."""

    answer: Rows
    """Fields of the response."""

    @abstractmethod
    def native(self) -> Any:
        """Return the native request."""

    def response(self, structure: Any) -> Response:
        """Convert the native response to aiokafka's form."""
        return Response(self.answer, structure)

"""A base of frozen dataclasses whose methods are written once."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any


@functools.cache
def _defaults(kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the default of each field, and by field what makes a default, for those without a plain one."""
    fields = dataclasses.fields(kind)
    unset = {field.name: field.default_factory for field in fields if field.default is dataclasses.MISSING}
    return {field.name: field.default for field in fields}, unset


class Frozen:
    """Frozen values, for dataclasses that only declare fields (``init=False, repr=False, eq=False``).

    The methods that ``dataclass`` generates are compiled at every import: a millisecond for each class.
    """

    def __init__(self, *values: Any, **given: Any) -> None:
        kind: Any = type(self)
        defaults, unset = _defaults(kind)
        mine = vars(self)
        mine.update(defaults)
        mine.update(zip(defaults, values, strict=False))
        if len(values) > len(defaults) or not defaults.keys() >= given.keys():
            extra = ", ".join(sorted(given.keys() - defaults.keys())) or f"{len(values)} fields"
            raise TypeError(f"{kind.__name__} has no {extra}")
        mine.update(given)
        for name, make in unset.items():
            if mine[name] is dataclasses.MISSING:
                if make is dataclasses.MISSING:
                    raise TypeError(f"{name} is missing")
                mine[name] = make()

    def __setattr__(self, name: str, value: Any) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields if field.repr)
        return f"{type(self).__name__}({', '.join(shown)})"

"""Base classes for values that are fast to import.

For each class, the standard library compiles code: the methods of a dataclass, and the annotations of a named tuple.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import namedtuple
from inspect import Parameter, Signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, dataclass_transform

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    @functools.cache
    def _model(count):
        """Return the attributes of a named tuple with this many fields, which are named ``n0``, ``n1`` and so on."""
        model = namedtuple("_", map(_numbered, range(count)))
        return dict(vars(model))  # not of a temporary class, which the garbage collector may clear in the meantime

    def _numbered(at):
        return f"n{at}"

    def _replace(self, /, **given):
        made = self._make(map(given.pop, self._fields, self))
        if given:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(given))}")
        return made

    def _repr(self):
        shown = (f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
        return f"{type(self).__name__}({', '.join(shown)})"

    class _NamedTuples(type):
        def __new__(cls, name, bases, namespace):
            fields = tuple(namespace["__annotations__"])
            defaults = {field: namespace.pop(field) for field in fields if field in namespace}
            own = _model(len(fields)).copy()
            getters = [own.pop(_numbered(at)) for at in range(len(fields))]
            own.update(zip(fields, getters, strict=True))
            new = own["__new__"].__func__
            # The standard library compiles this for each class, which takes most of the time.
            code = new.__code__.replace(co_varnames=("_cls", *fields), co_qualname=f"{name}.__new__")
            own["__new__"] = FunctionType(code, new.__globals__, "__new__", tuple(defaults.values()))
            own.update(_fields=fields, _field_defaults=defaults, __match_args__=fields)
            own.update(__repr__=_repr, _replace=_replace, __replace__=_replace, __doc__=None)
            return type(name, (tuple,), own | namespace)

    NamedTuple = type.__new__(_NamedTuples, "NamedTuple", (), {})
    """The same as `typing.NamedTuple`, if annotations are strings."""


@functools.cache
def _fields(kind: Any) -> tuple[dict[str, Any], dict[str, Any], list[str], list[str]]:
    """Return the fields: defaults, factories, and the names of the positional and of the compared fields."""
    fields = dataclasses.fields(kind)
    return (
        {field.name: field.default for field in fields},
        {field.name: field.default_factory for field in fields if field.default is dataclasses.MISSING},
        [field.name for field in fields if not field.kw_only],
        [field.name for field in fields if field.compare],
    )


class _Signature:
    """The signature of a value class, as shown by `help` and editors."""

    def __get__(self, one: object, kind: Any) -> Signature:
        return Signature([self._parameter(field) for field in sorted(dataclasses.fields(kind), key=_is_keyword)])

    @staticmethod
    def _parameter(field: dataclasses.Field[Any]) -> Parameter:
        made = field.default_factory is not dataclasses.MISSING
        default = ... if made else Parameter.empty if field.default is dataclasses.MISSING else field.default
        how = Parameter.KEYWORD_ONLY if _is_keyword(field) else Parameter.POSITIONAL_OR_KEYWORD
        return Parameter(field.name, how, default=default, annotation=field.type)


def _is_keyword(field: dataclasses.Field[Any]) -> bool:
    return field.kw_only is True


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Frozen:
    """Base class of frozen dataclasses that only declare fields. Their methods are defined once, in this class."""

    __signature__ = _Signature()

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, *values: Any, **given: Any) -> None:
        kind: Any = type(self)
        defaults, factories, positional, _ = _fields(kind)
        mine = vars(self)
        mine.update(defaults)
        mine.update(zip(positional, values, strict=False))
        if len(values) > len(positional):
            raise TypeError(f"{kind.__name__} takes {len(positional)} values by position, not {len(values)}")
        if unknown := given.keys() - defaults.keys():
            raise TypeError(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
        if twice := given.keys() & positional[: len(values)]:
            raise TypeError(f"{kind.__name__} got {', '.join(sorted(twice))} twice")
        mine.update(given)
        for name, make in factories.items():
            if mine[name] is dataclasses.MISSING:
                if make is dataclasses.MISSING:
                    raise TypeError(f"{kind.__name__} needs {name}")
                mine[name] = make()

    def __setattr__(self, name: str, value: Any) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _compared(self) -> list[Any]:
        kind: Any = type(self)
        *_, names = _fields(kind)
        return [getattr(self, name) for name in names]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frozen) or type(self) is not type(other):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash(tuple(self._compared()))

    def __repr__(self) -> str:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields if field.repr)
        return f"{type(self).__name__}({', '.join(shown)})"

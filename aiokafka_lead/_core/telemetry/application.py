"""An application's metrics, pushed together with a client's (KIP-1076)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from inspect import iscoroutinefunction
from typing import Any

from ..._options.arguments import string
from ..._options.callables import function_of
from ..._options.checks import INT64_MAX, Check, function, integer
from ...errors import ConfigError, ConfigTypeError
from .measures import Attributes, Kind, Measure

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]{0,237}")
"""OpenTelemetry's syntax of names; together with `PREFIX` 255 characters."""

_OWN = ("admin.", "client.", "consumer.", "producer.")
"""Beginnings of the names of clients' own metrics."""

_EXACT = 2**53
"""From here on an int is pushed as a float, so that sums fit into 64 bits."""

_NUMBER: Check = integer(-INT64_MAX, INT64_MAX)


def metric_name(name: str, value: Any) -> str:
    """Check the name of an application's metric, without `PREFIX`."""
    if not isinstance(value, str):
        raise ConfigTypeError(f"{name} must be a str, not {type(value).__name__}")
    if _NAME.fullmatch(value) is None:
        raise ConfigError(
            f"{name} must be a letter, and up to 237 of ASCII letters, digits, '_', '.', '-' and '/', not {value!r}"
        )
    if value.startswith(_OWN):
        raise ConfigError(f"{name} must not begin with {' or '.join(_OWN)}, as clients' own metrics do, not {value!r}")
    return value


def metric_attributes(name: str, value: Any) -> Attributes:
    """Check attributes, which distinguish metrics of one name: texts or ints by name, or None."""
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise ConfigTypeError(f"{name} must be a mapping, not {type(value).__name__}")
    found: dict[str, str | int] = {}
    for key, each in value.items():
        if not string(f"{name}'s key", key):
            raise ConfigError(f"{name} must not have an empty key")
        check = string if isinstance(each, str) else _NUMBER
        found[key] = check(f"{name}[{key!r}]", each)
    return tuple(sorted(found.items()))


def metric_measure(name: str, value: Any) -> Any:
    """Check a function that returns a value; not a coroutine function."""
    if iscoroutinefunction(function_of(function(name, value))):
        raise ConfigTypeError(f"{name} must not be a coroutine function: a push does not wait")
    return value


class ApplicationSource:
    """One metric of the application, which is asked for its value when a push is due."""

    def __init__(
        self,
        name: str,
        measure: Callable[[], float],
        attributes: Attributes,
        resource: Callable[[], Attributes],
        on_failure: Callable[[str, Exception], None],
        *,
        is_sum: bool,
    ) -> None:
        """``resource`` belongs to the client that pushes it; ``on_failure`` is called for the first of consecutive
        failures."""
        self._name = name
        self._measure = measure
        self._attributes = attributes
        self._kind = Kind.TOTAL if is_sum else Kind.LEVEL
        self._resource = resource
        self._on_failure = on_failure
        self._failed = False
        """True if the last call returned no value."""

    def resource(self) -> Attributes:
        """Return the client's resource."""
        return self._resource()

    def measures(self) -> Iterator[Measure]:
        """Yield the current value, if there is one."""
        try:
            value = _finite(self._measure())
        except Exception as error:  # of the application's code
            if not self._failed:
                self._failed = True
                self._on_failure(self._name, error)
            return
        self._failed = False
        yield Measure(self._kind, self._name, value, attributes=self._attributes)


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"a metric's value must be an int or a float, not {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"a metric's value must be finite, not {value!r}")
    return float(value) if abs(value) >= _EXACT else value

"""Inspection of the application's functions."""

from __future__ import annotations

import inspect
import sys
from functools import partial
from types import FunctionType
from typing import Any


def function_of(given: Any) -> Any:
    """Return the function behind a partial object, a bound method, or an object with ``__call__``."""
    while not isinstance(given, (FunctionType, type)):
        if isinstance(given, partial):
            given = given.func
        elif inspect.ismethod(given):
            given = given.__func__
        elif inspect.isfunction(type(given).__call__) and not inspect.iscoroutinefunction(given):
            given = type(given).__call__
        else:
            break
    return given


def signature_of(function: Any) -> inspect.Signature:
    """Return the signature. If an annotation exists for type checkers only, all annotations are text."""
    try:
        return inspect.signature(function)
    except NameError:
        if sys.version_info >= (3, 14):  # which evaluates annotations only now
            import annotationlib

            return inspect.signature(function, annotation_format=annotationlib.Format.STRING)
        raise

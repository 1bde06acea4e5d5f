"""Calls a handler with arguments chosen by its parameters' names and annotations."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ..._options.callables import function_of
from ..._records.record import AnyRecord
from ...errors import ConfigTypeError, RecordDeserializationError
from .failures import reason_of
from .handler import checked_handler, name_of, place_of
from .parsing import parser_for, unwrapped

Handler = Callable[..., Awaitable[object]]
Get = Callable[[Any, Any], Any]

PARTS = ("topic", "partition", "offset", "timestamp_ms")
"""Attributes of a record that parameters of the same name get."""

_MISSING = inspect.Parameter.empty

_TXN = ("txn", "transaction")
"""Names of a parameter that gets the transaction even without an annotation."""


def bound(handler: Handler, *, transactional: bool, model: Any = None) -> Handler:
    """Return a function of a record, and of a transaction if ``transactional``, that calls this handler.

    It is the handler itself unless it has other parameters, or ``model`` is the type of the value. Raises
    `ConfigTypeError` for a parameter that no argument fits.
    """
    checked = checked_handler(handler)
    wanted = _parameters(handler)
    if model is None and (wanted is None or all(map(_is_plain, wanted))):
        takes_no_txn = transactional and wanted is not None and len(wanted) == 1
        _check_call(handler, 1 + (transactional and not takes_no_txn))
        return (lambda record, txn: checked(record)) if takes_no_txn else checked
    name = name_of(handler)
    positional: list[Get] = []
    named: dict[str, Get] = {}
    values = 0
    for parameter in wanted or ():
        what = f"handler {name}, parameter {parameter.name}"
        get, is_value = _getter(parameter, what, transactional, None if values else model)
        values += is_value
        if values > 1:
            raise ConfigTypeError(f"{what}: another parameter gets the record's value already")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[parameter.name] = get
        else:
            positional.append(get)
    if model is not None and not values:
        raise ConfigTypeError(f"handler {name} has no parameter for a {name_of(model)}")
    return _calling(checked, positional, named)


def bound_to_batch(handler: Handler, *, transactional: bool, model: Any = None) -> tuple[Handler, Callable[[Any], Any]]:
    """Return a function of a list, and of a transaction if ``transactional``, that calls this handler; and a function
    that converts a record to an item of the list. Raises `ConfigTypeError`."""
    checked = checked_handler(handler)
    wanted = _parameters(handler)
    if not wanted:
        raise ConfigTypeError(f"handler {name_of(handler)} must take a list of records")
    first, *rest = wanted
    what = f"handler {name_of(handler)}, parameter {first.name}"
    origin, arguments = typing.get_origin(first.annotation) or first.annotation, typing.get_args(first.annotation)
    if origin not in (_MISSING, Any, object, list, Sequence):
        raise ConfigTypeError(f"{what}: max_records makes batches; annotate it as a list of something")
    if len(rest) > transactional or not all(map(_is_plain, rest)):
        raise ConfigTypeError(f"handler {name_of(handler)}: a handler of batches takes the list, and a transaction")
    kind = model if model is not None else arguments[0] if arguments else Any
    takes_txn = bool(rest)
    call: Handler = (
        (lambda records, *txn: checked(records, *txn)) if takes_txn else (lambda records, *_: checked(records))
    )
    if kind in (Any, object) or _is_record(kind):
        return call, lambda record: record
    get = _content("value", kind, what)
    return call, lambda record: get(record, None)


def _calling(handler: Handler, positional: Sequence[Get], named: Mapping[str, Get]) -> Handler:
    if len(positional) == 1 and not named:
        [get] = positional

        def call_with_one(record: Any, txn: Any = None) -> Awaitable[object]:
            return handler(get(record, txn))

        return call_with_one

    def call(record: Any, txn: Any = None) -> Awaitable[object]:
        given = {name: get(record, txn) for name, get in named.items()}
        return handler(*[get(record, txn) for get in positional], **given)

    return call


# --- parameters ------------------------------------------------------------------------------------------------------


def _parameters(handler: Handler) -> list[inspect.Parameter] | None:
    """Return the parameters that need an argument, with their annotations evaluated; None if unknown."""
    try:
        found = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in found):
        return None
    function = function_of(handler)
    return [
        each.replace(annotation=_evaluated(each, function))
        for each in found
        if each.default is _MISSING and each.kind is not inspect.Parameter.VAR_KEYWORD
    ]


def _check_call(handler: Handler, arguments: int) -> None:
    """Raise `ConfigTypeError` if the handler cannot be called with this number of arguments."""
    try:
        inspect.signature(handler).bind(*range(arguments))
    except ValueError:
        pass  # a builtin without a signature
    except TypeError as error:
        given = "a record and a transaction" if arguments > 1 else "a record"
        raise ConfigTypeError(f"handler {name_of(handler)} cannot be called with {given}: {error}") from None


def _evaluated(parameter: inspect.Parameter, function: Any) -> Any:
    """Return the annotation; its name for a record or a transaction may be defined for type checkers only."""
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        return annotation
    function = function_of(inspect.unwrap(function)) if callable(function) else function
    names = getattr(function, "__globals__", None) or vars(sys.modules.get(getattr(function, "__module__", ""), typing))
    closure = getattr(function, "__closure__", None) or ()
    free: tuple[str, ...] = getattr(getattr(function, "__code__", None), "co_freevars", ())
    try:
        scope: dict[str, object] = {name: cell.cell_contents for name, cell in zip(free, closure, strict=False)}
        found: Any = annotation
        while isinstance(found, str):  # a string within a string, if the module postpones its annotations
            found = eval(found, dict(names), scope)
        return found
    except Exception as error:
        if parameter.name in ("record", *_TXN) or annotation.split("[")[0].endswith(("Record", "Transaction")):
            return _MISSING
        raise ConfigTypeError(
            f"handler parameter {parameter.name}: its annotation {annotation!r} must exist at run time ({error})"
        ) from error


def _is_plain(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        return False
    if annotation in (_MISSING, Any, object):
        return parameter.name not in ("value", "key", "headers", *PARTS)
    return _is_record(annotation) or _is_transaction(annotation)


def _is_record(annotation: Any) -> bool:
    origin = typing.get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, AnyRecord)


def _is_transaction(annotation: Any) -> bool:
    origin = typing.get_origin(annotation) or annotation
    return isinstance(origin, type) and hasattr(origin, "send_offsets")


def _getter(parameter: inspect.Parameter, what: str, transactional: bool, model: Any) -> tuple[Get, bool]:
    """Return the function that computes the argument, and True if the argument is the record's value."""
    annotation, name = parameter.annotation, parameter.name
    kind = unwrapped(annotation)
    if _is_record(kind) or (name == "record" and kind in (_MISSING, Any, object)):
        return (lambda record, txn: record), False
    if _is_transaction(kind) or (name in _TXN and kind in (_MISSING, Any, object)):
        if not transactional:
            raise ConfigTypeError(f"{what}: there is a transaction only with exactly_once")
        return (lambda record, txn: txn), False
    if name == "headers":
        return _headers(kind, what), False
    if name in PARTS and kind in (_MISSING, Any, object, str, int):
        return (lambda record, txn: getattr(record, name)), False
    if name == "key":
        return _content("key", annotation, what), False
    if annotation is _MISSING and model is None and name != "value":
        raise ConfigTypeError(f"{what}: annotate it, or call it record, value, key or headers")
    return _content("value", annotation if model is None else model, what), True


def _content(part: str, annotation: Any, what: str) -> Get:
    if annotation is _MISSING:
        return lambda record, txn: getattr(record, part)
    parse = parser_for(annotation, what, of_key=part == "key")
    wanted = name_of(annotation)
    of_value = part == "value"

    def get(record: Any, txn: Any) -> Any:
        try:
            return parse(record.value if of_value else record.key)
        except Exception as cause:
            text = f"the {part} of {place_of(record)} is no {wanted}: {reason_of(cause)}"
            raise RecordDeserializationError(text, record=_raw(record), part=part) from cause

    return get


def _raw(record: Any) -> Any:
    return record.consumer_record() if hasattr(record, "consumer_record") else record


def _headers(annotation: Any, what: str) -> Get:
    origin = typing.get_origin(annotation) or annotation
    if origin in (_MISSING, Any, object, tuple, list, Sequence):
        return lambda record, txn: record.headers
    if origin not in (dict, Mapping):
        raise ConfigTypeError(f"{what}: headers are a tuple of pairs, or a dict")
    if str in typing.get_args(annotation)[1:]:
        return lambda record, txn: {name: (content or b"").decode(errors="replace") for name, content in record.headers}
    return lambda record, txn: dict(record.headers)

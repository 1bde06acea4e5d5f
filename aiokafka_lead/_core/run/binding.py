"""Binding handlers' parameters to parts of a record, by their names and annotations."""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from ..._options.checks import function_of, signature_of
from ..._records.record import AnyRecord
from ...errors import ConfigTypeError, RecordDeserializationError
from .failures import reason_of
from .handler import checked_handler, name_of, place_of, raw_record
from .parsing import parser_for, unwrapped, without_none

Handler = Callable[..., Awaitable[object]]
Get = Callable[[Any, Any], Any]

PARTS = ("topic", "partition", "offset", "timestamp_ms")
"""Attributes of a record that are passed to parameters of the same name."""

_MISSING = inspect.Parameter.empty

_TXN = ("txn", "transaction")
"""Names of a parameter that gets the transaction even without an annotation."""

NAMES = frozenset(("record", "value", "key", "headers", *PARTS, *_TXN))
"""Names of parameters that are bound even without an annotation."""


def bound(handler: Handler, *, transactional: bool, model: Any = None) -> Handler:
    """Return a function that calls this handler with a record, and with a transaction if ``transactional``.

    A handler that takes exactly these arguments is not adapted, unless ``model`` is given. ``model`` is the type of the
    value, for a handler without annotations. Raises `ConfigTypeError` if no part of a record fits a parameter.
    """
    checked = checked_handler(handler)
    wanted = _parameters(handler, transactional=transactional, model=model)
    if model is None and (wanted is None or _in_order(wanted)):
        takes_no_txn = transactional and wanted is not None and len(wanted) == 1
        _check_call(handler, 1 + (transactional and not takes_no_txn))
        return (lambda record, txn: checked(record)) if takes_no_txn else checked
    name = name_of(handler)
    positional: list[Get] = []
    named: dict[str, Get] = {}
    values = 0
    for parameter in wanted or ():
        what = f"handler {name}, parameter {parameter.name}"
        role = _role(parameter)
        get = _getter(parameter, role, what, transactional, None if values else model)
        values += role is None or role == "value"
        if values > 1:
            raise ConfigTypeError(f"{what}: another parameter already receives the record's value")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            named[parameter.name] = get
        else:
            positional.append(get)
    if model is not None and not values:
        raise ConfigTypeError(f"handler {name} has no parameter for a {name_of(model)}")
    return _calling(checked, positional, named)


def bound_to_batch(handler: Handler, *, transactional: bool, model: Any = None) -> tuple[Handler, Callable[[Any], Any]]:
    """Return a function that calls this handler with a list, and a function that converts a record to a list item.

    If ``transactional``, the first function also takes a transaction. Other parameters with a default always keep it,
    because a batch has no parts such as a key. Raises `ConfigTypeError` for a handler that cannot be called in this
    way.
    """
    checked = checked_handler(handler)
    wanted = _parameters(handler, transactional=transactional, model=model)
    if not wanted:
        raise ConfigTypeError(f"handler {name_of(handler)} must take a list of records")
    first, *rest = wanted
    what = f"handler {name_of(handler)}, parameter {first.name}"
    origin, arguments = typing.get_origin(first.annotation) or first.annotation, typing.get_args(first.annotation)
    if origin not in (_MISSING, Any, object, list, Sequence):
        raise ConfigTypeError(f"{what}: with max_records the handler receives batches, so annotate it as a list")
    rest = [each for each in rest if each.default is _MISSING or _role(each) == "txn"]
    by_name = [each.kind is inspect.Parameter.KEYWORD_ONLY or each is not wanted[1] for each in rest]
    rest = [each.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in rest]
    if len(rest) > transactional or not all(map(_is_plain, rest)):
        raise ConfigTypeError(f"handler {name_of(handler)}: a batch handler takes only a list, and a transaction")
    kind = model if model is not None else arguments[0] if arguments else Any
    call = _taking_list(checked, rest[0].name if rest else None, by_name=any(by_name))
    if kind in (Any, object) or _is_record(kind):
        return call, lambda record: record
    get = _content("value", kind, what)
    return call, lambda record: get(record, None)


def _taking_list(handler: Handler, txn: str | None, *, by_name: bool) -> Handler:
    """Return a function that calls a handler of batches with a list and a transaction.

    ``txn`` is the handler's parameter for the transaction, or None if it has none. With ``by_name``, it is passed by
    name.
    """
    if txn is None:
        return lambda records, *_: handler(records)
    if by_name:
        return lambda records, transaction: handler(records, **{txn: transaction})
    return handler


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


def _parameters(handler: Handler, *, transactional: bool, model: Any) -> list[inspect.Parameter] | None:
    """Return the parameters that get an argument, with evaluated annotations. None if they are unknown.

    A parameter with a default gets an argument only if its name or annotation requests a part of the record. A
    parameter of any other name gets the value, if no other parameter gets the record or its value.
    """
    try:
        found = list(signature_of(handler).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in found):
        return None
    given = _given(handler)
    found = [each for each in found if each.kind is not inspect.Parameter.VAR_KEYWORD and each.name not in given]
    function = function_of(handler)
    found = [_with_annotation(each, function) for each in found]
    roles = {each.name: _role(each) for each in found}
    chosen = {
        each.name
        for each in found
        if each.default is _MISSING or (roles[each.name] is not None and (transactional or roles[each.name] != "txn"))
    }
    subjects = (None, "value", "record") if model is None else (None, "value")
    if all(roles[name] not in subjects for name in chosen):
        left = [each for each in found if each.name not in chosen and roles[each.name] is None]
        chosen.update(
            [each.name for each in left if not chosen or model is not None or not _is_free(each.annotation)][:1]
        )
    wanted: list[inspect.Parameter] = []
    for number, each in enumerate(found):
        if each.name in chosen:
            # After a parameter that keeps its default, pass arguments by name.
            kind = each.kind if len(wanted) == number else inspect.Parameter.KEYWORD_ONLY
            if kind is not each.kind and each.kind is inspect.Parameter.POSITIONAL_ONLY:
                raise ConfigTypeError(
                    f"handler {name_of(handler)}, parameter {each.name}: it is positional-only, but "
                    f"{found[number - 1].name} before it keeps its default"
                )
            wanted.append(each.replace(kind=kind, annotation=_evaluated(each, function)))
    return wanted


def _given(handler: Handler) -> Collection[str]:
    """Return the names of the keyword arguments that a partial object already has."""
    partial = inspect.unwrap(handler)
    return partial.keywords if isinstance(partial, functools.partial) else ()


def _with_annotation(parameter: inspect.Parameter, function: Any) -> inspect.Parameter:
    """Return the parameter with its annotation evaluated.

    An annotation that is defined only for type checkers stays text if the parameter has a default.
    """
    try:
        return parameter.replace(annotation=_evaluated(parameter, function))
    except ConfigTypeError:
        if parameter.default is _MISSING or parameter.name in NAMES:
            raise
        return parameter


def _check_call(handler: Handler, arguments: int) -> None:
    """Raise `ConfigTypeError` if the handler cannot be called with this number of arguments."""
    try:
        signature_of(handler).bind(*range(arguments))
    except ValueError:
        pass  # a builtin function without a signature
    except TypeError as error:
        given = "a record and a transaction" if arguments > 1 else "a record"
        hint = "" if arguments > 1 or not _accepts(handler, 2) else "; a transaction is passed only with exactly_once"
        raise ConfigTypeError(f"handler {name_of(handler)} cannot be called with {given}: {error}{hint}") from None


def _accepts(handler: Handler, arguments: int) -> bool:
    try:
        signature_of(handler).bind(*range(arguments))
    except TypeError:
        return False
    return True


def _evaluated(parameter: inspect.Parameter, function: Any) -> Any:
    """Return the parameter's annotation as an object, even if it was written as text.

    If it is defined only for type checkers and names a record or transaction, returns `_MISSING`. Raises
    `ConfigTypeError` for any other annotation that cannot be evaluated.
    """
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
        # A string within a string, because the module postpones the evaluation of annotations.
        while isinstance(found, str):
            found = eval(found, dict(names), scope)
        return found
    except Exception as error:
        if parameter.name in ("record", *_TXN) or annotation.split("[")[0].endswith(("Record", "Transaction")):
            return _MISSING
        raise ConfigTypeError(
            f"handler parameter {parameter.name}: its annotation {annotation!r} must exist at run time ({error})"
        ) from error


def _in_order(wanted: Sequence[inspect.Parameter]) -> bool:
    """Return True if the parameters take a record and optionally a transaction, in this order."""
    roles = [_role(each) for each in wanted]
    return all(map(_is_plain, wanted)) and (len(wanted) < 2 or (roles[0] != "txn" and roles[1] != "record"))


def _is_plain(parameter: inspect.Parameter) -> bool:
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        return False
    role = _role(parameter)
    return role in ("record", "txn") or (role is None and _is_free(parameter.annotation))


def _is_free(annotation: Any) -> bool:
    return annotation in (_MISSING, Any, object)


def _is_record(annotation: Any) -> bool:
    origin = typing.get_origin(annotation) or annotation
    return isinstance(origin, type) and issubclass(origin, AnyRecord)


def _is_transaction(annotation: Any) -> bool:
    origin = typing.get_origin(annotation) or annotation
    return isinstance(origin, type) and hasattr(origin, "send_offsets")


def _role(parameter: inspect.Parameter) -> str | None:
    """Return the argument that a parameter asks for: "record", "txn" or a name in `NAMES`.

    Returns None if only the annotation asks for the value.
    """
    kind, name = _kind(parameter.annotation), parameter.name
    if _is_record(kind) or (name == "record" and _is_free(kind)):
        return "record"
    if _is_transaction(kind) or (name in _TXN and _is_free(kind)):
        return "txn"
    if name in PARTS and not (_is_free(kind) or kind in (str, int)):
        return None
    return name if name in NAMES and name != "record" and name not in _TXN else None


def _kind(annotation: Any) -> Any:
    return unwrapped(without_none(unwrapped(annotation)))


def _getter(parameter: inspect.Parameter, role: str | None, what: str, transactional: bool, model: Any) -> Get:
    """Return a function that computes a parameter's argument from a record and a transaction.

    ``role`` is the result of `_role`, and ``what`` names the parameter in errors.
    """
    annotation, name, default = parameter.annotation, parameter.name, parameter.default
    if role == "record":
        return lambda record, txn: record
    if role == "txn":
        if not transactional:
            raise ConfigTypeError(f"{what}: a transaction requires exactly_once")
        return lambda record, txn: txn
    if role == "headers":
        return _headers(_kind(annotation), what)
    if role in PARTS:
        return lambda record, txn: getattr(record, name)
    if role == "key":
        return _content("key", annotation, what, default)
    if annotation is _MISSING and model is None and role is None:
        raise ConfigTypeError(f"{what}: annotate it, or name it record, value, key or headers")
    return _content("value", annotation if model is None else model, what, default)


def _content(part: str, annotation: Any, what: str, default: Any = _MISSING) -> Get:
    """Return the function that parses this part of the record. If there is a default, it replaces None."""
    get = _raw_part(part) if annotation is _MISSING else _parsed_part(part, annotation, what, or_none=default is None)
    if default is _MISSING:
        return get
    return lambda record, txn: default if getattr(record, part) is None else get(record, txn)


def _raw_part(part: str) -> Get:
    return lambda record, txn: getattr(record, part)


def _parsed_part(part: str, annotation: Any, what: str, *, or_none: bool) -> Get:
    parse = parser_for(typing.Optional[annotation] if or_none else annotation, what, of_key=part == "key")  # noqa: UP045
    wanted = name_of(annotation)
    of_value = part == "value"

    def get(record: Any, txn: Any) -> Any:
        try:
            return parse(record.value if of_value else record.key)
        except Exception as cause:
            text = f"the {part} of {place_of(record)} is not a valid {wanted}: {reason_of(cause)}"
            raise RecordDeserializationError(text, record=raw_record(record), part=part) from cause

    return get


def _headers(annotation: Any, what: str) -> Get:
    origin = typing.get_origin(annotation) or annotation
    if origin in (_MISSING, Any, object, tuple, list, Sequence):
        return lambda record, txn: record.headers
    if origin not in (dict, Mapping):
        raise ConfigTypeError(f"{what}: headers must be annotated as a tuple of pairs, or a dict")
    if str in typing.get_args(annotation)[1:]:
        return lambda record, txn: {name: (content or b"").decode(errors="replace") for name, content in record.headers}
    return lambda record, txn: dict(record.headers)

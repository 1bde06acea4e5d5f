"""Checks of options. A check is a function that takes the option's name and value and returns the value to store.

Every check raises `ConfigError` for an invalid value, and `ConfigTypeError` for a value of the wrong type. Both
messages begin with the name of the option. The last functions inspect functions of the application.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from .._values import Frozen
from ..errors import ConfigError, ConfigTypeError
from ..errors.base import without_frames

Check = Callable[[str, Any], Any]
_C = TypeVar("_C", bound="Checked")
_P = ParamSpec("_P")
_R = TypeVar("_R")

DEFAULT_PORT = 9092
INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class Checked(Frozen):
    """A frozen set of options, which are passed by keyword and checked together."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._check()

    def _check(self) -> None:
        """Check combinations of options. Subclasses override this. It is called when each option has been checked."""


class Secret(str):
    """The text of a secret option. ``repr`` does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def option(default: Any, check: Check, *, secret: bool = False) -> Any:
    """Declare a dataclass field with a default and a check.

    ``repr`` does not show secret fields (see `hide_secrets`).
    """
    return dataclasses.field(default=default, repr=not secret, metadata={"check": check})


def build(cls: type[_C], given: Mapping[str, Any]) -> _C:
    """Return an instance of the frozen dataclass ``cls`` with the given options, after checking them."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for name in given:
        if name not in fields:
            import difflib

            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConfigTypeError(f"{name} is not an option of this client{hint}")
    checked = {}
    for name, field in fields.items():
        if name in given:
            checked[name] = field.metadata["check"](name, given[name])
        elif field.default is dataclasses.MISSING:
            raise ConfigTypeError(f"{name} is required")
    return cls(**checked)


def hide_secrets(cls: type[Checked], given: Mapping[str, Any]) -> None:
    """Replace the texts of secret options in the dict by `Secret`, because tracebacks show arguments.

    Texts of unknown options are replaced as well, because an unknown name may be a misspelt secret option.
    """
    if isinstance(given, dict):
        public = {field.name for field in dataclasses.fields(cls) if field.repr}
        for name in given.keys() - public:
            given[name] = hidden(given[name])


def hidden(value: Any) -> Any:
    """Return the value with every text in it replaced by a `Secret`."""
    if type(value) is str:
        return Secret(value)
    if type(value) in (list, tuple):
        return type(value)(map(hidden, value))
    return {name: hidden(inner) for name, inner in value.items()} if type(value) is dict else value


def discreet(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap a constructor or similar function, so that the frames of its option errors contain no arguments.

    Error collectors store the variables of all frames that an error has passed through.
    """

    @functools.wraps(call)
    def construct(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return call(*args, **kwargs)
        except (ConfigError, ConfigTypeError) as error:
            del args, kwargs
            raise without_frames(error)  # noqa: B904

    return construct


def integer(low: int, high: int = INT32_MAX) -> Check:
    """Return a check for an integer from ``low`` to ``high``."""

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigTypeError(f"{name} must be an int, not {type(value).__name__}")
        if not low <= value <= high:
            raise ConfigError(f"{name} must be from {low} to {high}, not {value}")
        return value

    return check


def milliseconds(low: float = 0, high: float = INT64_MAX) -> Check:
    """Return a check for milliseconds from ``low`` to ``high``. `INT32_MAX` is for requests with 32-bit fields."""
    return _time("milliseconds", low, high)


def _time(unit: str, low: float, high: float = INT64_MAX) -> Check:
    def check(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigTypeError(f"{name} must be a number of {unit}, not {type(value).__name__}")
        if not low <= value or value == math.inf:
            raise ConfigError(f"{name} must be a finite number of {unit}, at least {low}, not {value}")
        if value > high:
            raise ConfigError(f"{name} must be at most {high} {unit}, not {value}")
        return value

    return check


def number(low: float, high: float) -> Check:
    """Return a check for a number from ``low`` to ``high``."""

    def check(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ConfigTypeError(f"{name} must be a number, not {type(value).__name__}")
        if not low <= value <= high:
            raise ConfigError(f"{name} must be from {low:g} to {high:g}, not {value}")
        return value

    return check


seconds = _time("seconds", 0)
"""Check of a finite number of seconds."""


def boolean(name: str, value: Any) -> bool:
    """Return True or False. Other values are refused, even if they are truthy or falsy."""
    if not isinstance(value, bool):
        raise ConfigTypeError(f"{name} must be True or False, not {type(value).__name__}")
    return value


def one_of(*allowed: object) -> Check:
    """Return a check for one of the listed values."""

    def check(name: str, value: Any) -> Any:
        for choice in allowed:
            if value == choice and type(value) is type(choice):
                return value
        raise ConfigError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")

    return check


def text(name: str, value: Any) -> str:
    """Check that a value is a string and not empty, and return it."""
    if not isinstance(value, str):
        raise ConfigTypeError(f"{name} must be a str, not {type(value).__name__}")
    if not value:
        raise ConfigError(f"{name} must not be empty")
    return encodable(name, value)


def encodable(name: str, value: str) -> str:
    """Return a string that UTF-8 can encode, that is, one without lone surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{name} must be text that UTF-8 can encode, not {value!r}") from None
    return value


def short_text(name: str, value: Any) -> str:
    """Return a non-empty string that fits the Kafka protocol, in which its length in UTF-8 is an int16."""
    checked = text(name, value)
    size = len(checked.encode())
    if size > INT16_MAX:
        raise ConfigError(f"{name} must be at most {INT16_MAX} bytes in UTF-8, not {size}")
    return checked


def path(name: str, value: Any) -> str:
    """Return a path given as a str or `os.PathLike`."""
    return text(name, os.fspath(value) if isinstance(value, os.PathLike) else value)


def instance(kind: type, called: str) -> Check:
    """Return a check for an instance of a class. ``called`` describes the class in the error."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise ConfigTypeError(f"{name} must be {called}, not {type(value).__name__}")
        return value

    return check


def function(name: str, value: Any) -> Any:
    """Return the value if it is callable."""
    if not callable(value):
        raise ConfigTypeError(f"{name} must be callable, not {type(value).__name__}")
    return value


def optional(inner: Check) -> Check:
    """Return a check for None or for a value that ``inner`` accepts."""

    def check(name: str, value: Any) -> Any:
        return None if value is None else inner(name, value)

    return check


_PROXIES = ("http", "socks4", "socks5")
_SERVER = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\[\]:/\s]+))(?::(?P<port>[0-9]{1,5}))?")


def no_options(name: str, value: Any) -> None:
    """Refuse a dict of options, which confluent-kafka accepts. The error shows the keyword arguments to use instead."""
    if isinstance(value, Mapping):
        raise ConfigTypeError(f"{name} must be str, not a dict; pass {as_keywords(value)}")


def as_keywords(options: Iterable[Any]) -> str:
    """Return the keyword arguments for options with Kafka's names, for an error message."""
    names = ", ".join(f"{str(name).replace('.', '_')}=..." for name in options)
    return f"keyword arguments: {names}"


def servers(name: str, value: Any) -> tuple[tuple[str, int], ...]:
    """Parse ``"host:port,host2"``, or an iterable of such strings.

    The default port is 9092, and IPv6 needs brackets.
    """
    no_options(name, value)
    if isinstance(value, str):
        items: Iterable[Any] = value.split(",")
    elif isinstance(value, Iterable) and not isinstance(value, (bytes, bytearray)):
        items = [part for item in value for part in (item.split(",") if isinstance(item, str) else (item,))]
    else:
        raise ConfigTypeError(f"{name} must be a str or a list of str, not {type(value).__name__}")
    found: dict[tuple[str, int], None] = {}
    for item in items:
        if not isinstance(item, str):
            raise ConfigTypeError(f"{name} must contain str, not {type(item).__name__}")
        server = item.strip()
        if not server:
            continue
        if "@" in server:
            raise ConfigError(f"{name} must be host:port without credentials: use the sasl_* options")
        if "://" in server:
            raise ConfigError(f"{name} must be host:port, not {server!r}: set the protocol with security_protocol")
        match = _SERVER.fullmatch(server)
        port = int(match["port"] or DEFAULT_PORT) if match else 0
        if match is None or not 1 <= port <= 65535:
            raise ConfigError(f"{name} must be like 'host:9092' or '[::1]:9092', not {server!r}")
        found[match["ipv6"] or match["host"], port] = None
    if not found:
        raise ConfigError(f"{name} must not be empty")
    return tuple(found)


def proxy_url(name: str, value: Any) -> Secret:
    """Check the URL of a proxy. Errors do not show the URL, which may contain a password."""
    from importlib.util import find_spec  # imported here, like urllib, because few users have a proxy

    if not isinstance(value, str):
        raise ConfigTypeError(f"{name} must be a str, not {type(value).__name__}")
    if not _names_a_proxy(value):
        kinds = ", ".join(f"{scheme}://" for scheme in _PROXIES)
        raise ConfigError(f"{name} must be one of {kinds} with host and port, as in socks5://user:password@host:1080")
    limits = _limits_of_logins(value)
    if limits is not None:
        raise ConfigError(f"{name}: {limits}")
    if find_spec("python_socks") is None:
        raise ConfigError(f"{name} needs python-socks: pip install 'aiokafka-lead[proxy]'")
    return Secret(value)


def _limits_of_logins(url: str) -> str | None:
    """Return the rule that the URL's user name or password violates, or None."""
    from urllib.parse import unquote, urlsplit

    split = urlsplit(url)
    user, password = unquote(split.username or ""), unquote(split.password or "")
    if split.scheme == "socks4" and password:
        return "SOCKS4 supports a user name, but no password"
    if split.scheme == "socks5" and (user or password):
        fits = all(text.isascii() and 1 <= len(text) <= 255 for text in (user, password))
        return None if fits else "SOCKS5 needs a user name and a password, each of 1 to 255 ASCII characters"
    return "the user name of a proxy must not contain a colon" if split.scheme == "http" and ":" in user else None


def _names_a_proxy(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        split = urlsplit(url)
        named = bool(url.encode() and split.hostname and split.port)
    except ValueError:  # also raised for bytes from the environment that are not UTF-8
        return False
    return named and split.scheme in _PROXIES and not (split.path.strip("/") or split.query or split.fragment)


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

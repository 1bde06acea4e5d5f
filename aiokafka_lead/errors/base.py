"""Base classes of all errors, and of errors that brokers return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from .shown import one_line

__all__ = [
    "BrokerError",
    "InvalidMetadataError",
    "KafkaError",
    "KafkaTimeoutError",
    "RetriableBrokerError",
    "UnknownServerError",
    "error_for_code",
    "raise_for_code",
]

E = TypeVar("E", bound=BaseException)


class KafkaError(Exception):
    """Base class of this client's errors.

    - ``code``: the protocol's error code, or -1 if no broker returned one.
    - ``retriable``: True if the same call may succeed later.
    - ``broker``: the broker that was tried, as ``"1 (host:9092)"``, or None.
    - ``api``: the name of the request that got no response, or None.
    - ``collateral``: True for a record that was not written because brokers rejected other records of its batch. The
      errors of the rejected records contain the reason.
    - ``outcomes``: for an admin call for several items, a dict with the result or the error of each item. Otherwise
      None.
    """

    code: ClassVar[int] = -1
    retriable: bool = False
    refreshes_metadata: ClassVar[bool] = False
    api: str | None = None
    collateral: bool = False
    outcomes: Mapping[Any, Any] | None = None
    """The value or the error of each item, for an admin call for several items. None for other calls."""

    def __init__(self, message: str = "", *, broker: str | None = None) -> None:
        text = one_line(message or (type(self).__doc__ or type(self).__name__).partition("\n")[0])
        super().__init__(text if broker is None else f"{text} [broker {broker}]")
        self.message = text
        self.broker = broker

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes, regardless of the arguments of the constructor.

        Errors are passed between processes, for example by multiprocessing and Spark.
        """
        return _restored, (_name_of(type(self)), self.args), vars(self)


class KafkaTimeoutError(KafkaError):
    """Base class of timeout errors; each subclass names the operation."""


def without_frames(error: E) -> E:
    """Remove the tracebacks of an error and its causes, so that the error can be kept, and return it.

    A traceback keeps the local variables of every frame alive, for example a half-decompressed batch.
    """
    rest: list[BaseException | None] = [error]
    seen = set()
    while rest:
        link = rest.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            link.__traceback__ = None
            rest += (link.__cause__, link.__context__)
    return error


def _name_of(kind: type[KafkaError]) -> type[KafkaError] | int:
    """Return the class, or its code if `error_for_code` created it."""
    return kind.code if UnknownServerError in kind.__bases__ else kind


def _restored(kind: type[KafkaError] | int, args: tuple[Any, ...]) -> KafkaError:
    cls = error_for_code(kind) if isinstance(kind, int) else kind
    return cls.__new__(cls, *args)


def own_copy(error: E) -> E:
    """Return a copy of a stored error for raising, so that the stored error does not collect tracebacks."""
    own = type(error).__new__(type(error), *error.args)
    own.__dict__.update(error.__dict__)
    if "__notes__" in own.__dict__:
        own.__notes__ = list(error.__notes__)
    if error.__cause__ is not None:
        own.__cause__ = error.__cause__
    return own


class BrokerError(KafkaError):
    """A broker returned an error code; ``code`` is its number."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in cls.__dict__:
            _BY_CODE.setdefault(cls.code, cls)


_BY_CODE: dict[int, type[BrokerError]] = {}


class RetriableBrokerError(BrokerError):
    """A broker error after which the same request may succeed later (Java: ``RetriableException``)."""

    retriable = True


class InvalidMetadataError(RetriableBrokerError):
    """A broker error that may indicate stale metadata in the client (Java: ``InvalidMetadataException``).

    The client requests new metadata and retries automatically.
    """

    refreshes_metadata = True


class UnknownServerError(BrokerError):
    """The broker failed without an explanation."""

    code = -1


def error_for_code(code: int) -> type[BrokerError]:
    """Return the class of a broker's error code.

    For a code that this client does not know, returns a new subclass of `UnknownServerError`, which keeps the number as
    ``code``.
    """
    known = _BY_CODE.get(code)
    if known is None:
        text = f"The broker answered with error code {code}, which this client does not know."
        known = type(f"UnknownError{code}", (UnknownServerError,), {"code": code, "__doc__": text})
    return known


def raise_for_code(code: int, message: str = "", broker: str | None = None) -> None:
    """Raise the error for ``code`` unless it is 0 (no error). ``message`` is the broker's text, if it sent one."""
    if code != 0:
        raise error_for_code(code)(message, broker=broker)

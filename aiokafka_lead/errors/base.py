"""The root of all errors, and what those that brokers answer with have in common."""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "BrokerError",
    "InvalidMetadataError",
    "KafkaError",
    "RetriableBrokerError",
    "UnknownServerError",
    "error_for_code",
    "raise_for_code",
]


class KafkaError(Exception):
    """The root of this client's errors.

    ``code`` is the protocol's error code, or -1 where no broker was asked. ``broker`` names the broker that was tried
    as ``"1 (host:9092)"``, or is None.
    """

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    refreshes_metadata: ClassVar[bool] = False

    def __init__(self, message: str = "", *, broker: str | None = None) -> None:
        text = message or (type(self).__doc__ or type(self).__name__).partition("\n")[0]
        super().__init__(text if broker is None else f"{text} [broker {broker}]")
        self.message = text
        self.broker = broker


class BrokerError(KafkaError):
    """A broker answered with an error code; ``code`` is its number."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in cls.__dict__:
            _BY_CODE.setdefault(cls.code, cls)


_BY_CODE: dict[int, type[BrokerError]] = {}


class RetriableBrokerError(BrokerError):
    """A broker's answer after which the same request may succeed (Java: ``RetriableException``)."""

    retriable = True


class InvalidMetadataError(RetriableBrokerError):
    """A broker's answer which shows that the client's metadata is stale (Java: ``InvalidMetadataException``)."""

    refreshes_metadata = True


class UnknownServerError(BrokerError):
    """The broker failed in a way that it does not explain."""

    code = -1


def error_for_code(code: int) -> type[BrokerError]:
    """The class for a broker's error code.

    A code that this client does not know gets a class of its own below `UnknownServerError`, which keeps the number.
    """
    known = _BY_CODE.get(code)
    if known is None:
        text = f"The broker answered with error code {code}, which this client does not know."
        known = type(f"UnknownError{code}", (UnknownServerError,), {"code": code, "__doc__": text})
    return known


def raise_for_code(code: int, message: str = "", broker: str | None = None) -> None:
    """Raises the error for ``code``, unless that is 0: no error. ``message`` is the broker's own, where it sent one."""
    if code != 0:
        raise error_for_code(code)(message, broker=broker)

"""What goes wrong with schemas, and with the registry that holds them."""

from __future__ import annotations

from collections.abc import Sequence

from .base import KafkaError

__all__ = [
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "SchemaContentError",
    "SchemaNotFoundError",
    "SchemaNotReadyError",
    "SchemaRegistryAuthenticationError",
    "SchemaRegistryError",
    "SchemaRegistryUnavailableError",
]


class SchemaRegistryError(KafkaError):
    """The schema registry refused a request.

    ``status`` is HTTP's, ``error_code`` the registry's own, where it gave one.
    """

    at_fault: bool = True
    """The registry, or what is between, is at fault, and not the schema or record: that may be good, and can wait."""

    def __init__(self, message: str = "", *, status: int | None = None, error_code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


class SchemaRegistryUnavailableError(SchemaRegistryError):
    """No registry answered within the time, or none that could: the same call may succeed later."""

    retriable = True


class SchemaRegistryAuthenticationError(SchemaRegistryError):
    """The registry does not know, or does not admit, whom the client's name and secret, token or certificate name."""


class SchemaNotFoundError(SchemaRegistryError):
    """The registry has no such schema, subject or version."""

    at_fault = False


class IncompatibleSchemaError(SchemaRegistryError):
    """The schema does not go with those before it in its subject (the subject's compatibility level).

    ``reasons`` are the registry's, where it gave some.
    """

    at_fault = False

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        error_code: int | None = None,
        reasons: Sequence[str] = (),
    ) -> None:
        super().__init__(message, status=status, error_code=error_code)
        self.reasons = tuple(reasons)


class InvalidSchemaError(SchemaRegistryError, ValueError):
    """This is no schema of its kind: the registry says so, or it was found here."""

    at_fault = False


class SchemaNotReadyError(KafkaError, RuntimeError):
    """A serializer or deserializer was called without being awaited first, for what needs the registry."""


class SchemaContentError(KafkaError, ValueError):
    """A value does not fit the schema, or bytes are not what it describes."""

    schema_id: int | str | None = None
    """Of bytes: the id, or the GUID, of the schema that they name."""

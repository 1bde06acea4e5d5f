"""Errors of schemas and of the registry that stores them."""

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
    "SchemaRulesError",
]


class SchemaRegistryError(KafkaError):
    """The schema registry refused a request.

    ``status`` is the HTTP status, ``error_code`` the registry's code, if it sent one.
    """

    at_fault: bool = True
    """True if the registry or the network failed, rather than the schema or record, which may be valid."""

    def __init__(self, message: str = "", *, status: int | None = None, error_code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


class SchemaRegistryUnavailableError(SchemaRegistryError):
    """No registry gave a usable answer within the time: the same call may succeed later."""

    retriable = True


class SchemaRegistryAuthenticationError(SchemaRegistryError):
    """The registry rejected the client's user name and secret, token or certificate."""


class SchemaNotFoundError(SchemaRegistryError):
    """The registry has no such schema, subject or version."""

    at_fault = False


class IncompatibleSchemaError(SchemaRegistryError):
    """The schema is incompatible with earlier ones of its subject, by the subject's compatibility level.

    ``reasons`` are the registry's, if it sent any.
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
    """The schema is invalid, by the registry or by a check of this client."""

    at_fault = False


class SchemaRulesError(SchemaRegistryError):
    """The schema has rules that this client cannot apply, for example field encryption.

    It does not become a record's fault: records wait, as for a registry that refuses the client.
    """


class SchemaNotReadyError(KafkaError, RuntimeError):
    """A serializer or deserializer that needs the registry was called without being awaited first."""


class SchemaContentError(KafkaError, ValueError):
    """A value does not fit the schema, or bytes do not match their schema."""

    schema_id: int | str | None = None
    """The id or GUID of the schema that the bytes name."""

    def __init__(self, message: str = "", quoting: str = "") -> None:
        """Append ``quoting``, which may repeat a part of the value, to the message."""
        super().__init__(f"{message}: {quoting}" if quoting else message)
        self.unquoted = message
        """The message without any part of the value, for logs."""

"""Texts and exit codes of failures."""

from __future__ import annotations

from enum import IntEnum

from ..errors import (
    ClusterAuthorizationFailedError,
    ConfigError,
    ConfigTypeError,
    DelegationTokenAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    SchemaRegistryAuthenticationError,
    SchemaRegistryUnavailableError,
    SslAuthenticationError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)


class ExitCode(IntEnum):
    """Exit codes for scripts."""

    DONE = 0
    FAILED = 1
    """The cluster refused, an item failed, or `doctor` found a problem."""
    USAGE = 2
    UNREACHABLE = 3
    """No broker or no schema registry could be reached, or none answered in time."""
    REFUSED = 4
    """TLS or SASL failed, this user lacks permission, or the schema registry refuses the user."""
    LAG = 5
    """A group has more lag than `groups lag --fail-above` allows."""
    INTERRUPTED = 130
    """Ctrl-C; SIGTERM gives 143, SIGHUP 129."""


class Failed(Exception):
    """A command failed to do its work; the text describes it, or it was already reported."""

    def __init__(self, text: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(text)
        self.code = code


_REFUSED = (
    ClusterAuthorizationFailedError,
    DelegationTokenAuthorizationFailedError,
    GroupAuthorizationFailedError,
    SaslAuthenticationFailedError,
    SchemaRegistryAuthenticationError,
    SslAuthenticationError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
_UNREACHABLE = (KafkaConnectionError, RequestTimedOutError, SchemaRegistryUnavailableError)


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code for an error."""
    if isinstance(error, Failed):
        return error.code
    if isinstance(error, (ConfigError, ConfigTypeError, UnicodeEncodeError)):
        return ExitCode.USAGE
    if isinstance(error, _REFUSED):
        return ExitCode.REFUSED
    if isinstance(error, _UNREACHABLE):
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED


def sentence(error: BaseException) -> str:
    """Return an error's text: its kind, its message, and its notes."""
    if isinstance(error, UnicodeEncodeError):  # names from the command line, whose bytes may be anything
        return f"{error.object!r} is not text in UTF-8"
    text = str(error) or type(error).__name__
    if isinstance(error, KafkaError) and not isinstance(error, (ConfigError, ConfigTypeError)):
        text = f"{type(error).__name__}: {text}"
    return with_notes(text, error)


def with_notes(text: str, error: BaseException) -> str:
    """Return a text about an error, with the error's notes."""
    return "\n".join([text, *getattr(error, "__notes__", ())])


def single(error: BaseException) -> BaseException:
    """Return the first error of task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

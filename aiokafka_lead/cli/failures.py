"""Error texts and exit codes of the program."""

from __future__ import annotations

from enum import IntEnum

from .. import errors


class ExitCode(IntEnum):
    """The exit codes of the program, which scripts can test."""

    DONE = 0
    FAILED = 1
    """The cluster refused a request, an item failed, or `doctor` found a problem."""
    USAGE = 2
    UNREACHABLE = 3
    """No broker or no schema registry could be reached, or none answered in time."""
    REFUSED = 4
    """TLS or SASL failed, the user is not authorized, or the schema registry refused the user."""
    LAG = 5
    """A group has more lag than `groups lag --fail-above` allows."""
    INTERRUPTED = 130
    """Ended by Ctrl-C. The code is 143 for SIGTERM, and 129 for SIGHUP."""


class Failed(Exception):
    """A command failed. The text describes the failure, and is empty if the failure was already reported."""

    def __init__(self, text: str = "", code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(text)
        self.code = code


_REFUSED = (
    errors.ClusterAuthorizationFailedError,
    errors.DelegationTokenAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.SaslAuthenticationFailedError,
    errors.SchemaRegistryAuthenticationError,
    errors.SslAuthenticationError,
    errors.TopicAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailedError,
    errors.UnsupportedSaslMechanismError,
)
_UNREACHABLE = (errors.KafkaConnectionError, errors.RequestTimedOutError, errors.SchemaRegistryUnavailableError)


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code for an error."""
    if isinstance(error, Failed):
        return error.code
    if isinstance(error, (errors.ConfigError, errors.ConfigTypeError, UnicodeEncodeError)):
        return ExitCode.USAGE
    if isinstance(error, _REFUSED):
        return ExitCode.REFUSED
    if isinstance(error, _UNREACHABLE):
        return ExitCode.UNREACHABLE
    return ExitCode.FAILED


def sentence(error: BaseException) -> str:
    """Return the text of an error: its class if it is a `KafkaError`, its message, and its notes."""
    if isinstance(error, UnicodeEncodeError):  # command-line arguments may contain any bytes
        return f"{error.object!r} is not valid UTF-8"
    text = str(error) or type(error).__name__
    if isinstance(error, errors.KafkaError) and not isinstance(error, (errors.ConfigError, errors.ConfigTypeError)):
        text = f"{type(error).__name__}: {text}"
    return with_notes(text, error)


def with_notes(text: str, error: BaseException) -> str:
    """Return the text followed by the error's notes, each on its own line."""
    return "\n".join([text, *getattr(error, "__notes__", ())])


def single(error: BaseException) -> BaseException:
    """Return the first error in nested exception groups, or the error if it is not a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

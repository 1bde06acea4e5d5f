"""Defaults and checks of the options in `config.run`, and the verdict on a record whose handler has failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

from ..._options import checks
from ..._options.arguments import topic_name
from ..._values import NamedTuple
from ...config.run import Order
from ...errors import ConfigError, ConfigTypeError, DropRecordError, PermanentError, RecordDeserializationError

_DELAY = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

Fate = Literal["retry", "later", "dead_letter", "skip", "drop", "reject", "raise"]
"""Possible decisions about a record whose handler has raised an exception.

- "retry": the record is handled again.
- "later": it waits in a retry topic.
- "dead_letter": it is sent to the dead-letter topic.
- "skip": it counts as done, because it cannot be read.
- "drop": it counts as done, because its handler has dropped it.
- "reject": it is rejected in a share group.
- "raise": it ends the run.
"""


class Delay(NamedTuple):
    """The delay of a retry topic: the text that the application passed, and its value in milliseconds."""

    text: str
    """The delay as written in the topic's name."""
    ms: int


class Verdict(NamedTuple):
    """The decision about a record whose handler has raised an exception."""

    fate: Fate
    delay: Delay | None = None
    """The delay of the retry topic in which the record waits."""
    behind: str | None = None
    """The retry topic in which the record waits behind an earlier record of its key, without having been handled."""
    wait_s: float | None = None
    """Seconds until the record is handled again after an outage of a schema registry. None means its backoff."""
    failure: Exception | None = None
    """The error that ends the run."""


def leaves(error: BaseException) -> list[BaseException]:
    """Return the exceptions of a group and of groups in it, such as those that a task group raises.

    For any other exception, returns a list with this exception.
    """
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in leaves(each)]


def dead_letter_producer(name: str, value: Any) -> Any:
    """Check that the value has the methods of `Producer` that dead letters need, and return it."""
    if not all(callable(getattr(value, method, None)) for method in ("partitions_for", "send")):
        raise ConfigTypeError(f"{name} must be a Producer, not {type(value).__name__}")
    return value


def exception_types(name: str, value: Any) -> tuple[type[BaseException], ...]:
    """Check an exception class, or a tuple of them, and return a tuple."""
    found = value if isinstance(value, tuple) else (value,)
    for each in found:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise ConfigTypeError(f"{name} must be exception classes, not {each!r}")
    return found


def delays(name: str, value: Any) -> tuple[Delay, ...]:
    """Parse a list of delays such as "10s", "1m" or "2h". Raises `ConfigError` for a duplicate."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigTypeError(f'{name} must be a list of delays such as ["10s", "1m"], not {value!r}')
    found: list[Delay] = []
    for written in value:
        match = _DELAY.fullmatch(written) if isinstance(written, str) else None
        if match is None:
            raise ConfigError(f'{name} must contain delays such as "10s", "1m" or "2h", not {written!r}')
        found.append(Delay(written, int(match[1]) * _UNITS_MS[match[2]]))
    if len({delay.text for delay in found}) < len(found):
        raise ConfigError(f"{name} must not contain a delay twice: each delay has a separate topic")
    return tuple(found)


class HandlingConfig(checks.Checked):
    """The checked options of `HandlingOptions`, and two that each type of consumer defines."""

    concurrency: int = checks.option(64, checks.integer(1))
    retries: int = checks.option(3, checks.integer(0))
    retry_backoff_ms: float = checks.option(100, checks.milliseconds())
    retry_backoff_max_ms: float = checks.option(10_000, checks.milliseconds())
    handler_timeout_ms: float | None = checks.option(None, checks.optional(checks.milliseconds(1)))
    slow_handler_ms: float = checks.option(30_000, checks.milliseconds(1))
    retry_on: tuple[type[BaseException], ...] | None = checks.option(None, checks.optional(exception_types))
    dead_letter_topic: str | None = checks.option(None, checks.optional(topic_name))
    on_bad_record: Literal["raise", "skip", "dead_letter"] | None = checks.option(
        None, checks.optional(checks.one_of("raise", "skip", "dead_letter"))
    )
    dead_letter_producer: Any = checks.option(None, checks.optional(dead_letter_producer))
    refusal_patience_ms: float = checks.option(0, checks.milliseconds())
    registry_patience_ms: float | None = checks.option(None, checks.optional(checks.milliseconds()))
    stop_on_signals: bool = checks.option(False, checks.boolean)
    health_port: int | None = checks.option(None, checks.optional(checks.integer(1, 65_535)))
    health_host: str | None = checks.option(None, checks.optional(checks.text))

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Check the options. Raises `ConfigError` or `ConfigTypeError`."""
        return checks.build(cls, options)

    @property
    def attended(self) -> bool:
        """True if the run must respond to signals, or to probes on a port."""
        return self.stop_on_signals or self.health_port is not None

    def verdict(self, error: BaseException, attempts: int, delays: int = 0) -> Verdict:
        """Return the decision about a record whose handler has raised this exception in its ``attempts``-th attempt.

        ``delays`` is the number of retry topics in which the record has waited because of its own failures. If
        ``retry_delay`` raises an exception, it becomes the ``failure``.
        """
        if isinstance(error, RecordDeserializationError):
            return Verdict(self._unreadable)
        raised = leaves(error)
        if all(isinstance(each, DropRecordError) for each in raised):
            return Verdict("drop")
        if not any(isinstance(each, PermanentError) for each in raised) and self._may_help(error, raised):
            if attempts <= self.retries:
                return Verdict("retry")
            try:
                delay = self._delay(error, attempts, delays)
            except Exception as failed:
                return Verdict("raise", failure=failed)
            if delay is not None:
                return Verdict("later", delay)
        return self.given_up

    @property
    def given_up(self) -> Verdict:
        """The decision about a record that is given up, for example because it has no retries left."""
        return Verdict(self._given_up)

    def _delay(self, error: BaseException, attempts: int, delays: int) -> Delay | None:
        """Return the delay of the retry topic in which the record waits next, or None if it waits in none."""
        return None

    def _may_help(self, error: BaseException, raised: Sequence[BaseException]) -> bool:
        """Return True if ``retry_on`` allows a retry, as it does by default.

        It must contain the class of the exception or, for a group, of every exception in it (``raised``).
        """
        wanted = self.retry_on
        return wanted is None or isinstance(error, wanted) or all(isinstance(each, wanted) for each in raised)

    @property
    def _unreadable(self) -> Fate:
        return self._given_up if self.on_bad_record is None else self.on_bad_record

    @property
    def _given_up(self) -> Fate:
        return "raise" if self.dead_letter_topic is None else "dead_letter"

    def _check(self) -> None:
        if self.health_host is not None and self.health_port is None:
            raise ConfigError("health_host needs a health_port")
        if self.on_bad_record == "dead_letter" and self.dead_letter_topic is None:
            raise ConfigError('on_bad_record="dead_letter" needs a dead_letter_topic')
        if self.dead_letter_producer is not None and self.dead_letter_topic is None:
            raise ConfigError("dead_letter_producer needs a dead_letter_topic")
        if self.retry_backoff_ms > self.retry_backoff_max_ms:
            raise ConfigError(
                f"retry_backoff_ms must not be more than retry_backoff_max_ms ({self.retry_backoff_max_ms})"
            )


class RunConfig(HandlingConfig):
    """The checked options of `RunOptions`."""

    order: Order = checks.option("key", checks.one_of("key", "partition", "none"))
    max_in_hand: int = checks.option(10_000, checks.integer(1))
    max_in_hand_bytes: int = checks.option(64 * 1024 * 1024, checks.integer(1))
    max_transaction_records: int = checks.option(1_000, checks.integer(1))
    max_transaction_ms: float = checks.option(100, checks.milliseconds(1))
    transaction_retries: int = checks.option(10, checks.integer(0))
    retry_topics: tuple[Delay, ...] = checks.option((), delays)
    retry_delay: Callable[[int, BaseException], str | None] | None = checks.option(
        None, checks.optional(checks.function)
    )
    retry_share: float = checks.option(0.3, checks.number(0, 1))
    retry_order: Literal["none", "key"] = checks.option("none", checks.one_of("none", "key"))

    def _delay(self, error: BaseException, attempts: int, delays: int) -> Delay | None:
        if self.retry_delay is None:
            return self.retry_topics[delays] if delays < len(self.retry_topics) else None
        chosen = self.retry_delay(attempts, error)
        for delay in self.retry_topics:
            if delay.text == chosen:
                return delay
        if chosen is not None:
            raise ConfigError(f"retry_delay must return one of retry_topics, or None, not {chosen!r}")
        return None

    def _check(self) -> None:
        super()._check()
        if self.retry_delay is not None and not self.retry_topics:
            raise ConfigError("retry_delay needs retry_topics")
        if self.retry_order == "key" and not (self.retry_topics and self.order == "key"):
            raise ConfigError('retry_order="key" needs retry_topics, and order="key"')


class ShareRunConfig(HandlingConfig):
    """The options of `ShareRunOptions` after they were checked."""

    renew_locks: bool = checks.option(True, checks.boolean)

    @property
    def _unreadable(self) -> Fate:
        return "reject" if self.on_bad_record == "skip" else super()._unreadable

    @property
    def _given_up(self) -> Fate:
        return "reject" if self.dead_letter_topic is None else "dead_letter"

"""The options of `Consumer.run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from ..._options.arguments import topic_name
from ..._options.checks import Checked, build, integer, milliseconds, one_of, option, optional
from ...errors import ConfigError, ConfigTypeError
from .dead_letter import DeadLetterProducer

__all__ = ["Order", "RunConfig", "RunOptions"]

Order = Literal["key", "partition", "none"]


class RunOptions(TypedDict, total=False):
    """How `Consumer.run` hands records to its handler. Times are in milliseconds."""

    concurrency: int
    """How many handlers may run at once (64)."""
    order: Order
    """Which records wait for each other (``"key"``): those of one key in one partition, in the order of their offsets
    (records without a key wait for nobody); all of one partition; or none."""
    max_in_hand: int
    """Records taken and not finished yet, over all partitions (10000); one partition's share of it also is how far it
    may run ahead of its first record that is not finished."""
    max_in_hand_bytes: int
    """About the most bytes that their keys and values take (64 MiB)."""
    retries: int
    """How often a record is handled again after its handler has raised (3)."""
    retry_backoff_ms: float
    """The wait before a record's first retry; doubles each time, with jitter (100)."""
    retry_backoff_max_ms: float
    """The longest such wait (10000)."""
    dead_letter_topic: str | None
    """Where records go whose retries are used up, or which cannot be deserialized: with their bytes as they were, and
    the cause in headers (see `DEAD_LETTER_HEADERS`). None ends `run` with an error instead (None)."""
    dead_letter_producer: DeadLetterProducer | None
    """A started `Producer` to send dead letters through, without serializers, as they are bytes; None makes one that
    connects as the consumer does (None)."""
    max_transaction_records: int
    """With ``exactly_once``: after how many records a transaction is committed (1000)."""
    max_transaction_ms: float
    """With ``exactly_once``: after how long a transaction takes no more records, and is committed when those that it
    has are handled (100)."""
    transaction_retries: int
    """With ``exactly_once``: how often in a row records are handled again because their transaction was aborted, though
    no handler has failed (10). The waits between are those of ``retry_backoff_ms``."""


def _producer(name: str, value: Any) -> Any:
    """Anything with the methods of `Producer` that dead letters need."""
    if not all(callable(getattr(value, method, None)) for method in ("partitions_for", "send_and_wait")):
        raise ConfigTypeError(f"{name} must be a Producer, not {type(value).__name__}")
    return value


@dataclass(init=False, repr=False, eq=False)
class RunConfig(Checked):
    """The options of `RunOptions`, checked."""

    concurrency: int = option(64, integer(1))
    order: Order = option("key", one_of("key", "partition", "none"))
    max_in_hand: int = option(10_000, integer(1))
    max_in_hand_bytes: int = option(64 * 1024 * 1024, integer(1))
    retries: int = option(3, integer(0))
    retry_backoff_ms: float = option(100, milliseconds())
    retry_backoff_max_ms: float = option(10_000, milliseconds())
    dead_letter_topic: str | None = option(None, optional(topic_name))
    dead_letter_producer: Any = option(None, optional(_producer))
    max_transaction_records: int = option(1_000, integer(1))
    max_transaction_ms: float = option(100, milliseconds(1))
    transaction_retries: int = option(10, integer(0))

    @classmethod
    def from_options(cls, options: RunOptions) -> RunConfig:
        """Check the options; raises `ConfigError` or `ConfigTypeError`."""
        return build(cls, options)

    def _check(self) -> None:
        """Check what two options say together."""
        if self.dead_letter_producer is not None and self.dead_letter_topic is None:
            raise ConfigError("dead_letter_producer needs a dead_letter_topic")
        if self.retry_backoff_ms > self.retry_backoff_max_ms:
            raise ConfigError(
                f"retry_backoff_ms must not be more than retry_backoff_max_ms ({self.retry_backoff_max_ms})"
            )

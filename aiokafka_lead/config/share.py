"""The options of `ShareConsumer`: what may be given, its defaults, and the frozen result that the engine reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .._options.checks import INT32_MAX, boolean, integer, milliseconds, one_of, option, optional, short_text
from .._options.serialization import AsyncDeserializer, Deserializer, application_function
from ..errors import ConfigError
from . import ClientConfig, ClientOptions

__all__ = ["ShareConsumerBaseOptions", "ShareConsumerConfig", "ShareConsumerOptions"]


class ShareConsumerBaseOptions(ClientOptions, total=False):
    """Options of `ShareConsumer` that do not affect the types of keys and values.

    Where a group begins, which records of transactions it sees, how long locks last and how often a record is delivered
    are settings of the group, which an administrator makes: ``share.auto.offset.reset`` ("latest" by default),
    ``share.isolation.level``, ``share.record.lock.duration.ms`` and the brokers' ``group.share.delivery.count.limit``.
    """

    group_id: str
    """The share group. Groups of all kinds share one space of names."""
    client_rack: str | None
    """Where this client is (None)."""
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    """``"implicit"``: what the application has got, and has not acknowledged otherwise, counts as accepted when it
    comes back for more, or commits. ``"explicit"``: each record is acknowledged by a call, in any order, or comes again
    when its lock has run out (``"implicit"``)."""
    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    """``"batch_optimized"``: brokers acquire whole batches of the log, so that there may be more records than were
    asked for, at less cost. ``"record_limit"``: never more, which needs Apache Kafka 4.2 (``"batch_optimized"``,
    KIP-1206)."""
    fetch_min_bytes: int
    """A broker waits until it has this many bytes before it answers a fetch (1)."""
    fetch_max_wait_ms: float
    """A broker waits no longer than this before it answers a fetch (500)."""
    fetch_max_bytes: int
    """Bytes of one fetch answer (52428800)."""
    max_poll_records: int
    """Records that `ShareConsumer.getmany` returns at most, and that are acquired ahead of the application at most;
    with ``"batch_optimized"`` twice as many of each broker (500)."""
    max_decompressed_batch_bytes: int
    """How large one batch of a partition's log may become when it is decompressed (268435456); what is larger is
    rejected."""
    check_crcs: bool
    """Verify the checksum of every batch (True)."""
    default_api_timeout_ms: float
    """The bound of calls that have none of their own (60000)."""


class ShareConsumerOptions(ShareConsumerBaseOptions, total=False):
    """Options of `ShareConsumer`."""

    key_deserializer: Deserializer[Any] | None
    """Turns a key's bytes into what the application gets; may take a `SerializationContext`, and may be awaited."""
    value_deserializer: Deserializer[Any] | None
    """Turns a value's bytes into what the application gets; may take a `SerializationContext`, and may be awaited."""


@dataclass(init=False, repr=False, eq=False)
class ShareConsumerConfig(ClientConfig):
    """The options of `ShareConsumerOptions`, checked."""

    group_id: str = option("", short_text)
    client_rack: str | None = option(None, optional(short_text))
    share_acknowledgement_mode: Literal["implicit", "explicit"] = option("implicit", one_of("implicit", "explicit"))
    share_acquire_mode: Literal["batch_optimized", "record_limit"] = option(
        "batch_optimized", one_of("batch_optimized", "record_limit")
    )
    fetch_min_bytes: int = option(1, integer(0, INT32_MAX))
    fetch_max_wait_ms: float = option(500, milliseconds(0, INT32_MAX))
    fetch_max_bytes: int = option(50 * 1024 * 1024, integer(1, INT32_MAX))
    max_poll_records: int = option(500, integer(1, INT32_MAX))
    max_decompressed_batch_bytes: int = option(256 * 1024 * 1024, integer(1, INT32_MAX))
    check_crcs: bool = option(True, boolean)
    default_api_timeout_ms: float = option(60_000, milliseconds())
    key_deserializer: Deserializer[Any] | AsyncDeserializer[Any] | None = option(None, optional(application_function))
    value_deserializer: Deserializer[Any] | AsyncDeserializer[Any] | None = option(None, optional(application_function))

    def _check(self) -> None:
        super()._check()
        if not self.group_id:
            raise ConfigError("group_id must name the share group")
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            raise ConfigError("fetch_max_wait_ms must be less than request_timeout_ms")

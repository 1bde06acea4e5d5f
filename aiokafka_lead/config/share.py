"""Options of `ShareConsumer`: public types, defaults, and the frozen configuration."""

from __future__ import annotations

from typing import Any, Literal

from .._options.checks import INT32_MAX, boolean, integer, milliseconds, one_of, option, optional, short_text
from .._options.serialization import AsyncDeserializer, Deserializer, application_function
from ..errors import ConfigError
from . import ClientConfig
from .options import ClientOptions

__all__ = ["ShareConsumerBaseOptions", "ShareConsumerConfig", "ShareConsumerOptions"]


class ShareConsumerBaseOptions(ClientOptions, total=False):
    """Options of `ShareConsumer` except the deserializers. Times are in milliseconds.

    These properties of a group are not options of its members. An administrator sets them with
    `AdminClient.incremental_alter_configs`:

    - The start position (the group's config ``share.auto.offset.reset``, by default "latest").
    - The isolation level (the group's config ``share.isolation.level``).
    - The duration of locks (the group's config ``share.record.lock.duration.ms``).
    - The maximum number of deliveries of a record (the brokers' config ``group.share.delivery.count.limit``).
    """

    group_id: str
    """Share group to join. Groups of all kinds share one namespace. Required."""
    client_rack: str | None
    """Rack of this consumer (None)."""
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    """With ``"implicit"``, the next read or commit accepts the delivered records that the application has not
    acknowledged. With ``"explicit"``, the application must acknowledge each record, in any order. A record without an
    acknowledgement is delivered again when its lock expires (``"implicit"``)."""
    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    """With ``"batch_optimized"``, brokers acquire whole batches of the log, at lower cost, and possibly more records
    than requested. With ``"record_limit"``, which needs Apache Kafka 4.2, they never acquire more records than
    requested (``"batch_optimized"``, KIP-1206)."""
    fetch_min_bytes: int
    """Number of bytes that a broker collects before it answers a fetch, unless ``fetch_max_wait_ms`` passes first (1).
    """
    fetch_max_wait_ms: float
    """Maximum time that a broker waits before it answers a fetch (500)."""
    fetch_max_bytes: int
    """Maximum size of a fetch response in bytes (52428800)."""
    max_poll_records: int
    """Maximum number of records that `ShareConsumer.getmany` returns, and of records acquired ahead of the application.
    With ``"batch_optimized"``, up to twice this number may be acquired from each broker (500)."""
    max_decompressed_batch_bytes: int
    """Maximum decompressed size of a batch in bytes (268435456). Larger batches are rejected."""
    check_crcs: bool
    """Verify the checksum of every batch (True)."""
    default_api_timeout_ms: float
    """Default timeout of calls to the cluster (60000)."""


class ShareConsumerOptions(ShareConsumerBaseOptions, total=False):
    """All options of `ShareConsumer`, as keyword arguments."""

    key_deserializer: Deserializer[Any] | None
    """Function that converts a key from bytes. It may take a `SerializationContext`, and may be a coroutine function
    (None)."""
    value_deserializer: Deserializer[Any] | None
    """Function that converts a value from bytes. It may take a `SerializationContext`, and may be a coroutine function
    (None)."""


class ShareConsumerConfig(ClientConfig):
    """Checked values of the options that `ShareConsumerOptions` describes."""

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

"""Options of a relay, its metrics and its health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

from .._options.arguments import TIMEOUT
from .._options.checks import Checked, boolean, instance, integer, milliseconds, option, optional, short_text
from ..errors import ConfigError
from ..metrics import counter, gauge

if TYPE_CHECKING:
    from ..config import ProducerBaseOptions


class RelayOptions(TypedDict, total=False):
    """Options of `Relay`. Times are in milliseconds."""

    transactional_id: str | None
    """Prefix of the transactional ids, for publishing exactly once. None publishes at least once (None). Each shard has
    a transactional id with this prefix, and a consumer group with the same name that stores the names of batches. All
    relays of an outbox must use the same prefix, and no other program may use it. Their principal needs the permissions
    to write with these transactional ids, and to read these groups and the topics."""
    producer: ProducerBaseOptions
    """Options of the producers (none). A relay has one producer for each of its shards. Without a ``transactional_id``,
    the default of ``delivery_timeout_ms`` is unlimited, because later records would overtake a record that has timed
    out."""
    max_records: int
    """Maximum number of rows in a batch (500). A relay has up to this many rows of each of its shards in memory."""
    lease_ms: float
    """Time until other relays take over the shards of a relay that has died (15000). A relay that starts may wait a
    third of this time until it receives shards."""
    poll_ms: float
    """Interval of queries for new rows (100). `Relay.wake` makes the next query immediately."""
    retry_backoff_ms: float
    """Delay before the first retry. The delay doubles with each failure, with jitter (100)."""
    retry_backoff_max_ms: float
    """Maximum delay before a retry (10000)."""
    set_aside: bool
    """Set aside records that can never be published, for example because they are too large, or because another program
    has written invalid headers (False). The row stays in the table, with the reason in its column ``refusal``. Set this
    column to NULL to publish the record after all. Without this option, such a record blocks its shard, and
    `Relay.health` reports it. A record for an unknown topic always waits, because the topic may be created later."""
    close_timeout_ms: float | None
    """Time limit for the end of `Relay.run` after a signal; None means 10 seconds (None)."""


class RelayConfig(Checked):
    """Validated `RelayOptions`."""

    transactional_id: str | None = option(None, optional(short_text))
    producer: Mapping[str, Any] | None = option(None, optional(instance(dict, "a dict of options")))
    max_records: int = option(500, integer(1, 100_000))
    lease_ms: float = option(15_000, milliseconds(100))
    poll_ms: float = option(100, milliseconds(1))
    retry_backoff_ms: float = option(100, milliseconds())
    retry_backoff_max_ms: float = option(10_000, milliseconds())
    set_aside: bool = option(False, boolean)
    close_timeout_ms: float | None = option(None, TIMEOUT)

    def _check(self) -> None:
        if "transactional_id" in (self.producer or ()):
            raise ConfigError("transactional_id must be an option of the relay, not of its producers")


@dataclass(frozen=True, slots=True)
class RelayMetrics:
    """Metrics of a relay: counters since it was created, and gauges of its current state."""

    shards: int = gauge("shards")
    """Number of shards that the relay holds."""
    shards_taken: int = counter("shards_taken")
    """Number of times that the relay has taken a shard."""
    batches: int = counter("batches")
    """Number of published batches."""
    records: int = counter("records")
    """Number of published records."""
    records_set_aside: int = counter("records_set_aside")
    """Number of records that cannot be published and were set aside."""
    failures: int = counter("failures")
    """Number of failed attempts to publish a batch or to use the database."""
    oldest_waiting_ms: float = 0.0
    """Age in ms of the oldest waiting record in the relay's shards; 0 if no record waits."""


@dataclass(frozen=True, slots=True)
class RelayHealth:
    """State of a relay at the time of the call."""

    problems: tuple[str, ...]
    """Reasons why the relay makes no progress; empty if it does."""
    live: bool
    """True while the relay runs, even with problems, because restarting the process would not solve them."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

"""The options of a relay, its metrics and its health."""

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
    """Publish exactly once, with this prefix of the transactional ids. Each shard has a transactional id, and a
    consumer group of the same name that stores the names of batches. All relays of an outbox must use the same prefix,
    and no other program may use it. Their principal needs permission to write under these ids and to read these groups
    and the topics. None publishes at least once (None)."""
    producer: ProducerBaseOptions
    """Options of the producers; each shard of the relay has a producer (none). Without a ``transactional_id``,
    ``delivery_timeout_ms`` is unlimited unless it is given here, since later records could overtake a failed record."""
    max_records: int
    """Maximum number of rows in a batch (500). The relay holds up to this many rows of each of its shards in memory."""
    lease_ms: float
    """Time until other relays take over the shards of a relay that has died (15000). A starting relay waits up to a
    third of this time for its share."""
    poll_ms: float
    """Interval between queries for new rows (100); see `Relay.wake`."""
    retry_backoff_ms: float
    """Wait after a failure; doubles each time, with jitter (100)."""
    retry_backoff_max_ms: float
    """Longest wait after a failure (10000)."""
    set_aside: bool
    """Set aside records that brokers will never accept, for example because they are too large. The row stays in the
    table with the reason in its column ``refusal``, and is published once that column is NULL again. Without this
    option the record blocks its shard, and `Relay.health` reports it (False)."""
    close_timeout_ms: float | None
    """Time limit of `Relay.run` for ending after a signal; None is 10 s (None)."""


class RelayConfig(Checked):
    """The options of `RelayOptions`, checked."""

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
            raise ConfigError("transactional_id is an option of the relay, not of its producers")


@dataclass(frozen=True, slots=True)
class RelayMetrics:
    """Counters since the relay was created, and gauges of its present state."""

    shards: int = gauge("shards")
    """Shards held by the relay."""
    shards_taken: int = counter("shards_taken")
    """Number of times that the relay has taken a shard."""
    batches: int = counter("batches")
    """Batches published."""
    records: int = counter("records")
    """Records published."""
    records_set_aside: int = counter("records_set_aside")
    """Records that brokers will never accept, and that stay in the table."""
    failures: int = counter("failures")
    """Failed attempts to publish a batch or to use the database."""
    oldest_waiting_ms: float = 0.0
    """Age of the oldest waiting record in the relay's shards; 0 if no record waits."""


@dataclass(frozen=True, slots=True)
class RelayHealth:
    """State of a relay at the time of the call."""

    problems: tuple[str, ...]
    """Reasons why the relay makes no progress; empty if it does."""
    live: bool
    """True while the relay runs, even if it makes no progress, which a restart of the process would not change."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

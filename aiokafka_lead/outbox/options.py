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
    """Publish exactly once, with this prefix of the transactional ids, one per shard, and of the consumer groups with
    the same names, which store the names of batches. All relays of an outbox must use the same prefix, and nothing else
    may use it. Their principal needs permission to write under these ids and to read these groups and the topics. None
    publishes at least once (None)."""
    producer: ProducerBaseOptions
    """Options of the producers, one for each shard of the relay (none). Without a ``transactional_id``,
    ``delivery_timeout_ms`` is unlimited unless it is given here: later records could overtake one that has failed."""
    max_records: int
    """Maximum number of rows that are published together (500). Up to this many rows of each shard are in memory."""
    lease_ms: float
    """Time after which the shards of a relay that has died are free (15000). A relay that starts waits for its share up
    to a third of this time."""
    poll_ms: float
    """The interval between queries for new rows (100); see `Relay.wake`."""
    retry_backoff_ms: float
    """The wait after a failure; doubles each time, with jitter (100)."""
    retry_backoff_max_ms: float
    """The longest such wait (10000)."""
    set_aside: bool
    """Set aside records that can never be published, for example because they are too large, or because another program
    has written invalid headers. The row stays in the table with the reason in its column ``refusal``, and is published
    once that column is NULL again. Without this option such a record holds up its shard, and `Relay.health` reports it.
    A record for an unknown topic always waits, since the topic may be created later (False)."""
    close_timeout_ms: float | None
    """The time that `Relay.run` may take to end after a signal; None is 10 s (None)."""


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
    """Counts since the relay was created, and the rows that wait."""

    shards: int = gauge("shards")
    """Shards that it has."""
    shards_taken: int = counter("shards_taken")
    """Number of times that it has taken a shard."""
    batches: int = counter("batches")
    """Batches published."""
    records: int = counter("records")
    """Records published."""
    records_set_aside: int = counter("records_set_aside")
    """Records that can never be published, and that stay in the table."""
    failures: int = counter("failures")
    """Failed tries of a batch or of the database."""
    oldest_waiting_ms: float = 0.0
    """Age of the oldest record that waits in one of its shards; 0 if none does."""


@dataclass(frozen=True, slots=True)
class RelayHealth:
    """The state of a relay, at one moment."""

    problems: tuple[str, ...]
    """Reasons why the relay makes no progress."""
    live: bool
    """True while the relay runs. A new process would not publish more, so a liveness probe should not restart it."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

"""Decides when to give up the known brokers and return to the bootstrap servers (KIP-899, KIP-1102); counters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Literal

from ...errors import ClusterIdMismatchError, KafkaError, RebootstrapRequiredError
from ..backoff import Backoff
from ..counting import counts_of, snapshot
from .reachability import Endpoint

if TYPE_CHECKING:
    from ...metrics import MetadataMetrics


class HintOutcome(Enum):
    """Outcomes of a leader hint; the values name the counters."""

    ACCEPTED = "hints_accepted"
    STALE = "hints_rejected_stale"
    NO_ADDRESS = "hints_rejected_no_address"
    UNKNOWN_PARTITION = "hints_rejected_unknown_partition"
    POLICY = "hints_rejected_policy"
    INCOMPLETE = "hints_rejected_incomplete"


class RebootstrapCause(Enum):
    """Reasons for returning to the bootstrap servers; the values name the counters."""

    UNAVAILABLE = "rebootstraps_unavailable"
    """No known broker was connected or could be connected to (KIP-899)."""
    TIMED_OUT = "rebootstraps_timed_out"
    """No metadata for ``metadata_recovery_rebootstrap_trigger_ms`` (KIP-1102)."""
    REQUIRED = "rebootstraps_required"
    """A broker required it: error 129, REBOOTSTRAP_REQUIRED (KIP-1102)."""
    OTHER_CLUSTER = "rebootstraps_other_cluster"
    """A known broker's address answered for another cluster."""


class MetadataCounters:
    """Running counts; `MetadataMetrics` describes them under the same names."""

    def __init__(self) -> None:
        self.hints_received = 0
        self.hints_accepted = 0
        self.hints_confirmed = 0
        self.hints_rejected_stale = 0
        self.hints_rejected_no_address = 0
        self.hints_rejected_unknown_partition = 0
        self.hints_rejected_policy = 0
        self.hints_rejected_incomplete = 0
        self.disagreements = 0
        self.stale_partitions = 0
        self.rewinds = 0
        self.refreshes = 0
        self.refresh_failures = 0
        self.rebootstraps_unavailable = 0
        self.rebootstraps_timed_out = 0
        self.rebootstraps_required = 0
        self.rebootstraps_other_cluster = 0

    def count(self, what: HintOutcome | RebootstrapCause) -> None:
        """Increment the counter that the outcome or cause names."""
        setattr(self, what.value, getattr(self, what.value) + 1)

    def snapshot(self) -> MetadataMetrics:
        """Return the current counts."""
        from ...metrics import MetadataMetrics

        return snapshot(MetadataMetrics, counts_of(MetadataMetrics, self))


RecoveryStrategy = Literal["rebootstrap", "none"]


def leads_to_bootstrap(error: KafkaError, node_id: int) -> bool:
    """Return True if this error of a node's answer makes a bootstrap due."""
    return isinstance(error, RebootstrapRequiredError) or (isinstance(error, ClusterIdMismatchError) and node_id >= 0)


class RebootstrapPolicy:
    """Decides when to bootstrap again. The strategy "none" never does.

    Consecutive bootstraps without an answer from a broker that they led to are spaced by the backoff, so that servers
    that name unreachable brokers are not asked in a tight loop.
    """

    def __init__(self, strategy: RecoveryStrategy, trigger_ms: float, backoff: Backoff) -> None:
        self.enabled = strategy == "rebootstrap"
        self._trigger_s = trigger_ms / 1000
        self._backoff = backoff
        self._trying_since: float | None = None
        """Time of the first attempt to get metadata since the last success; None without an attempt."""
        self._cycles = 0
        """Number of bootstraps since a broker other than a bootstrap server last answered."""
        self._not_before = -math.inf
        self._misled: set[Endpoint] = set()
        """Addresses that have led to another broker since they last led to the right broker."""
        self.is_misled = False
        """True if an address was found to mislead since the last bootstrap, so that another bootstrap is due."""
        self._strangers_since: float | None = None
        """Time since which bootstrap servers have led to another cluster, and none to this cluster."""

    def attempted(self, now: float) -> None:
        """Record an attempt to get metadata, even if there was no broker to ask."""
        if self._trying_since is None:
            self._trying_since = now

    def answered(self, *, by_bootstrap_server: bool) -> None:
        """Record an answer with metadata."""
        self._trying_since = self._strangers_since = None
        if not by_bootstrap_server:
            self._cycles = 0
            self._not_before = -math.inf

    def times_out_at(self) -> float:
        """Return the time at which attempts to get metadata exceed the trigger's time; infinity without an attempt."""
        if not self.enabled or self._trying_since is None:
            return math.inf
        return max(self._trying_since + self._trigger_s, self._not_before)

    def judge(self, now: float, *, reachable: bool, bootstrapping: bool) -> RebootstrapCause | None:
        """Return the reason to bootstrap again now, or None.

        ``reachable`` is True if some known broker is ready, connecting or connectable now. ``bootstrapping`` is True if
        only the bootstrap servers are known, so that returning to them would change nothing.
        """
        if not self.enabled:
            return None
        if now >= self.times_out_at():
            return RebootstrapCause.TIMED_OUT
        if not reachable and not bootstrapping and now >= self._not_before:
            return RebootstrapCause.UNAVAILABLE
        return None

    def rebootstrapped(self, now: float) -> None:
        """Record the return to the bootstrap servers."""
        self._cycles += 1
        self._not_before = now + self._backoff.delay_s(self._cycles)
        self._trying_since = None
        self.is_misled = False

    def misled(self, endpoint: Endpoint) -> bool:
        """Record that an address leads to another broker; return True if that makes a bootstrap due.

        It is due once, until the address leads to the right broker again. The bootstrap servers may have a newer
        address than the known brokers (KIP-1242). If they do not, the address itself is wrong: more bootstraps would
        not correct it, and the connections to other brokers are right.
        """
        if endpoint in self._misled:
            return False
        self._misled.add(endpoint)
        self.is_misled = True
        return True

    def led_right(self, endpoint: Endpoint) -> None:
        """Record that an address leads to its broker."""
        self._misled.discard(endpoint)

    def stranger(
        self, errors: Iterable[KafkaError], now: float, patience_s: float, *, everywhere: bool
    ) -> ClusterIdMismatchError | None:
        """Return an error if all bootstrap servers, at all their addresses, belong to another cluster (rule 30).

        ``errors`` come from bootstrap servers. A single address in another cluster does not prove that the client's
        cluster is gone: other addresses may lead to it. Unreachable addresses are waited for while patience lasts.
        ``everywhere`` is True if no address is unreachable.
        """
        strangers = [error for error in errors if isinstance(error, ClusterIdMismatchError)]
        if not strangers:
            return None
        if self._strangers_since is None:
            self._strangers_since = now
        return strangers[0] if everywhere or now - self._strangers_since >= patience_s else None

"""Conditions for a return to the bootstrap servers (KIP-899, KIP-1102), and metadata counters."""

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

REFRESH_AT_LEAST_S = 1.0
"""Minimum time limit of a refresh in seconds, even if ``metadata_recovery_rebootstrap_trigger_ms`` leaves less."""


class HintOutcome(Enum):
    """Outcomes of a leader hint. The values are the names of the counters."""

    ACCEPTED = "hints_accepted"
    STALE = "hints_rejected_stale"
    NO_ADDRESS = "hints_rejected_no_address"
    UNKNOWN_PARTITION = "hints_rejected_unknown_partition"
    POLICY = "hints_rejected_policy"
    INCOMPLETE = "hints_rejected_incomplete"


class RebootstrapCause(Enum):
    """Reasons for returning to the bootstrap servers. The values are the names of the counters."""

    UNAVAILABLE = "rebootstraps_unavailable"
    """No known broker was connected, and none could be connected to (KIP-899)."""
    TIMED_OUT = "rebootstraps_timed_out"
    """No metadata arrived for ``metadata_recovery_rebootstrap_trigger_ms`` (KIP-1102)."""
    REQUIRED = "rebootstraps_required"
    """A broker answered with error 129, REBOOTSTRAP_REQUIRED (KIP-1102)."""
    OTHER_CLUSTER = "rebootstraps_other_cluster"
    """A broker of another cluster responded at a known broker's address."""


class MetadataCounters:
    """Counters of one client's metadata. `MetadataMetrics` documents them under the same names."""

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
        """Increment the counter named by the outcome or cause."""
        setattr(self, what.value, getattr(self, what.value) + 1)

    def snapshot(self) -> MetadataMetrics:
        """Return the current counts."""
        from ...metrics import MetadataMetrics

        return snapshot(MetadataMetrics, counts_of(MetadataMetrics, self))


RecoveryStrategy = Literal["rebootstrap", "none"]


def leads_to_bootstrap(error: KafkaError, node_id: int) -> bool:
    """Return True if this error in a node's response requires a return to the bootstrap servers."""
    return isinstance(error, RebootstrapRequiredError) or (isinstance(error, ClusterIdMismatchError) and node_id >= 0)


class RebootstrapPolicy:
    """Decides when to return to the bootstrap servers. With the strategy "none" it never does.

    If bootstrap servers name only unreachable brokers, attempts are spaced by the backoff, so they do not form a tight
    loop.
    """

    def __init__(self, strategy: RecoveryStrategy, trigger_ms: float, backoff: Backoff) -> None:
        self.enabled = strategy == "rebootstrap"
        self._trigger_s = trigger_ms / 1000
        self._backoff = backoff
        self._trying_since: float | None = None
        """Time of the first attempt to get metadata since the last success, or None."""
        self._cycles = 0
        """Number of bootstraps since the last response from any broker other than a bootstrap server."""
        self._not_before = -math.inf
        self._misled: set[Endpoint] = set()
        """Addresses that have led to the wrong broker since they last led to the right one."""
        self.is_misled = False
        """True if such an address has been found since the last bootstrap. Another bootstrap is then due."""
        self._strangers_since: float | None = None
        """Time since which bootstrap servers have led only to another cluster, or None."""

    def attempted(self, now: float) -> None:
        """Record an attempt to get metadata, which starts the trigger of KIP-1102.

        Call it even if no broker could be asked.
        """
        if self._trying_since is None:
            self._trying_since = now

    def answered(self, *, by_bootstrap_server: bool) -> None:
        """Record a Metadata response, so no bootstrap is due.

        If it did not come from a bootstrap server, also forget the backoff between bootstraps.
        """
        self._trying_since = self._strangers_since = None
        if not by_bootstrap_server:
            self._cycles = 0
            self._not_before = -math.inf

    def times_out_at(self) -> float:
        """Return the time at which the trigger of KIP-1102 expires.

        Returns infinity with the strategy "none", or if there was no attempt since the last response.
        """
        if not self.enabled or self._trying_since is None:
            return math.inf
        return max(self._trying_since + self._trigger_s, self._not_before)

    def refresh_within_s(self, now: float) -> float:
        """Return the time limit in seconds of a refresh that begins now: until `times_out_at`, but not too short."""
        return max(self.times_out_at() - now, REFRESH_AT_LEAST_S)

    def judge(self, now: float, *, reachable: bool, bootstrapping: bool) -> RebootstrapCause | None:
        """Return the reason to return to the bootstrap servers now, or None.

        ``reachable`` is True if some known broker is ready, connecting or connectable. ``bootstrapping`` is True if
        only the bootstrap servers are known. Returning to them would then have no effect.
        """
        if not self.enabled:
            return None
        if now >= self.times_out_at():
            return RebootstrapCause.TIMED_OUT
        if not reachable and not bootstrapping and now >= self._not_before:
            return RebootstrapCause.UNAVAILABLE
        return None

    def rebootstrapped(self, now: float) -> None:
        """Record the return to the bootstrap servers, and set the earliest time of the next one."""
        self._cycles += 1
        self._not_before = now + self._backoff.delay_s(self._cycles)
        self._trying_since = None
        self.is_misled = False

    def misled(self, endpoint: Endpoint) -> bool:
        """Record that an address leads to the wrong broker. Return True if the client should bootstrap.

        The client bootstraps once, because the bootstrap servers may know a newer address (KIP-1242). Further calls
        return False until the address leads to the right broker again. The cluster advertises a wrong address, so more
        bootstraps would only close working connections to other brokers.
        """
        if endpoint in self._misled:
            return False
        self._misled.add(endpoint)
        self.is_misled = True
        return True

    def led_right(self, endpoint: Endpoint) -> None:
        """Record that an address leads to the right broker, so `misled` may cause another bootstrap."""
        self._misled.discard(endpoint)

    def stranger(
        self, errors: Iterable[KafkaError], now: float, patience_s: float, *, everywhere: bool
    ) -> ClusterIdMismatchError | None:
        """Return an error if all bootstrap servers, at all their IP addresses, belong to another cluster (rule 30).

        ``errors`` are the bootstrap servers' errors. ``everywhere`` is True if every IP address could be reached.
        Otherwise, the client waits ``patience_s`` seconds for the rest. A single address in another cluster does not
        prove that the client's cluster is gone, because other addresses may lead to it.
        """
        strangers = [error for error in errors if isinstance(error, ClusterIdMismatchError)]
        if not strangers:
            return None
        if self._strangers_since is None:
            self._strangers_since = now
        return strangers[0] if everywhere or now - self._strangers_since >= patience_s else None

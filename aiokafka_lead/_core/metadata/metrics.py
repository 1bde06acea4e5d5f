"""Counters of leader hints, metadata answers and bootstraps, by reason."""

from __future__ import annotations

from enum import Enum

from ...metrics import MetadataMetrics
from ..counting import counts_of, snapshot


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
    """Running counts; `MetadataMetrics` has them under the same names, with descriptions."""

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
        return snapshot(MetadataMetrics, counts_of(MetadataMetrics, self))

"""Counters of leader hints, metadata answers and bootstraps, by reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..counting import counts_of


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


@dataclass(frozen=True, slots=True)
class MetadataMetrics:
    """Counts since the client was created."""

    hints_received: int = 0
    """Leader hints that came with an error of Produce or Fetch (KIP-951)."""
    hints_accepted: int = 0
    hints_confirmed: int = 0
    """Accepted hints whose leader epoch a metadata answer has reached since."""
    hints_rejected_stale: int = 0
    """Hints not newer than the known leader epoch."""
    hints_rejected_no_address: int = 0
    """Hints whose leader's address was neither in the response nor known."""
    hints_rejected_unknown_partition: int = 0
    """Hints about an unknown partition, or a topic deleted or recreated since the request was sent."""
    hints_rejected_policy: int = 0
    """Hints forbidden by ``leader_hint_policy``."""
    hints_rejected_incomplete: int = 0
    """Hints without leader or epoch, or with an error that has no hints."""
    disagreements: int = 0
    """Accepted hints with another leader than Metadata named at the same epoch; Metadata won."""
    stale_partitions: int = 0
    """Partitions in metadata answers that were older than the client's view, and were ignored."""
    rewinds: int = 0
    """Partitions whose epoch permanently decreased (an unclean recovery), accepted after several answers."""
    refreshes: int = 0
    """Metadata answers processed."""
    refresh_failures: int = 0
    """Refreshes that got no answer from any broker."""
    rebootstraps_unavailable: int = 0
    rebootstraps_timed_out: int = 0
    rebootstraps_required: int = 0
    rebootstraps_other_cluster: int = 0


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
        return MetadataMetrics(**counts_of(MetadataMetrics, self))

"""Checks the reports of a group's members: no lost records, repeated committed records, or long unowned partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .group_watch import Event

_TROUBLE = ("killed", "frozen", "thawed", "cut", "healed", "gone")
_ENDS_OWNERSHIP = ("killed", "frozen", "cut", "left", "gone", "ended")


@dataclass
class Findings:
    """Violations, and some figures."""

    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    """Reads from before an acknowledged commit, by a healthy member."""
    orphaned: list[str] = field(default_factory=list)
    """Partitions without an owner for longer than allowed."""
    shared: list[str] = field(default_factory=list)
    """Partitions that two healthy members owned at a time."""
    crashed: list[str] = field(default_factory=list)
    """Members that ended without a request."""
    records: int = 0
    duplicates: int = 0
    """Number of records that were read again."""
    stale_reads: int = 0
    """Number of records that members read after a freeze or a cut, from before other members' commits."""
    longest_gap_s: float = 0
    rebalances: int = 0

    @property
    def problems(self) -> list[str]:
        """All violations."""
        return [*self.lost, *self.repeated, *self.orphaned, *self.shared, *self.crashed]


def examine(events: Sequence[Event], ends: Mapping[int, int], gap_limit_s: float) -> Findings:
    """Check the record of a run in which ``ends`` records were written to each partition.

    ``gap_limit_s`` is the longest permitted time without an owner of a partition after the last fault.
    """
    findings = Findings()
    ordered = sorted(events, key=lambda event: event.at)
    _check_reads(ordered, ends, findings)
    _check_owners(ordered, list(ends), gap_limit_s, findings)
    asked = {event.member for event in ordered if event.kind in ("killed", "left")}
    findings.crashed = [f"{each.member} ended" for each in ordered if each.kind == "ended" and each.member not in asked]
    findings.rebalances = sum(event.kind == "assigned" for event in ordered)
    return findings


def _check_reads(events: Sequence[Event], ends: Mapping[int, int], findings: Findings) -> None:
    committed = dict.fromkeys(ends, 0)
    read: dict[int, list[tuple[int, int]]] = {partition: [] for partition in ends}
    # Members that have been away since their assignment: their partitions may have other owners by now.
    stale: set[str] = set()
    # Partitions that each member has read since its assignment.
    current: dict[str, set[int]] = defaultdict(set)
    for event in events:
        if event.kind in ("frozen", "cut"):
            stale.add(event.member)
        elif event.kind == "assigned":
            stale.discard(event.member)
            current[event.member].clear()
        elif event.kind == "committed":
            for text, offset in event.fields["offsets"].items():
                # aiokafka accepts commits of records that were read before a rebalance, although it has already reset
                # its position to the previous commit.
                if int(text) in current[event.member]:
                    committed[int(text)] = max(committed[int(text)], offset)
        elif event.kind == "read":
            for text, (start, end) in event.fields["ranges"].items():
                partition = int(text)
                read[partition].append((start, end))
                current[event.member].add(partition)
                behind = min(end, committed[partition]) - start
                if behind > 0 and event.member in stale:
                    findings.stale_reads += behind
                elif behind > 0:
                    findings.repeated.append(
                        f"partition {partition}: {event.member} read {start}..{end} at {event.at:.3f}, "
                        f"though {committed[partition]} was committed"
                    )
    for partition, ranges in read.items():
        reached = 0
        for start, end in sorted(ranges):
            if start > reached:
                findings.lost.append(f"partition {partition}: nobody read {reached}..{start}")
            findings.records += end - start
            findings.duplicates += max(0, min(end, reached) - start)
            reached = max(reached, end)
        if reached < ends[partition]:
            findings.lost.append(f"partition {partition}: nobody read {reached}..{ends[partition]}")


def _check_owners(events: Sequence[Event], partitions: Sequence[int], limit_s: float, findings: Findings) -> None:
    owners: dict[int, set[str]] = {partition: set() for partition in partitions}
    free_since: dict[int, float] = {}
    trouble_at = 0.0

    def release(member: str, gone: Sequence[int], at: float) -> None:
        for partition in gone:
            if member in owners[partition]:
                owners[partition].remove(member)
                if not owners[partition]:
                    free_since[partition] = at

    def note_gap(partition: int, at: float) -> None:
        gap_s = at - max(free_since[partition], trouble_at)
        findings.longest_gap_s = max(findings.longest_gap_s, gap_s)
        if gap_s > limit_s:
            findings.orphaned.append(f"partition {partition}: nobody's for {gap_s:.1f} s at {at:.3f}")

    for event in events:
        if event.kind == "finish":
            for partition in free_since:
                note_gap(partition, event.at)
            return
        if event.kind == "assigned":
            for partition in event.fields["partitions"]:
                others = owners[partition] - {event.member}
                if others:
                    findings.shared.append(f"partition {partition}: {event.member} and {others} at {event.at:.3f}")
                if partition in free_since:
                    note_gap(partition, event.at)
                    del free_since[partition]
                owners[partition].add(event.member)
        elif event.kind in ("revoked", "lost"):
            release(event.member, event.fields["partitions"], event.at)
        elif event.kind in _ENDS_OWNERSHIP:
            release(event.member, partitions, event.at)
        if event.kind in _TROUBLE:
            trouble_at = event.at

"""The judge of the long run of groups finds all violations, without false alarms."""

from __future__ import annotations

from typing import Any

from .group_record import Findings, examine
from .group_watch import Event

_LIMIT_S = 5.0


def judge(*events: tuple[float, str, str] | tuple[float, str, str, dict[str, Any]], end: int = 10) -> Findings:
    """Examine one partition with ten records; events in any order."""
    reported = [Event(each[0], each[1], each[2], each[3] if len(each) > 3 else {}) for each in events]
    return examine(reported, {0: end}, _LIMIT_S)


def assigned(at: float, member: str) -> tuple[float, str, str, dict[str, Any]]:
    return at, member, "assigned", {"partitions": [0]}


def revoked(at: float, member: str) -> tuple[float, str, str, dict[str, Any]]:
    return at, member, "revoked", {"partitions": [0]}


def read(at: float, member: str, start: int, end: int) -> tuple[float, str, str, dict[str, Any]]:
    return at, member, "read", {"ranges": {"0": [start, end]}}


def committed(at: float, member: str, offset: int) -> tuple[float, str, str, dict[str, Any]]:
    return at, member, "committed", {"offsets": {"0": offset}}


def test_all_is_well() -> None:
    findings = judge(
        assigned(1, "a"), read(2, "a", 0, 4), committed(3, "a", 4), read(4, "a", 4, 6), (5, "a", "killed"),
        (5, "a", "ended"), assigned(9, "b"), read(10, "b", 4, 10), committed(11, "b", 10), (12, "", "finish"),
    )  # fmt: skip
    assert findings.problems == []
    assert (findings.records, findings.duplicates, findings.longest_gap_s) == (12, 2, 4)


def test_lost_records() -> None:
    assert judge(read(1, "a", 0, 4), read(2, "a", 5, 10)).lost == ["partition 0: nobody read 4..5"]
    assert judge(read(1, "a", 0, 4)).lost == ["partition 0: nobody read 4..10"]


def test_reads_from_before_a_commit() -> None:
    again = read(3, "b", 2, 10)
    assert len(judge(read(1, "a", 0, 4), committed(2, "a", 4), again).repeated) == 1
    # By a member that has been away since its assignment.
    findings = judge(read(1, "a", 0, 4), committed(2, "a", 4), (1.5, "b", "frozen"), again)
    assert (findings.repeated, findings.stale_reads) == ([], 2)
    # By the member that commits it, but has been assigned the partition again before: its position is the older commit.
    late = (read(1, "a", 0, 4), assigned(2, "a"), committed(2.5, "a", 4))
    assert judge(*late, read(3, "a", 2, 10)).repeated == []
    assert len(judge(*late, read(3, "a", 4, 6), committed(4, "a", 6), read(5, "a", 5, 10)).repeated) == 1


def test_two_owners() -> None:
    assert judge(assigned(1, "a"), revoked(2, "a"), assigned(3, "b"), end=0).shared == []
    assert len(judge(assigned(1, "a"), revoked(3, "a"), assigned(2, "b"), end=0).shared) == 1
    assert judge(assigned(1, "a"), (2, "a", "cut"), assigned(3, "b"), end=0).shared == []


def test_nobody_for_too_long() -> None:
    away = (assigned(1, "a"), (2, "a", "killed"))
    assert judge(*away, assigned(6, "b"), end=0).orphaned == []
    assert len(judge(*away, assigned(8, "b"), end=0).orphaned) == 1
    assert len(judge(*away, (8, "", "finish"), end=0).orphaned) == 1
    # Counted from the last fault.
    assert judge(*away, (4, "c", "killed"), assigned(8, "b"), end=0).orphaned == []


def test_a_member_that_ends_by_itself() -> None:
    assert judge((1, "a", "ended"), end=0).crashed == ["a ended"]
    assert judge((1, "a", "left"), (2, "a", "ended"), end=0).crashed == []

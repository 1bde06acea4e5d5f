"""Reports of writers on their transactions and reads of readers, checked for agreement, after Jepsen's queue checker.

It detects an aborted read (a value of an aborted transaction), a lost write (an unseen value of a committed
transaction), a torn transaction (of unknown outcome, seen in part), a value seen twice, an internal order (of one
writer's values in a partition) that differs from its sends, and readers that disagree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["History", "Value", "Written"]


class Value(NamedTuple):
    """Value of a record, unique in a history."""

    writer: int
    transaction: int
    place: int
    """Position in the transaction, in the order of sends."""

    def encoded(self) -> bytes:
        return b"%d/%d/%d" % self

    @classmethod
    def decoded(cls, value: bytes | None) -> Value:
        assert value is not None
        writer, transaction, place = map(int, value.split(b"/"))
        return cls(writer, transaction, place)


@dataclass
class Written:
    """A transaction, as its writer knows it."""

    values: list[tuple[int, Value]] = field(default_factory=list)
    """Partitions and values of accepted sends, in order."""
    outcome: str | None = None
    """"committed" or "aborted"; None if unknown."""


@dataclass
class History:
    """All actions of writers, and all reads."""

    written: dict[tuple[int, int], Written] = field(default_factory=dict)
    """Transactions by writer and number."""
    reads: list[Mapping[int, Sequence[Value]]] = field(default_factory=list)
    """Values seen by each reader, by partition; the last one read everything at the end."""

    def findings(self) -> list[str]:
        """Return violations; empty if the history is valid."""
        final = self.reads[-1]
        found: list[str] = []
        for number, read in enumerate(self.reads[:-1]):
            for partition, values in read.items():
                if list(values) != list(final.get(partition, ()))[: len(values)]:
                    found.append(f"reader {number} and the last one differ in partition {partition}")
        seen = Counter(value for values in final.values() for value in values)
        found += [f"{value} is seen {count} times" for value, count in seen.items() if count > 1]
        for (writer, transaction), written in self.written.items():
            name = f"transaction {transaction} of writer {writer} ({written.outcome})"
            missing = [value for _, value in written.values if value not in seen]
            if written.outcome == "aborted" and len(missing) < len(written.values):
                found.append(f"aborted read: {len(written.values) - len(missing)} values of {name}")
            elif written.outcome == "committed" and missing:
                found.append(f"lost write: {missing} of {name}")
            elif missing and len(missing) < len(written.values):
                found.append(f"torn: {missing} missing of {name}")
        known = {(partition, value) for written in self.written.values() for partition, value in written.values}
        for partition, values in final.items():
            found += [
                f"{value} was never written to {partition}" for value in values if (partition, value) not in known
            ]
            last: dict[int, Value] = defaultdict(lambda: Value(0, -1, 0))
            for value in values:
                if value[1:] < last[value.writer][1:]:
                    found.append(f"internal order: {value} behind {last[value.writer]} in partition {partition}")
                last[value.writer] = value
        return found

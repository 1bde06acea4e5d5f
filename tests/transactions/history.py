"""What writers say of their transactions, what readers see, and whether that agrees (after Jepsen's queue checker).

Found are: an aborted read (a value of a transaction that does not count), a lost write (a value of one that counts is
not seen), a torn transaction (one whose outcome nobody knows is seen in part), a value seen twice, an internal order
(of one writer's values in a partition) that is not that of its sends, and readers that do not see the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["History", "Value", "Written"]


class Value(NamedTuple):
    """What a record holds: it occurs once in a history."""

    writer: int
    transaction: int
    place: int
    """In the order of the transaction's sends."""

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
    """Partitions and values whose sends were taken, in order."""
    outcome: str | None = None
    """"committed" or "aborted", else nobody knows."""


@dataclass
class History:
    """Everything that writers did and readers saw."""

    written: dict[tuple[int, int], Written] = field(default_factory=dict)
    """By writer and transaction."""
    reads: list[Mapping[int, Sequence[Value]]] = field(default_factory=list)
    """What each reader saw, by partition; the last one read everything when all was over."""

    def findings(self) -> list[str]:
        """What must not be; empty if all is well."""
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

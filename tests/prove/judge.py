"""Comparison of the clients' journals with the brokers' records, as read by confluent-kafka."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.transactions.history import History, Value, Written

from .elle import cycles
from .journal import read_journal

__all__ = [
    "Stored",
    "Verdict",
    "judge_copies",
    "judge_lists",
    "judge_readers",
    "judge_sharers",
    "judge_writers",
]

Stored = Mapping[int, Sequence[tuple[int, str]]]
"""Records of a topic: offsets and values by partition."""


class Verdict:
    """Verdict on one mode."""

    def __init__(self, *kinds: str) -> None:
        self.counts: dict[str, int] = {}
        """Numbers of actions and observations."""
        self.findings: defaultdict[str, list[str]] = defaultdict(list, {kind: [] for kind in kinds})
        """Violations by kind."""

    @property
    def clean(self) -> bool:
        """Return True without violations."""
        return not any(self.findings.values())


def judge_writers(journals: Iterable[Path], stored: Stored) -> Verdict:
    """Check idempotent producers: each acknowledged record exists once, at its acknowledged offset, and in order."""
    verdict = Verdict("lost", "twice", "out of order", "elsewhere", "never sent")
    sent: dict[str, int] = {}
    acknowledged: dict[str, tuple[int, int]] = {}
    failed: Counter[str] = Counter()
    for path in journals:
        name = path.stem
        for kind, number, *rest in (line for line in read_journal(path) if len(line) > 1):
            value = f"{name}/{number}"
            if kind == "sent":
                sent[value] = rest[0]
            elif kind == "stored":
                acknowledged[value] = (rest[0], rest[1])
            else:
                failed[rest[0].partition(":")[0]] += 1
    seen: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for partition, records in stored.items():
        last: dict[str, int] = {}
        for offset, value in records:
            seen[value].append((partition, offset))
            name, _, number = value.rpartition("/")
            if int(number) < last.get(name, -1):
                verdict.findings["out of order"].append(f"{value} behind {last[name]} in partition {partition}")
            last[name] = int(number)
    for value, where in acknowledged.items():
        if value not in seen:
            verdict.findings["lost"].append(f"{value} was acknowledged at {where}")
        elif where not in seen[value]:
            verdict.findings["elsewhere"].append(f"{value} was acknowledged at {where}, and is at {seen[value]}")
    verdict.findings["twice"] += [f"{value} is at {places}" for value, places in seen.items() if len(places) > 1]
    verdict.findings["never sent"] += [value for value in seen if value not in sent]
    verdict.counts = {
        "sent": len(sent),
        "acknowledged": len(acknowledged),
        "stored": sum(map(len, stored.values())),
        "stored without a known acknowledgement": len(seen.keys() - acknowledged.keys()),
        **{f"failed with {why}": count for why, count in failed.items()},
    }
    return verdict


def judge_lists(journals: Mapping[int, Path], stored: Stored) -> Verdict:
    """Check transactions: committed ones are complete, aborted ones absent, and readers see prefixes of the lists.

    ``journals`` by writer. Cycles of reads alone are findings; G0 and G1c are counted.
    """
    history, verdict = History(), Verdict("aborted read", "lost write", "torn", "internal order", "circular reads")
    read_by: dict[tuple[int, int], list[Value]] = defaultdict(list)
    for writer, path in journals.items():
        along: dict[int, list[Value]] = defaultdict(list)
        for line in read_journal(path):
            if line[0] == "append":
                _, number, partition, place = line
                written = history.written.setdefault((writer, number), Written())
                written.values.append((partition, Value(writer, number, place)))
            elif line[0] == "read":
                for partition, values in line[2].items():
                    found = [_value(value) for value in values]
                    along[int(partition)] += found
                    read_by[writer, line[1]] += found
            elif line[0] == "end" and (writer, line[1]) in history.written:
                history.written[writer, line[1]].outcome = line[2] if line[2] in ("committed", "aborted") else None
        history.reads.append(along)
    final = {partition: [_value(value) for _, value in records] for partition, records in stored.items()}
    history.reads.append(final)
    for finding in history.findings():
        verdict.findings[finding.partition(":")[0] if ":" in finding else "other"].append(finding)
    committed = {name for name, written in history.written.items() if written.outcome == "committed"}
    circles = cycles(final, {name: values for name, values in read_by.items() if name in committed})
    verdict.findings["circular reads"] += [str(group) for group in circles.of_reads]
    outcomes = Counter(written.outcome or "not known" for written in history.written.values())
    verdict.counts = {
        "transactions": len(history.written),
        **{f"of these {outcome}": count for outcome, count in outcomes.items()},
        "appends": sum(len(written.values) for written in history.written.values()),
        "values in the lists": sum(map(len, final.values())),
        "values read within transactions": sum(map(len, read_by.values())),
        "in cycles of writes, G0 (Kafka allows it)": sum(map(len, circles.g0)),
        "in cycles of a read and a write, G1c (Kafka allows it)": sum(map(len, circles.g1c)),
    }
    return verdict


def _value(text: Any) -> Value:
    return Value.decoded(text.encode())


def judge_readers(journals: Iterable[Path], stored: Stored) -> Verdict:
    """Check a group: each record was handed out to at least one member."""
    verdict = Verdict("lost", "never stored")
    got: Counter[tuple[int, int]] = Counter()
    for path in journals:
        for line in read_journal(path):
            if line[0] == "got":
                got.update((line[1], offset) for offset in line[2])
    there = {(partition, offset) for partition, records in stored.items() for offset, _ in records}
    verdict.findings["lost"] += [f"offset {offset} of partition {p} was never read" for p, offset in there - got.keys()]
    verdict.findings["never stored"] += [f"offset {offset} of partition {p}" for p, offset in got.keys() - there]
    verdict.counts = {
        "records": len(there),
        "handed out": got.total(),
        "handed out again (allowed)": got.total() - len(got),
    }
    return verdict


def judge_sharers(journals: Iterable[Path], stored: Stored) -> Verdict:
    """Check a share group: a member received each record, and brokers confirmed no acceptance twice."""
    verdict = Verdict("lost", "accepted twice", "never stored")
    done: Counter[str] = Counter()
    begun: set[str] = set()
    for path in journals:
        for line in read_journal(path):
            if line[0] == "done":
                done.update(line[1])
            elif line[0] == "begun":
                begun.update(line[1])
    there = {value for records in stored.values() for _, value in records}
    verdict.findings["lost"] += sorted(there - begun)
    verdict.findings["never stored"] += sorted(done.keys() - there)
    verdict.findings["accepted twice"] += sorted(value for value, count in done.items() if count > 1)
    verdict.counts = {
        "records": len(there),
        "acceptances confirmed by brokers": done.total(),
        "received, but acceptance not confirmed": len(there & begun - done.keys()),
    }
    return verdict


def judge_copies(source: Stored, target: Stored) -> Verdict:
    """Check exactly once from end to end: the target has every record of the source once, and in the same order."""
    verdict = Verdict("lost", "twice", "out of order", "never there")
    for partition in source.keys() | target.keys():
        wanted = [value for _, value in source.get(partition, ())]
        found = [value for _, value in target.get(partition, ())]
        if wanted == found:
            continue
        counts = Counter(found)
        verdict.findings["lost"] += [value for value in wanted if value not in counts]
        verdict.findings["twice"] += [value for value, count in counts.items() if count > 1]
        verdict.findings["never there"] += sorted(counts.keys() - set(wanted))
        if sorted(wanted) == sorted(found):
            verdict.findings["out of order"].append(f"partition {partition}")
    verdict.counts = {"records": sum(map(len, source.values())), "copies": sum(map(len, target.values()))}
    return verdict

"""Cycles between transactions that append to lists and read them, as Elle defines them (Kingsbury and Alvaro, 2020).

Two kinds of edges order transactions. An edge ww leads from the writer of a value in a list to the writer of the next
value. An edge wr leads from the writer of a value to a transaction that reads it. A cycle of ww edges alone is G0 (a
dirty write). A cycle with a wr edge is G1c (circular information flow).

Kafka promises no order between writers of several partitions, so G0, and G1c with a ww edge, are not violations. A
cycle of wr edges alone is a violation: a value would have been read before its commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.transactions.history import Value

__all__ = ["Cycles", "cycles"]

Transaction = tuple[int, int]
"""Writer and number of a transaction."""
Edges = dict[Transaction, set[Transaction]]


class Cycles(NamedTuple):
    """Groups of transactions that precede and follow each other."""

    g0: list[list[Transaction]]
    g1c: list[list[Transaction]]
    """Cycles that include a read."""
    of_reads: list[list[Transaction]]
    """Cycles of reads alone."""


def cycles(lists: Mapping[int, Sequence[Value]], reads: Mapping[Transaction, Iterable[Value]]) -> Cycles:
    """Find cycles in the final lists, by partition, and in the reads of each committed transaction."""
    ww: Edges = {}
    for values in lists.values():
        for one, other in pairwise(value[:2] for value in values):
            if one != other:
                ww.setdefault(one, set()).add(other)
    wr: Edges = {}
    for reader, found in reads.items():
        for value in found:
            if value[:2] != reader:
                wr.setdefault(value[:2], set()).add(reader)
    both = {node: ww.get(node, set()) | wr.get(node, set()) for node in {*ww, *wr}}
    g1c = [
        group
        for group in _components(both)
        if any(other in wr.get(one, ()) for one in group for other in group if one != other)
    ]
    return Cycles(_components(ww), g1c, _components(wr))


def _components(edges: Edges) -> list[list[Transaction]]:
    """Return the strongly connected components of more than one transaction (Tarjan, without recursion)."""
    index: dict[Transaction, int] = {}
    low: dict[Transaction, int] = {}
    on_stack: set[Transaction] = set()
    stack: list[Transaction] = []
    found: list[list[Transaction]] = []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(edges.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(edges.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        group.append(stack.pop())
                        on_stack.discard(group[-1])
                        if group[-1] == node:
                            break
                    if len(group) > 1:
                        found.append(group)
    return found

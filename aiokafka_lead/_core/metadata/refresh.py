"""When to ask the cluster for metadata.

Three things lead to a refresh: the view is ``metadata_max_age_ms`` old; an event showed that leaders moved, or may
have; or the last answer left something open (a partition without leader, an answer older than what is known). They all
share one refresh at a time: whatever is asked for while one is under way causes one more, and no more than that (rule
21 of `_core.leadership`).

How long the next one waits depends on its `Reason`. Each answer without news doubles the wait of the reason that asked
for it, as does each failure. News end the wait of the reasons that asked for them, for leaders move in bursts. A reason
that did not ask before does not wait: a broker that has just gone is asked about at once, whatever the last refreshes
were for (rule 32). Where only the cluster can help, by electing leaders, the wait grows to ``retry_backoff_ms`` and no
further for `ELECTIONS_TAKE_S`: a cluster needs seconds until it takes a broker for dead, and then each partition waits
for the refresh that comes next. The same holds for a leader in doubt. Brokers that contradict each other bring news all
the time: that is why news that leave something open shorten a wait only so far.

Brokers lag, and some are wrong for ever: those that have answered in vain are asked after the others, and with a leader
in doubt a few are asked for each of its refusals (rule 33).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..backoff import Backoff
from ..trust import DOUBT_AFTER, patience_of

__all__ = [
    "FIRST_SPACING_MS",
    "HINTED",
    "LEADERLESS",
    "STALE",
    "Reason",
    "RefreshSchedule",
    "doubted",
    "lost",
    "refused",
]

FIRST_SPACING_MS = 10.0
"""The least time between two refreshes, and the first wait after an answer without news."""

CONTRADICTED = 3
"""Answers with news that leave something open count as this number without: the next one waits 80 ms at most."""

WITNESSES = 5
"""Brokers that are asked after the others since they have answered in vain. More would lead clients of a large cluster
to connect to all of it while it elects a leader, or lacks replicas."""

ELECTIONS_TAKE_S = 30.0
"""A cluster has elected new leaders in less, unless it cannot. Its brokers notice a dead one after 9 s by default."""


class Reason(NamedTuple):
    """Why metadata is asked for: the kind of event, and the broker that it is about (None: no single one)."""

    kind: str
    node_id: int | None = None

    @property
    def is_doubt(self) -> bool:
        """Return True if others are to be asked, and not the broker that it is about."""
        return self.kind == _DOUBTED


HINTED = Reason("hinted")
"""A broker named a new leader, which Metadata has yet to confirm (rule 8)."""
LEADERLESS = Reason("leaderless")
"""A partition that is needed has no leader at a known address."""
STALE = Reason("stale")
"""Anything else that shows that the view is old, or that a newer one is needed."""

_OPEN = Reason("open")
"""An answer left a partition without leader, or was older than what is known. Ended by an answer that does not."""

_LOST = "lost"
_DOUBTED = "doubted"
_ENDED_BY_ELECTIONS = frozenset({_LOST, _DOUBTED, LEADERLESS.kind, _OPEN.kind})


def refused(node_id: int) -> Reason:
    """The broker does not do what the view says it does, and could not name another one."""
    return Reason("refused", node_id)


def doubted(node_id: int) -> Reason:
    """The broker has refused for longer than patience lasts (rule 33): others are to be asked before it."""
    return Reason(_DOUBTED, node_id)


def lost(node_id: int) -> Reason:
    """The broker's connection was lost, or cannot be made, or the broker did not answer in time."""
    return Reason(_LOST, node_id)


class _Row:
    """Refreshes for one reason, one after the other."""

    __slots__ = ("answers", "asked", "began", "in_vain", "not_before", "since", "wanted", "witnesses")

    def __init__(self) -> None:
        self.wanted = False
        """Asked for, and not started yet."""
        self.in_vain = 0
        """Answers without news since the latest request."""
        self.asked = False
        """The refresh under way is for this reason."""
        self.since = math.inf
        """When the first refresh for this reason started."""
        self.answers = 0
        """Answers in a row without news."""
        self.began = -math.inf
        """When the first of them came."""
        self.not_before = -math.inf
        self.witnesses: dict[int, None] = {}
        """Brokers that were asked in vain; the latest last."""

    def hear(self, asked: Collection[int]) -> bool:
        """Note the brokers that were asked; return True if one of them was not noted before."""
        new = not self.witnesses.keys() >= set(asked)
        for node_id in asked:
            self.witnesses.pop(node_id, None)
            self.witnesses[node_id] = None
        while len(self.witnesses) > WITNESSES:
            del self.witnesses[next(iter(self.witnesses))]
        return new


class RefreshSchedule:
    """Decides when the next refresh is due. One refresh at a time: `started`, then `succeeded` or `failed`."""

    def __init__(self, max_age_ms: float, retry_backoff: Backoff) -> None:
        self._max_age_s = max_age_ms / 1000
        self._retry_backoff = retry_backoff
        first_ms = min(FIRST_SPACING_MS, retry_backoff.first_ms)
        self._spacing = Backoff(first_ms, retry_backoff.longest_ms, retry_backoff.rng)
        self._spacing_of_elections = Backoff(first_ms, retry_backoff.first_ms, retry_backoff.rng)
        self._rows: dict[Reason, _Row] = {}
        """The reasons of late; there are at most three for each broker, and four more."""
        self._asked_at: dict[int, float] = {}
        """When each broker answered last, or had no answer."""
        self._under_way: float | None = None
        """When the running refresh started."""
        self._expires = -math.inf
        """When what is known becomes too old."""
        self._not_before = -math.inf
        """No refresh before this, for any reason."""
        self._failures = 0
        """Refreshes in a row that got no answer."""

    @property
    def failures(self) -> int:
        """Refreshes in a row that got no answer."""
        return self._failures

    @property
    def doubted(self) -> set[int]:
        """The brokers whose view of the cluster is of least worth now."""
        return {reason.node_id for reason in self._rows if reason.is_doubt and reason.node_id is not None}

    def avoid(self, nodes: Collection[int]) -> set[int]:
        """Return the brokers that the refresh under way is to ask after the others of these: there always are some."""
        heard: dict[int, float] = {}
        for reason, row in self._rows.items():
            if reason.is_doubt and reason.node_id is not None:
                # It has its turn when the others have been asked.
                heard[reason.node_id] = max(row.since, self._asked_at.get(reason.node_id, -math.inf))
        for reason, row in self._rows.items():
            if row.asked or reason == _OPEN:
                for node_id in row.witnesses:
                    heard.setdefault(node_id, self._asked_at[node_id])
        while heard and heard.keys() >= set(nodes):
            # All have been asked: begin again with who was asked first.
            oldest = min(heard.values())
            heard = {node_id: at for node_id, at in heard.items() if at > oldest}
        return set(heard)

    def request(self, reason: Reason) -> None:
        """Ask for a refresh as soon as the spacing allows."""
        row = self._row(reason)
        row.wanted = True
        row.in_vain = 0

    def due_at(self) -> float:
        """When the next refresh is due; infinite while one is under way."""
        if self._under_way is not None:
            return math.inf
        wanted_at = min((row.not_before for row in self._rows.values() if row.wanted), default=math.inf)
        return max(min(wanted_at, self._expires), self._not_before)

    def lookup_at(self, wanted_at: float) -> float:
        """When topics that are not known yet may be asked for: only failures and a refresh under way hold them back."""
        if self._under_way is not None:
            return math.inf
        return max(wanted_at, self._not_before) if self._failures else wanted_at

    def started(self, now: float, *, full: bool = True) -> None:
        """A refresh begins; what is asked for from now on causes another. A partial one (``full`` is false) looks up
        single topics and does not count as the refresh that was asked for."""
        if full:
            for row in self._rows.values():
                row.asked, row.wanted = row.wanted, False
                if row.asked:
                    row.since = min(row.since, now)
        self._under_way = now

    def succeeded(
        self,
        now: float,
        answered_by: int,
        *,
        changed: bool,
        complete: bool,
        full: bool = True,
        unhelpful: Iterable[int] = (),
        out_of_reach: Iterable[int] = (),
    ) -> None:
        """The refresh was answered; ``changed`` and ``complete`` are those of `metadata.Applied`. Brokers that were
        asked before were ``unhelpful``. Those that lead in the new view and are ``out_of_reach`` are asked about again.
        """
        took = self._finish(now)
        self._failures = 0
        asked = [*unhelpful, answered_by]
        self._asked_at.update(dict.fromkeys(asked, now))
        if not complete:
            open_row = self._row(_OPEN)
            open_row.wanted = True
            if full:
                open_row.asked = True  # this answer is the first of its row
            else:
                open_row.hear(asked)
        for node_id in out_of_reach:
            self.request(lost(node_id))
        if not full:
            return
        if complete:
            self._rows.pop(_OPEN, None)
        self._expires = now + self._max_age_s
        for reason, row in list(self._rows.items()):
            if row.asked:
                self._space(reason, row, now, changed=changed, complete=complete)
                row.in_vain += 1
                # Several at first; then each refusal leads to the next one, so that refusals bound the requests. The
                # broker in doubt is asked besides.
                more = row.hear(asked) or (answered_by == reason.node_id and row.in_vain == 1)
                if more and reason.is_doubt and not changed and row.in_vain < DOUBT_AFTER:
                    row.wanted = True
            elif not row.wanted and self._is_over(reason, row, now):
                del self._rows[reason]
        # Never closer together than they take: large answers must not keep the event loop busy.
        self._not_before = now + max(took, self._spacing.delay_s(1))

    def failed(self, now: float) -> None:
        """Nobody answered: try again after the backoff."""
        self._finish(now)
        self._failures += 1
        self.request(STALE)
        for row in self._rows.values():
            row.wanted = row.wanted or row.asked
            row.asked = False
        self._not_before = now + self._retry_backoff.delay_s(self._failures)

    def _row(self, reason: Reason) -> _Row:
        row = self._rows.get(reason)
        if row is None:
            row = self._rows[reason] = _Row()
        return row

    def _space(self, reason: Reason, row: _Row, now: float, *, changed: bool, complete: bool) -> None:
        """An answer to this reason's refresh: when the next one for it may start."""
        if (changed and complete) or self._is_over(reason, row, now):
            row.answers = 0
            if not reason.is_doubt:
                row.witnesses.clear()
        elif changed:
            row.answers = min(row.answers, CONTRADICTED)
        if not row.answers:
            row.began = now
        row.answers += 1
        row.asked = False
        electing = reason.kind in _ENDED_BY_ELECTIONS and now - row.began < ELECTIONS_TAKE_S
        spacing = self._spacing_of_elections if electing else self._spacing
        row.not_before = now + spacing.delay_s(row.answers)

    def _is_over(self, reason: Reason, row: _Row, now: float) -> bool:
        """Whether a row's last answer without news is so old that the next one begins a new row."""
        longest_ms = self._spacing.longest_ms
        # A broker in doubt is tried again only after the longest backoff.
        limit_s = patience_of(longest_ms) if reason.is_doubt else longest_ms / 1000
        return now - row.not_before > limit_s

    def _finish(self, now: float) -> float:
        assert self._under_way is not None
        took = now - self._under_way
        self._under_way = None
        return took

"""Timing of metadata requests.

A refresh has one of three causes:

- The metadata is older than ``metadata_max_age_ms``.
- An event showed that leaders have moved, or may have moved.
- The last response was incomplete: a partition had no leader, or the response was older than the client's metadata.

Only one refresh runs at a time. All requests for a refresh that arrive while one is running cause exactly one more
(rule 21 of `_core.leadership`).

The delay before the next refresh is kept for each `Reason`. It doubles when a response brings no news for that reason,
or when the refresh fails. It is reset when a response brings news, because leaders often move in bursts. A new reason
does not wait: a lost broker causes a refresh immediately, regardless of earlier refreshes (rule 32).

If only an election can help, the delay grows to ``retry_backoff_ms`` and no further for the first `ELECTIONS_TAKE_S`. A
cluster needs seconds to declare a broker dead, and its partitions stay unavailable until the next refresh. Brokers that
contradict each other bring news with every response, so incomplete news shortens a delay only in part.

Some brokers lag, and some stay wrong. Brokers whose responses did not help are asked last. While a partition's leader
keeps refusing requests, each refusal causes metadata requests to a few other brokers (rule 33).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence, Set

from ..._values import NamedTuple
from ..backoff import Backoff
from ..trust import DOUBT_AFTER, patience_of

FIRST_SPACING_MS = 10.0
"""Minimum interval in milliseconds between two refreshes, and the first delay after a response without news."""

CONTRADICTED = 3
"""Maximum number of responses without news that count for the delay after incomplete news (80 ms)."""

WITNESSES = 5
"""Number of brokers to remember because their responses did not help. They are asked after all others.

With a higher number, the clients of a large cluster would connect to all of its brokers while it elects a leader or
lacks replicas.
"""

ELECTIONS_TAKE_S = 30.0
"""Maximum duration of an election in seconds. By default, a cluster notices a dead broker after 9 s."""


class Reason(NamedTuple):
    """The reason for a metadata request: the kind of event, and the broker concerned, or None."""

    kind: str
    node_id: int | None = None

    @property
    def is_doubt(self) -> bool:
        """True if the broker concerned has refused for too long, so that other brokers should be asked instead."""
        return self.kind == _DOUBTED


HINTED = Reason("hinted")
"""A broker has named a new leader that Metadata has not confirmed yet (rule 8)."""
LEADERLESS = Reason("leaderless")
"""A partition that the client needs has no leader, or a leader whose address is unknown."""
STALE = Reason("stale")
"""Any other sign that the client's metadata is outdated."""

_OPEN = Reason("open")
"""A response lacked a partition's leader, or was older than the client's metadata. A complete response ends this."""

_LOST = "lost"
_DOUBTED = "doubted"
_ENDED_BY_ELECTIONS = frozenset({_LOST, _DOUBTED, LEADERLESS.kind, _OPEN.kind})


def refused(node_id: int) -> Reason:
    """Return the reason for a broker that refused a request it should serve, without naming another leader."""
    return Reason("refused", node_id)


def doubted(node_id: int) -> Reason:
    """Return the reason for a broker that has refused for too long (rule 33). It is asked last."""
    return Reason(_DOUBTED, node_id)


def lost(node_id: int) -> Reason:
    """Return the reason for a broker whose connection failed or was lost, or that did not answer in time."""
    return Reason(_LOST, node_id)


class _Row:
    """Tracks the refreshes for one reason, and their results."""

    __slots__ = ("answers", "asked", "began", "in_vain", "not_before", "since", "wanted", "witnesses")

    def __init__(self) -> None:
        self.wanted = False
        """True if a refresh has been requested for this reason but has not started yet."""
        self.in_vain = 0
        """Number of responses without news since the latest request."""
        self.asked = False
        """True if the current refresh is for this reason."""
        self.since = math.inf
        """Start of the first refresh for this reason."""
        self.answers = 0
        """Number of responses without news in the current series."""
        self.began = -math.inf
        """Time of the first of these responses."""
        self.not_before = -math.inf
        self.witnesses: dict[int, None] = {}
        """Brokers whose responses did not help. The latest is last."""

    def hear(self, asked: Collection[int]) -> bool:
        """Add the brokers that were asked to ``witnesses``. Return True if any of them is new."""
        new = not self.witnesses.keys() >= set(asked)
        for node_id in asked:
            self.witnesses.pop(node_id, None)
            self.witnesses[node_id] = None
        while len(self.witnesses) > WITNESSES:
            del self.witnesses[next(iter(self.witnesses))]
        return new


class RefreshSchedule:
    """Decides when the next refresh is due.

    There is one refresh at a time: call `started`, then `succeeded`, `failed` or `stopped`.
    """

    def __init__(self, max_age_ms: float, retry_backoff: Backoff) -> None:
        self._max_age_s = max_age_ms / 1000
        self._retry_backoff = retry_backoff
        self._patience_s = patience_of(retry_backoff.longest_ms)
        first_ms = min(FIRST_SPACING_MS, retry_backoff.first_ms)
        self._spacing = Backoff(first_ms, retry_backoff.longest_ms, retry_backoff.rng)
        self._spacing_of_elections = Backoff(first_ms, retry_backoff.first_ms, retry_backoff.rng)
        self._rows: dict[Reason, _Row] = {}
        """The recent reasons. There are at most three per broker, and four that concern no broker."""
        self._asked_at: dict[int, float] = {}
        """Time at which each broker last responded or failed to respond."""
        self._under_way: float | None = None
        """Time at which the current refresh started."""
        self._expires = -math.inf
        """Time at which the metadata becomes too old."""
        self._not_before = -math.inf
        """Earliest time of the next refresh, for any reason."""
        self._failures = 0
        """Number of consecutive refreshes without a response."""
        self._at_a_loss_since = self._at_a_loss_at = -math.inf
        """Start and end of the latest period in which no known broker was able to help."""

    @property
    def failures(self) -> int:
        """Number of consecutive refreshes without a response."""
        return self._failures

    @property
    def doubted(self) -> set[int]:
        """Brokers that have refused for too long, so their metadata is trusted least."""
        return {reason.node_id for reason in self._rows if reason.is_doubt and reason.node_id is not None}

    def at_a_loss(self, nodes: Collection[int], now: float) -> bool:
        """Return True if no known broker helps, or none did until recently. Bootstrap servers are then asked."""
        in_vain = [(reason, row.witnesses) for reason, row in self._rows.items() if self._is_in_vain(reason, row, now)]
        if self._failures >= DOUBT_AFTER or any(
            len(asked) >= WITNESSES or asked.keys() >= {*nodes} - {reason.node_id} for reason, asked in in_vain
        ):
            if now - self._at_a_loss_at > self._patience_s:
                self._at_a_loss_since = now
            self._at_a_loss_at = now
        return self._lasts(now)

    def loss_s(self, now: float) -> float:
        """Return the seconds for which no known broker's response has helped."""
        return now - self._at_a_loss_since if self._lasts(now) else 0.0

    def least_trusted(self, nodes: Collection[int], denying: Set[int], *, full: bool) -> Sequence[Set[int]]:
        """Return the brokers to ask last, as sets, the most important set first.

        ``denying`` are brokers that deny the existence of a topic. A look-up of topics (``full`` is False) avoids them
        first. In a full refresh, their information about other topics matters more.
        """
        avoid = self.avoid(nodes)
        return (avoid, denying) if full else (denying, avoid)

    def avoid(self, nodes: Collection[int]) -> set[int]:
        """Return the brokers to ask last, because their responses did not help. Never returns all of ``nodes``."""
        # The known brokers do not help. Ask each bootstrap server that has not been asked since then before them. After
        # a reconnection, a server counts as not asked, because its name may lead to another broker.
        fresh = {node_id for node_id in nodes if node_id < 0 and self._asked(node_id) < self._at_a_loss_since}
        if fresh:
            return {*nodes} - fresh
        heard: dict[int, float] = {}
        for reason, row in self._rows.items():
            if reason.is_doubt and reason.node_id is not None:
                # This broker is asked again after all other brokers have been asked.
                heard[reason.node_id] = max(row.since, self._asked(reason.node_id))
        for reason, row in self._rows.items():
            if row.asked or reason == _OPEN:
                for node_id in row.witnesses:
                    heard.setdefault(node_id, self._asked_at[node_id])
        while heard and heard.keys() >= set(nodes):
            # All have been asked. Start over with the broker that was asked longest ago.
            oldest = min(heard.values())
            heard = {node_id: at for node_id, at in heard.items() if at > oldest}
        return set(heard)

    def request(self, reason: Reason) -> None:
        """Request a refresh as soon as the delay for this reason allows."""
        row = self._row(reason)
        row.wanted = True
        row.in_vain = 0

    def due_at(self) -> float:
        """Return the time at which the next refresh is due, or infinity during a refresh."""
        if self._under_way is not None:
            return math.inf
        wanted_at = min((row.not_before for row in self._rows.values() if row.wanted), default=math.inf)
        return max(min(wanted_at, self._expires), self._not_before)

    def lookup_at(self, wanted_at: float) -> float:
        """Return the time at which unknown topics may be requested. Only failures and a running refresh delay it."""
        if self._under_way is not None:
            return math.inf
        return max(wanted_at, self._not_before) if self._failures else wanted_at

    def started(self, now: float, *, full: bool = True) -> None:
        """Record the start of a refresh. Reasons requested after this cause another refresh.

        A partial refresh (``full`` is False) looks up single topics, so it does not satisfy the requested reasons.
        """
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
        moved: Collection[int] = (),
        unhelpful: Iterable[int] = (),
        out_of_reach: Iterable[int] = (),
        leading: Set[int] = frozenset(),
        left: bool = False,
        asked_at: float | None = None,
    ) -> None:
        """Record a response.

        - ``changed``, ``complete`` and ``moved`` are the fields of `metadata.Applied`.
        - ``unhelpful`` are the brokers that were asked earlier in this refresh.
        - ``out_of_reach`` are leaders that cannot be reached. Each causes another refresh.
        - ``leading`` are brokers that still lead a partition although they are lost or refuse. Refreshes about them
          continue even if the response brought news, because brokers that contradict each other bring news all the
          time.
        - ``left`` is True if the client disconnected from the bootstrap server that answered, because its name may lead
          to a broker with newer metadata.
        - ``asked_at`` is the time of the request; by default the start of the refresh.
        """
        began = self._finish()
        for reason in [reason for reason in self._rows if reason.node_id in moved]:
            # The reason concerned the broker's former address. More refreshes could bring that address back.
            del self._rows[reason]
        self._failures = 0
        asked = [*unhelpful, answered_by]
        self._asked_at.update(dict.fromkeys(asked, now))
        if left:
            self._asked_at[answered_by] = -math.inf
        if not complete:
            open_row = self._row(_OPEN)
            open_row.wanted = True
            if full:
                open_row.asked = True  # this response is the first of its series
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
            leads = reason.node_id in leading
            news = changed and complete and not (reason.is_doubt and leads)
            if row.asked:
                self._space(reason, row, now, changed=changed, news=news, leads=leads)
                row.in_vain += 1
                # After a new refusal, ask a few brokers in a row. From then on each refusal causes one request, which
                # limits the rate. The refusing broker itself may be asked, and so may a bootstrap server that leads to
                # it.
                more = row.hear(asked) or answered_by == reason.node_id or answered_by < 0
                if more and reason.is_doubt and not news and row.in_vain < DOUBT_AFTER:
                    row.wanted = True
            elif not row.wanted and self._is_over(reason, row, now):
                del self._rows[reason]
            elif reason.is_doubt and not news:
                row.hear(asked)  # the refresh had another reason, but its response did not help with this one either
        # Wait at least as long as the response took to process, so that large responses do not keep the event loop
        # busy. The time spent on connecting and on silent brokers does not count, because it did not block the loop.
        took = now - (began if asked_at is None else asked_at)
        self._not_before = now + max(took, self._spacing.delay_s(1))

    def failed(self, now: float) -> None:
        """Record a refresh without a response. It is repeated after a backoff."""
        self.stopped()
        self._failures += 1
        self.request(STALE)
        self._not_before = now + self._retry_backoff.delay_s(self._failures)

    def stopped(self) -> None:
        """Record that a refresh was stopped before it had a result. Its reasons are requested again."""
        self._finish()
        for row in self._rows.values():
            row.wanted = row.wanted or row.asked
            row.asked = False

    def _lasts(self, now: float) -> bool:
        """Return True if no known broker was able to help within the last ``patience_s`` seconds."""
        return now - self._at_a_loss_at <= self._patience_s

    def _asked(self, node_id: int) -> float:
        """Return the time at which a broker last responded or failed to respond, or -infinity if it never did."""
        return self._asked_at.get(node_id, -math.inf)

    def _row(self, reason: Reason) -> _Row:
        row = self._rows.get(reason)
        if row is None:
            row = self._rows[reason] = _Row()
        return row

    def _space(self, reason: Reason, row: _Row, now: float, *, changed: bool, news: bool, leads: bool) -> None:
        """Set the delay before the next refresh for this reason, depending on a response."""
        over = self._is_over(reason, row, now)
        if news or over:
            row.answers = 0
            if not reason.is_doubt:
                row.witnesses.clear()
        elif changed:
            row.answers = min(row.answers, CONTRADICTED)
        # News may shorten the delay, but does not extend the time allowed for an election.
        if over or not (row.answers or leads):
            row.began = now
        row.answers += 1
        row.asked = False
        electing = reason.kind in _ENDED_BY_ELECTIONS and now - row.began < ELECTIONS_TAKE_S
        spacing = self._spacing_of_elections if electing else self._spacing
        row.not_before = now + spacing.delay_s(row.answers)

    def _is_in_vain(self, reason: Reason, row: _Row, now: float) -> bool:
        """Return True if the known brokers' responses do not help with this reason.

        Responses without a leader do not count during the first ``retry_backoff_max_ms``, because an election takes
        time.
        """
        if row.answers < DOUBT_AFTER or self._is_over(reason, row, now):
            return False
        return reason.is_doubt or (
            reason.kind in _ENDED_BY_ELECTIONS and now - row.began >= self._spacing.longest_ms / 1000
        )

    def _is_over(self, reason: Reason, row: _Row, now: float) -> bool:
        """Return True if the next response starts a new series, because the last one without news is too old."""
        longest_ms = self._spacing.longest_ms
        # A broker that keeps refusing is tried again only after the longest backoff.
        limit_s = patience_of(longest_ms) if reason.is_doubt else longest_ms / 1000
        return now - row.not_before > limit_s

    def _finish(self) -> float:
        """End the current refresh. Return the time at which it started."""
        assert self._under_way is not None
        began, self._under_way = self._under_way, None
        return began

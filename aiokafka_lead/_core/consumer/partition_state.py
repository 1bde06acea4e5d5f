"""What a consumer knows of one partition assigned to it: its position, and whether it may be fetched.

A partition goes through the states of `fetch_state`. Every way to another position leads through
`PartitionState.move` or `PartitionState.reset`, which change ``incarnation``: answers to requests of an earlier
incarnation are void, so a seek never has to chase what is in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...errors import KafkaError
from ...types import TopicPartition
from ..leadership.moves import MoveClock
from ..leadership.patience import Patience, RetryPolicy
from .fetch_state import POSITIONED, TRANSITIONS, FetchEvent
from .position import Position
from .reset_policy import ResetPolicy

if TYPE_CHECKING:
    from .chunk import Chunk
    from .fetched import FetchedData

__all__ = ["BEYOND_ANY_LOG", "PartitionState"]


BEYOND_ANY_LOG = 2**63 - 1
"""An offset that no record has."""


class PartitionState:
    """One assigned partition. Owned by `Positions`; fetches and their answers write to it through its methods."""

    __slots__ = (
        "_on_settle",
        "_position",
        "_touch",
        "base",
        "buffered_bytes",
        "chunk",
        "error",
        "failure",
        "fetch_epoch",
        "fetch_offset",
        "fetched",
        "high_watermark",
        "home",
        "incarnation",
        "is_late",
        "last_stable_offset",
        "log_start_offset",
        "looked_up",
        "move_clock",
        "patience",
        "paused",
        "preferred_replica",
        "preferred_until",
        "queued",
        "read_ahead",
        "reset_policy",
        "state",
        "still",
        "timer_at",
        "tp",
        "validated_epoch",
        "withheld",
    )

    def __init__(
        self, tp: TopicPartition, touch: Callable[[PartitionState], None], on_settle: Callable[[], None]
    ) -> None:
        self.tp = tp
        self.state = TRANSITIONS.first
        self.incarnation = 0
        """Grows whenever the position is set from outside: what was asked for before is void then."""
        self.paused = False
        """By the application."""
        self.withheld = False
        """By the group: it is being given up, or the listener has not heard of it yet."""
        self.still = False
        """For one of both reasons nothing of it is fetched or handed out."""
        self.is_late = False
        """Made while its topic was read already: "latest" then means all of it, so that no record is missed."""
        self.error: KafkaError | None = None
        """What keeps this partition from going on until the application moves it; raised from its reads."""
        self.reset_policy: ResetPolicy | None = None
        """In RESETTING: where to."""
        self.base: Position | None = None
        """Before this everything is committed, as far as known; or, where nothing is yet, reading began here."""
        self._position: Position | None = None
        self._touch = touch
        self._on_settle = on_settle

        self.chunk: Chunk | None = None
        """Decoded records that are being handed out; it then knows the position."""
        self.fetched: list[FetchedData] = []
        """Answers not yet handed out whole, in offset order. A few at most: a deque takes ten times the memory."""
        self.buffered_bytes = 0
        """The size of ``fetched``, as it was received."""
        self.queued = False
        """Whether the prefetch buffer has this partition in its queue."""

        self.fetch_offset = -1
        """Where the next fetch begins: behind what is buffered. Valid in the states of `POSITIONED`."""
        self.fetch_epoch = -1
        """The leader epoch of the batch before ``fetch_offset``."""
        self.home: int | None = None
        """The broker whose fetches include this partition. Written by the planner."""
        self.read_ahead = True
        """Whether to fetch while something is buffered. False after an answer that, true or not, moves the position:
        it is asked for again, and believed, when the application has everything before it."""
        self.looked_up = False
        """Whether a request for this incarnation's position (committed, reset, validation) is on its way."""
        self.validated_epoch = -1
        """The leader epoch that ``fetch_epoch`` was last checked against, for brokers without Fetch 12."""

        self.failure: KafkaError | None = None
        """Why the last request for its position failed."""
        self.patience = Patience()
        """When it may be fetched, or looked up, again."""
        self.move_clock = MoveClock()
        self.timer_at = 0.0
        """When the planner looks at this partition again by itself. Written by the planner."""
        self.preferred_replica = -1
        """The follower to read from (KIP-392), or -1 for the leader."""
        self.preferred_until = 0.0
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None

    # --- the position ------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """The next record that the application gets, or None while that is being found out."""
        if self.chunk is not None:
            return self.chunk.position()
        return self._position

    def advance(self, offset: int, leader_epoch: int) -> None:
        """Everything before this offset has been handed out, or holds nothing to hand out."""
        self._position = Position(offset, leader_epoch)

    def move(self, offset: int, leader_epoch: int = -1) -> None:
        """Go on from this offset. The caller has dropped what was buffered."""
        self._take(FetchEvent.MOVE)
        self._position = Position(offset, leader_epoch)
        if self.base is None:
            self.base = self._position
        self.fetch_offset = offset
        self.fetch_epoch = leader_epoch
        self._restart()
        self._on_settle()

    def reset(self, policy: ResetPolicy) -> None:
        """Find the position anew. The caller has dropped what was buffered."""
        self._take(FetchEvent.RESET)
        self.reset_policy = policy
        self._position = self.base = None
        self._restart()

    def go_back(self) -> None:
        """Find the committed offset again, and go on from there. The caller has dropped what was buffered."""
        self._take(FetchEvent.RETURN)
        self._position = None
        self._restart()

    @property
    def is_ahead(self) -> bool:
        """Whether records have been handed out that are not committed, as far as known."""
        position = self.position
        return position is not None and self.base is not None and position.offset > self.base.offset

    @property
    def log_is_gone(self) -> bool:
        """Whether the position is that of a log that is no more, and none was found yet in the one in its place."""
        return self.fetch_offset == BEYOND_ANY_LOG

    def _take(self, event: FetchEvent) -> None:
        self.state = TRANSITIONS.after(self.state, event)

    def _restart(self) -> None:
        self.incarnation += 1
        self.error = None
        self.failure = None
        self.looked_up = False
        self.read_ahead = True
        self.validated_epoch = -1
        self.patience.succeeded()
        self._touch(self)

    def fail(self, error: KafkaError) -> None:
        """Stop until the application seeks, and raise this from its reads."""
        self.error = error
        self._touch(self)
        self._on_settle()

    # --- fetching ----------------------------------------------------------------------------------------------------

    def received(self, offset: int, leader_epoch: int) -> None:
        """A fetch brought everything up to this offset."""
        self.fetch_offset = offset
        self.fetch_epoch = leader_epoch
        self._touch(self)

    def rewind(self) -> None:
        """Fetch again from the position, for what was fetched beyond it has been dropped, and any doubt about that.

        Where the log has been replaced, the position means nothing: the fetch that finds this out stays.
        """
        position = self._position
        if position is not None:
            offset, leader_epoch = position if self.fetch_offset != BEYOND_ANY_LOG else (BEYOND_ANY_LOG, -1)
            self._fetch_from(FetchEvent.REWIND, offset, leader_epoch)

    def log_replaced(self) -> None:
        """The topic was deleted and made anew: no offset or epoch of the old log means anything in the new one.

        What is buffered is handed out still. The next fetch asks for what no log has, so that the broker finds it out
        of range, and ``auto_offset_reset`` decides.
        """
        if self.state in POSITIONED:
            self._fetch_from(FetchEvent.LOG_REPLACED, BEYOND_ANY_LOG, -1)

    def _fetch_from(self, event: FetchEvent, offset: int, leader_epoch: int) -> None:
        """Fetch from here instead; what was asked about the former place is void."""
        self._take(event)
        self.incarnation += 1
        self.looked_up = False
        self.received(offset, leader_epoch)

    def touch(self) -> None:
        """Have the fetcher look at this partition again."""
        self._touch(self)

    def validate(self) -> None:
        """Ask the leader whether ``fetch_epoch`` still is part of its log before fetching on (KIP-320)."""
        self._take(FetchEvent.DOUBT)
        self.looked_up = False
        self._touch(self)

    def validated(self, leader_epoch: int) -> None:
        """The leader of this epoch has confirmed the fetch position."""
        self._take(FetchEvent.CONFIRM)
        self.validated_epoch = leader_epoch
        self.looked_up = False
        self.patience.succeeded()
        self._touch(self)

    def validate_later(self) -> None:
        """The answer counts only once everything before ``fetch_offset`` has been handed out: then ask again."""
        self._take(FetchEvent.POSTPONE)
        self.looked_up = False
        self._touch(self)

    def pause(self, paused: bool) -> None:
        """Stop or resume fetching and handing out; what is buffered stays."""
        self.paused = paused
        self._rest()

    def withhold(self, withheld: bool) -> None:
        """The same, for the group."""
        self.withheld = withheld
        self._rest()

    def _rest(self) -> None:
        self.still = self.paused or self.withheld
        self.move_clock.stop()
        self._touch(self)

    # --- failures ----------------------------------------------------------------------------------------------------

    def back_off(self, now: float, leader_epoch: int, retry: RetryPolicy, *, lagging_leader: bool = False) -> None:
        """The last request failed: wait, or go on at once when the leader epoch passes this one.

        ``lagging_leader`` says that the broker itself has said that it lags behind its election.
        """
        self.patience.failed(now, leader_epoch, retry, True, lagging_leader)
        self.looked_up = False
        self._touch(self)

    def read_from(self, replica: int, until: float) -> None:
        """Fetch from this follower until then (KIP-392)."""
        if replica != self.preferred_replica:
            self.preferred_replica = replica
            self.preferred_until = until
            self._touch(self)

    def read_from_leader(self) -> bool:
        """Fetch from the leader again; whether that is a change."""
        if self.preferred_replica < 0:
            return False
        self.preferred_replica = -1
        self._touch(self)
        return True

    def __repr__(self) -> str:
        where = f"position={self.position} fetch_offset={self.fetch_offset}"
        return f"<PartitionState {self.tp} {self.state.value} {where}>"

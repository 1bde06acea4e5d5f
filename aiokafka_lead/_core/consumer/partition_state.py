"""The state of one assigned partition: its position, and its readiness to be fetched.

Every change of position goes through `PartitionState.move` or `PartitionState.reset`, which change ``incarnation``.
Answers to requests of an earlier incarnation are void, so a seek never has to cancel requests in flight.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntFlag
from typing import TYPE_CHECKING

from ...errors import KafkaError
from ...types import TopicPartition
from ..leadership.patience import MoveClock, Patience, RetryPolicy
from ..transitions import Transitions
from .position import Position
from .reset_policy import ResetPolicy

if TYPE_CHECKING:
    from .chunk import Chunk
    from .fetched import FetchedData


class Pauser(IntFlag):
    """Those that may pause a partition."""

    APPLICATION = 1
    GROUP = 2
    """It is being given up, or the listener has not been notified of it yet."""
    SUBSCRIPTION = 4
    """Its topic is not subscribed to any more, and the group has not taken it away yet."""


class FetchState(Enum):
    """Stages on the way to fetching a partition."""

    INITIALIZING = "initializing"
    """The committed offset is being looked up, if there is a group."""
    RESETTING = "resetting"
    """ListOffsets is finding an offset."""
    VALIDATING = "validating"
    """The leader is being asked whether the epoch of the position is part of its log (KIP-320)."""
    FETCHING = "fetching"
    """Fetched, unless it is paused or has failed."""


class FetchEvent(Enum):
    """Events that lead from state to state."""

    MOVE = "move"
    """The position is known: it was committed, found, set by a seek, or is the offset of a truncation."""
    RESET = "reset"
    """The position must be found: no offset is committed, it is out of range, or the seek is to an end of the log."""
    RETURN = "return"
    """Return to the committed offset: a transaction was aborted, or the application requested it."""
    DOUBT = "doubt"
    """The new leader does not check positions itself (before Fetch 12)."""
    CONFIRM = "confirm"
    """The leader has confirmed the position."""
    POSTPONE = "postpone"
    """The leader's answer counts only after everything before the position has been handed out."""
    REWIND = "rewind"
    """Data fetched beyond the position has been dropped for lack of memory."""
    LOG_REPLACED = "log replaced"
    """The topic was deleted and recreated."""


POSITIONED = frozenset({FetchState.VALIDATING, FetchState.FETCHING})
"""The states that have a position."""

_FROM_EACH = {
    FetchEvent.MOVE: FetchState.FETCHING,
    FetchEvent.RESET: FetchState.RESETTING,
    FetchEvent.RETURN: FetchState.INITIALIZING,
}
_FROM_A_POSITION = {
    FetchEvent.REWIND: FetchState.FETCHING,
    FetchEvent.LOG_REPLACED: FetchState.FETCHING,
    **_FROM_EACH,
}

TRANSITIONS = Transitions(
    "a fetched partition",
    FetchState.INITIALIZING,
    {
        FetchState.INITIALIZING: _FROM_EACH,
        FetchState.RESETTING: _FROM_EACH,
        FetchState.VALIDATING: {
            FetchEvent.CONFIRM: FetchState.FETCHING,
            FetchEvent.POSTPONE: FetchState.FETCHING,
            **_FROM_A_POSITION,
        },
        FetchState.FETCHING: {FetchEvent.DOUBT: FetchState.VALIDATING, **_FROM_A_POSITION},
    },
)


BEYOND_ANY_LOG = 2**63 - 1
"""An offset beyond any record."""


class PartitionState:
    """One assigned partition. `Positions` owns it; fetches and their answers update it through its methods."""

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
        "paused_by",
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
    )

    def __init__(
        self, tp: TopicPartition, touch: Callable[[PartitionState], None], on_settle: Callable[[], None]
    ) -> None:
        self.tp = tp
        self.state = TRANSITIONS.first
        self.incarnation = 0
        """Increases whenever the position is set from outside, so that earlier requests are void."""
        self.paused_by = Pauser(0)
        self.still = False
        """True if anyone has paused it: it is not fetched, and nothing is handed out."""
        self.is_late = False
        """True if created while its topic was already being read: "latest" then misses no record."""
        self.error: KafkaError | None = None
        """The error that stops this partition until the application seeks; raised from its reads."""
        self.reset_policy: ResetPolicy | None = None
        """In RESETTING: the target."""
        self.base: Position | None = None
        """Position up to which all records are committed, as far as known; otherwise the start of reading."""
        self._position: Position | None = None
        self._touch = touch
        self._on_settle = on_settle

        self.chunk: Chunk | None = None
        """Decoded records that are being handed out. While set, they determine the position."""
        self.fetched: list[FetchedData] = []
        """Answers not yet fully handed out, in offset order. A deque would take ten times the memory for these few."""
        self.buffered_bytes = 0
        """The size of ``fetched``, as received."""
        self.queued = False
        """True if this partition is in the prefetch buffer's queue."""

        self.fetch_offset = -1
        """Offset of the next fetch: after the buffered data. Valid in the states of `POSITIONED`."""
        self.fetch_epoch = -1
        """The leader epoch of the batch before ``fetch_offset``."""
        self.home: int | None = None
        """The broker whose fetches include this partition. Written by the planner."""
        self.read_ahead = True
        """True if it may be fetched while data is buffered. False after an answer that would move the position: it is
        requested again once the application has all records before it, and counts then."""
        self.looked_up = False
        """True while a request for this incarnation's position (committed, reset, validation) is in flight."""
        self.validated_epoch = -1
        """The leader epoch against which ``fetch_epoch`` was last checked, for brokers without Fetch 12."""

        self.failure: KafkaError | None = None
        """Error of the last request for its position."""
        self.patience = Patience()
        """Decides when it may be fetched, or looked up, again."""
        self.move_clock = MoveClock()
        self.timer_at = 0.0
        """Time at which the planner examines this partition next. Written by the planner."""
        self.preferred_replica = -1
        """The follower to read from (KIP-392), or -1 for the leader."""
        self.preferred_until = 0.0
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None

    # --- the position ------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """Position of the next record for the application, or None while unknown."""
        if self.chunk is not None:
            return self.chunk.position()
        return self._position

    def advance(self, offset: int, leader_epoch: int) -> None:
        """Set the position to this offset: every existing record before it has been handed out."""
        self._position = Position(offset, leader_epoch)

    def move(self, offset: int, leader_epoch: int = -1) -> None:
        """Continue from this offset. The caller has dropped the buffered data."""
        self._take(FetchEvent.MOVE)
        self._position = Position(offset, leader_epoch)
        if self.base is None:
            self.base = self._position
        self.fetch_offset = offset
        self.fetch_epoch = leader_epoch
        self._restart()
        self._on_settle()

    def reset(self, policy: ResetPolicy) -> None:
        """Find the position again with this policy. The caller has dropped the buffered data."""
        self._take(FetchEvent.RESET)
        self.reset_policy = policy
        self._position = self.base = None
        self._restart()

    def go_back(self) -> None:
        """Find the committed offset again, and continue from there. The caller has dropped the buffered data."""
        self._take(FetchEvent.RETURN)
        self._position = None
        self._restart()

    @property
    def is_ahead(self) -> bool:
        """True if uncommitted records have been handed out, as far as known."""
        position = self.position
        return position is not None and self.base is not None and position.offset > self.base.offset

    @property
    def log_is_gone(self) -> bool:
        """True if the position belongs to a log that no longer exists, and was not found yet in the new log."""
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
        """Stop until the application seeks, and raise this error from its reads."""
        self.error = error
        self._touch(self)
        self._on_settle()

    # --- fetching ----------------------------------------------------------------------------------------------------

    def received(self, offset: int, leader_epoch: int) -> None:
        """Record that all records before this offset have been fetched."""
        self.fetch_offset = offset
        self.fetch_epoch = leader_epoch
        self._touch(self)

    def rewind(self) -> None:
        """Fetch again from the position: the data beyond it has been dropped, and with it any pending validation.

        After `log_replaced` do nothing: the position is meaningless, and the fetch beyond any log must stay.
        """
        position = self._position
        if position is not None:
            offset, leader_epoch = position if self.fetch_offset != BEYOND_ANY_LOG else (BEYOND_ANY_LOG, -1)
            self._fetch_from(FetchEvent.REWIND, offset, leader_epoch)

    def log_replaced(self) -> None:
        """Handle a recreated topic: no offset or epoch of the old log is valid in the new log.

        Buffered records are still handed out. The next fetch requests an offset beyond any log, so that the broker
        reports it as out of range, and ``auto_offset_reset`` decides.
        """
        if self.state in POSITIONED:
            self._fetch_from(FetchEvent.LOG_REPLACED, BEYOND_ANY_LOG, -1)

    def _fetch_from(self, event: FetchEvent, offset: int, leader_epoch: int) -> None:
        """Fetch from this offset; answers about the former fetch offset are void."""
        self._take(event)
        self.incarnation += 1
        self.looked_up = False
        self.received(offset, leader_epoch)

    def touch(self) -> None:
        """Have the fetcher examine this partition again."""
        self._touch(self)

    def validate(self) -> None:
        """Have the leader confirm that ``fetch_epoch`` is part of its log before the next fetch (KIP-320)."""
        self._take(FetchEvent.DOUBT)
        self.looked_up = False
        self._touch(self)

    def validated(self, leader_epoch: int) -> None:
        """Record that the leader of this epoch has confirmed the fetch position."""
        self._take(FetchEvent.CONFIRM)
        self.validated_epoch = leader_epoch
        self.looked_up = False
        self.patience.succeeded()
        self._touch(self)

    def validate_later(self) -> None:
        """Ask again once all records before ``fetch_offset`` have been handed out; only then does the answer count."""
        self._take(FetchEvent.POSTPONE)
        self.looked_up = False
        self._touch(self)

    @property
    def paused(self) -> bool:
        """True if paused by the application."""
        return Pauser.APPLICATION in self.paused_by

    def pause(self, by: Pauser = Pauser.APPLICATION) -> None:
        """Stop fetching and handing out until `resume`; buffered data stays."""
        self._set_paused_by(self.paused_by | by)

    def resume(self, by: Pauser = Pauser.APPLICATION) -> None:
        """Undo `pause`. The partition rests until all that have paused it resume it."""
        self._set_paused_by(self.paused_by & ~by)

    def _set_paused_by(self, paused_by: Pauser) -> None:
        self.paused_by = paused_by
        self.still = bool(paused_by)
        self.move_clock.stop()
        self._touch(self)

    # --- failures ----------------------------------------------------------------------------------------------------

    def back_off(self, now: float, leader_epoch: int, retry: RetryPolicy, *, lagging_leader: bool = False) -> None:
        """Delay the next request after a failure; a leader epoch after ``leader_epoch`` ends the delay.

        ``lagging_leader`` is True if the broker has reported that it has not processed its election yet.
        """
        self.patience.failed(now, leader_epoch, retry, True, lagging_leader)
        self.looked_up = False
        self._touch(self)

    def read_from(self, replica: int, until: float) -> None:
        """Fetch from this follower until that time (KIP-392)."""
        if replica != self.preferred_replica:
            self.preferred_replica = replica
            self.preferred_until = until
            self._touch(self)

    def read_from_leader(self) -> bool:
        """Fetch from the leader again; return True if that is a change."""
        if self.preferred_replica < 0:
            return False
        self.preferred_replica = -1
        self._touch(self)
        return True

    def __repr__(self) -> str:
        where = f"position={self.position} fetch_offset={self.fetch_offset}"
        return f"<PartitionState {self.tp} {self.state.value} {where}>"

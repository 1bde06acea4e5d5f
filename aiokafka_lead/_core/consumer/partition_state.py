"""State of one assigned partition: its position, and its readiness to be fetched.

Every change of the position goes through `PartitionState.move` or `PartitionState.reset`, which change ``incarnation``.
Responses to requests from an earlier incarnation are ignored, so a seek never has to cancel requests in flight.
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
    """The parties that may pause a partition. While any of them does, the partition is not read."""

    APPLICATION = 1
    GROUP = 2
    """The partition is being given up, or the rebalance listener has not been called for it yet."""
    SUBSCRIPTION = 4
    """The partition's topic is no longer subscribed, and the group has not revoked the partition yet."""


class FetchState(Enum):
    """Stages that a partition passes through before it is fetched."""

    INITIALIZING = "initializing"
    """The committed offset is being fetched, if there is a group."""
    RESETTING = "resetting"
    """An offset is being looked up with ListOffsets."""
    VALIDATING = "validating"
    """The leader is being asked if the epoch of the position is part of its log (KIP-320)."""
    FETCHING = "fetching"
    """The partition is being fetched, unless it is paused or has failed."""


class FetchEvent(Enum):
    """Events that move a partition to another stage."""

    MOVE = "move"
    """The position is known. It was committed, looked up, set by a seek, or moved after a truncation."""
    RESET = "reset"
    """The position must be looked up.

    No offset is committed, it is out of range, or the seek is to an end of the log.
    """
    RETURN = "return"
    """Return to the committed offset, because a transaction was aborted or the application requested it."""
    DOUBT = "doubt"
    """The position must be validated, because the new leader does not check positions in Fetch (before version 12)."""
    CONFIRM = "confirm"
    """The leader has confirmed the position."""
    POSTPONE = "postpone"
    """The leader's response can be used only after all records before the position have been handed out."""
    REWIND = "rewind"
    """Data that was fetched beyond the position was dropped, to free memory."""
    LOG_REPLACED = "log replaced"
    """The topic was deleted and recreated."""


POSITIONED = frozenset({FetchState.VALIDATING, FetchState.FETCHING})
"""Stages in which the position is known."""

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
"""An offset beyond the end of any log."""


class PartitionState:
    """The state of one assigned partition.

    It belongs to `Positions`. Fetches and their responses update it through its methods.
    """

    __slots__ = (
        "_former",
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
        """Increases whenever the position is set from outside, which invalidates earlier requests."""
        self.paused_by = Pauser(0)
        self.still = False
        """True if the partition is paused for any reason. It is not fetched, and its records are not handed out."""
        self.is_late = False
        """True if the topic was already being read when this partition was created, so "latest" must not skip any
        record.
        """
        self.error: KafkaError | None = None
        """The error that stops this partition until the application seeks, or None. Reads raise it."""
        self.reset_policy: ResetPolicy | None = None
        """The reset policy in stage RESETTING."""
        self.base: Position | None = None
        """Position up to which all records are known to be committed.

        If none is known, the position at which reading began.
        """
        self._position: Position | None = None
        self._former: Position | None = None
        """After `log_replaced`: the offset and the epoch of the next fetch from the former log, if it comes back."""
        self._touch = touch
        self._on_settle = on_settle

        self.chunk: Chunk | None = None
        """Decoded records that are being handed out. While it is set, it determines the position."""
        self.fetched: list[FetchedData] = []
        """Responses that are not fully handed out, in offset order.

        A list, because a deque of so few objects would take ten times the memory.
        """
        self.buffered_bytes = 0
        """Size in bytes of ``fetched``, as received."""
        self.queued = False
        """True if the partition is in the queue of `Prefetch`."""

        self.fetch_offset = -1
        """Offset of the next fetch, after the buffered data. Valid in the stages of `POSITIONED`."""
        self.fetch_epoch = -1
        """Leader epoch of the batch before ``fetch_offset``."""
        self.home: int | None = None
        """The broker from which the partition is fetched, or None. Set by the planner."""
        self.read_ahead = True
        """True if the partition may be fetched while data is buffered.

        It becomes False after a response that would move the position. Once the application has received all earlier
        records, the offset is fetched again, and the new response may move the position.
        """
        self.looked_up = False
        """True while a request for this incarnation's position is in flight."""
        self.validated_epoch = -1
        """Leader epoch for which ``fetch_epoch`` was last validated, for brokers without Fetch 12."""

        self.failure: KafkaError | None = None
        """Error of the last request for the position, or None."""
        self.patience = Patience()
        """Decides when the partition may be fetched or looked up again after a failure."""
        self.move_clock = MoveClock()
        self.timer_at = 0.0
        """Time at which the planner will examine the partition again. Set by the planner."""
        self.preferred_replica = -1
        """The follower from which to read (KIP-392), or -1 for the leader."""
        self.preferred_until = 0.0
        self.high_watermark: int | None = None
        self.last_stable_offset: int | None = None
        self.log_start_offset: int | None = None

    # --- the position ------------------------------------------------------------------------------------------------

    @property
    def position(self) -> Position | None:
        """Position of the next record for the application, or None if it is unknown."""
        if self.chunk is not None:
            return self.chunk.position()
        return self._position

    def advance(self, offset: int, leader_epoch: int) -> None:
        """Set the position to this offset. All records before it have been handed out."""
        self._position = Position(offset, leader_epoch)

    def move(self, offset: int, leader_epoch: int = -1) -> None:
        """Continue from this offset. The caller must have dropped the buffered data."""
        self._take(FetchEvent.MOVE)
        self._position = Position(offset, leader_epoch)
        if self.base is None:
            self.base = self._position
        self.fetch_offset = offset
        self.fetch_epoch = leader_epoch
        self._restart()
        self._on_settle()

    def reset(self, policy: ResetPolicy) -> None:
        """Look up the position with this policy. The caller must have dropped the buffered data."""
        self._take(FetchEvent.RESET)
        self.reset_policy = policy
        self._position = self.base = None
        self._restart()

    def go_back(self) -> None:
        """Fetch the committed offset again, and continue from there. The caller must have dropped the buffered data."""
        self._take(FetchEvent.RETURN)
        self._position = None
        self._restart()

    @property
    def is_ahead(self) -> bool:
        """True if uncommitted records are known to have been handed out."""
        position = self.position
        return position is not None and self.base is not None and position.offset > self.base.offset

    @property
    def log_is_gone(self) -> bool:
        """True if the position belongs to a deleted log, and no position in the new log is known yet."""
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
        """Stop reading until the application seeks. Reads raise this error."""
        self.error = error
        self._touch(self)
        self._on_settle()

    # --- fetching ----------------------------------------------------------------------------------------------------

    def received(self, offset: int, leader_epoch: int) -> None:
        """Fetch from this offset next, because all earlier records have been received."""
        self.fetch_offset = offset
        self.fetch_epoch = leader_epoch
        self._touch(self)

    def rewind(self) -> None:
        """Fetch again from the position, because the data beyond it was dropped. Also cancels a pending validation.

        After `log_replaced`, the position is meaningless, so the next fetch still uses an offset beyond any log.
        """
        position = self._position
        if position is not None and self.log_is_gone:
            if self._former is not None:
                self._former = position
            self._fetch_from(FetchEvent.REWIND, BEYOND_ANY_LOG, -1)
        elif position is not None:
            self._fetch_from(FetchEvent.REWIND, *position)

    def log_replaced(self) -> None:
        """Handle a recreated topic. No offset or epoch of the old log is valid in the new log.

        Buffered records are still handed out. The next fetch uses an offset beyond any log. The broker reports it as
        out of range, and then ``auto_offset_reset`` decides.
        """
        if self.state in POSITIONED:
            self._former = None if self.log_is_gone else Position(self.fetch_offset, self.fetch_epoch)
            self._fetch_from(FetchEvent.LOG_REPLACED, BEYOND_ANY_LOG, -1)

    def log_returned(self) -> None:
        """Undo `log_replaced`: the former log is the right one, and a lagging broker had described another.

        If the position was already set in the other log, handle this as another replacement.
        """
        if self.state in POSITIONED and self.log_is_gone and self._former is not None:
            self.read_ahead = True
            self._fetch_from(FetchEvent.REWIND, *self._former)
        else:
            self.log_replaced()

    def _fetch_from(self, event: FetchEvent, offset: int, leader_epoch: int) -> None:
        """Fetch from this offset next. Responses for the former offset are ignored."""
        self._take(event)
        self.incarnation += 1
        self.looked_up = False
        self.received(offset, leader_epoch)

    def touch(self) -> None:
        """Let the planner examine this partition again in its next run."""
        self._touch(self)

    def validate(self) -> None:
        """Ask the leader, before the next fetch, to confirm that ``fetch_epoch`` is part of its log (KIP-320)."""
        self._take(FetchEvent.DOUBT)
        self.looked_up = False
        self._touch(self)

    def validated(self, leader_epoch: int) -> None:
        """Record that the leader of this epoch has confirmed the position, so fetching may continue."""
        self._take(FetchEvent.CONFIRM)
        self.validated_epoch = leader_epoch
        self.looked_up = False
        self.patience.succeeded()
        self._touch(self)

    def validate_later(self) -> None:
        """Validate the position again once all records before it have been handed out.

        Only then may the response move the position.
        """
        self._take(FetchEvent.POSTPONE)
        self.looked_up = False
        self._touch(self)

    @property
    def paused(self) -> bool:
        """True if the application has paused the partition."""
        return Pauser.APPLICATION in self.paused_by

    def pause(self, by: Pauser = Pauser.APPLICATION) -> None:
        """Stop fetching the partition and handing out its records until `resume`. Buffered data is kept."""
        self._set_paused_by(self.paused_by | by)

    def resume(self, by: Pauser = Pauser.APPLICATION) -> None:
        """Undo `pause`. The partition stays paused until every party that has paused it resumes it."""
        self._set_paused_by(self.paused_by & ~by)

    def _set_paused_by(self, paused_by: Pauser) -> None:
        self.paused_by = paused_by
        self.still = bool(paused_by)
        self.move_clock.stop()
        self._touch(self)

    # --- failures ----------------------------------------------------------------------------------------------------

    def back_off(self, now: float, leader_epoch: int, retry: RetryPolicy, *, lagging_leader: bool = False) -> None:
        """Delay the next request after a failure.

        The delay ends early if the leader gets a newer epoch than ``leader_epoch``. With ``lagging_leader``, the delay
        is short, because the broker has reported that it has not caught up since its election.
        """
        self.patience.failed(now, leader_epoch, retry, True, lagging_leader)
        self.looked_up = False
        self._touch(self)

    def read_from(self, replica: int, until: float) -> None:
        """Fetch from this follower until the time ``until`` (KIP-392)."""
        if replica != self.preferred_replica:
            self.preferred_replica = replica
            self.preferred_until = until
            self._touch(self)

    def read_from_leader(self) -> bool:
        """Fetch from the leader. Return True if the partition was being fetched from a follower."""
        if self.preferred_replica < 0:
            return False
        self.preferred_replica = -1
        self._touch(self)
        return True

    def __repr__(self) -> str:
        where = f"position={self.position} fetch_offset={self.fetch_offset}"
        return f"<PartitionState {self.tp} {self.state.value} {where}>"

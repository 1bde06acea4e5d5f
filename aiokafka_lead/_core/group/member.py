"""Interface of a consumer group's member, independent of its protocol.

Two tasks drive one member: the rebalancing task asks for its next `step` and carries it out; the other sends its
heartbeats, which go on while a step waits for the application. Every method is synchronous, takes the time, and decides
at once. The caller of a method wakes both tasks, so a member needs no callbacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..._values import NamedTuple
from ..._wire import Request, Response
from ...errors import KafkaError
from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot

if TYPE_CHECKING:
    from .offsets import GroupIdentity

Partitions = frozenset[TopicPartition]


class Ask(NamedTuple):
    """Step: send a request to the coordinator, which may take long to answer."""

    request: Request[Any]
    timeout_s: float
    held: bool = True
    """True if the coordinator may withhold the answer, which also delays later ones on the same connection."""


class Revoke(NamedTuple):
    """Step: give up partitions: wait for the work in hand, commit, call the listener, and forget them."""

    partitions: Partitions
    timeout_s: float
    """Time limit of the work in hand, in seconds."""


class Lose(NamedTuple):
    """Step: forget partitions at once. Other members may own them by now, so their offsets are not committed."""

    partitions: Partitions
    reason: str


class Assign(NamedTuple):
    """Step: take over partitions, which means to begin to read them and to call the listener."""

    partitions: Partitions
    """All partitions owned from now on."""
    added: Partitions


class Wait(NamedTuple):
    """Step: do nothing before this time, or until an event if it is None."""

    until: float | None
    refresh: bool = False
    """True if it waits for newer metadata, which has to be requested."""


Step = Ask | Revoke | Lose | Assign | Wait


class Wanted(NamedTuple):
    """Subscription of the application."""

    topics: frozenset[str]
    """Subscribed topics; with a pattern, those that this client found to match."""
    pattern: str | None = None
    """Pattern, for brokers that match by themselves (KIP-848)."""


class GroupMember(Protocol):
    """Member, as its two tasks use it."""

    @property
    def identity(self) -> GroupIdentity | None:
        """Identity for commits; None while it is not a member."""
        ...

    @property
    def owned(self) -> Partitions:
        """Partitions owned as of the last `done`."""
        ...

    @property
    def error(self) -> KafkaError | None:
        """Error that put the member out of the group, if the application has to know it."""
        ...

    @property
    def kept_out(self) -> str | None:
        """Reason that the group does not admit the member yet, while it keeps trying."""
        ...

    @property
    def awaits(self) -> str | None:
        """Event that the first assignment waits for, for messages; None once there is one, even if it is empty."""
        ...

    @property
    def stable(self) -> bool:
        """True for a member with no partitions to give up or take over, and no request to send."""
        ...

    @property
    def out(self) -> bool:
        """True if it is not a member and has no step left to do about that."""
        ...

    @property
    def session_s(self) -> float:
        """Time that the coordinator keeps a silent member, in seconds, as far as the member knows."""
        ...

    @property
    def interest(self) -> frozenset[str]:
        """Topics whose metadata the member needs beyond those it subscribes to."""
        ...

    @property
    def unknown_topics(self) -> bool:
        """True if its assignment has topics that metadata does not name, so that newer metadata is needed."""
        ...

    def subscribe(self, wanted: Wanted, now: float) -> None:
        """Join with this subscription, or continue with it."""

    def topics_changed(self, snapshot: ClusterSnapshot, now: float) -> None:
        """Take in newer metadata of the cluster."""

    def leave(self, reason: str, *, orderly: bool, now: float) -> None:
        """Leave, until `subscribe` or `join`. In order: give up the partitions first; otherwise lose them at once."""

    def join(self, now: float) -> None:
        """Join again, after `leave` or an error that may have passed."""

    def step(self, now: float) -> Step:
        """Return the next step: the same one until it is done, unless something more urgent happens."""
        ...

    def answered(self, request: Request[Any], response: Response | None, error: KafkaError | None, now: float) -> None:
        """Take in the outcome of an `Ask`."""

    def done(self, step: Revoke | Lose | Assign, now: float) -> None:
        """Note that the step has been carried out."""

    def heartbeat_at(self) -> float | None:
        """Return the time at which the next heartbeat is due; None: not before another event."""
        ...

    def heartbeat_timeout_s(self) -> float:
        """Return the time limit of a heartbeat's answer, in seconds."""
        ...

    def heartbeat(self, now: float) -> Request[Any] | None:
        """Return the heartbeat to send, and count it as sent."""
        ...

    def heartbeat_answered(
        self,
        request: Request[Any],
        response: Response | None,
        error: KafkaError | None,
        now: float,
        *,
        reconnected: bool = False,
    ) -> None:
        """Take in the outcome of a heartbeat. ``reconnected``: by another connection than the one before."""

    def commit_refused(self, identity: GroupIdentity, error: KafkaError, now: float) -> None:
        """Take in the coordinator's refusal of a commit under this identity."""

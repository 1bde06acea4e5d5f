"""Interface of a consumer group's member, independent of its protocol.

Two tasks drive a member. The rebalancing task gets its next `step` and carries it out; the heartbeat task sends its
heartbeats, also while a step waits for the application. All methods are synchronous and get the time as an argument.
The caller of a method wakes both tasks, so a member needs no callbacks.
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
    """True if the coordinator may delay the answer, and with it later answers on the same connection."""


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
    """Step: take over partitions: begin to read them, and call the listener."""

    partitions: Partitions
    """All partitions owned from now on."""
    added: Partitions


class Wait(NamedTuple):
    """Step: do nothing until this time, or until an event if it is None."""

    until: float | None
    refresh: bool = False
    """True if it waits for newer metadata, which the caller has to request."""


Step = Ask | Revoke | Lose | Assign | Wait


class Wanted(NamedTuple):
    """Subscription of the application."""

    topics: frozenset[str]
    """Subscribed topics; with a pattern, the topics that this client found to match."""
    pattern: str | None = None
    """Pattern, for brokers that match patterns themselves (KIP-848)."""


class GroupMember(Protocol):
    """Member of a consumer group, as used by its two tasks."""

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
        """Error that must be reported to the application, which mostly has ended the membership."""
        ...

    @property
    def kept_out(self) -> str | None:
        """Reason that the group does not admit the member yet; the member keeps trying."""
        ...

    @property
    def awaits(self) -> str | None:
        """Event that the first assignment waits for, for messages; None after an assignment, even if it was empty."""
        ...

    @property
    def stable(self) -> bool:
        """True for a member with no partitions to give up or take over, and no request to send."""
        ...

    @property
    def out(self) -> bool:
        """True if it is not a member and has no more steps to leave."""
        ...

    @property
    def session_s(self) -> float:
        """Seconds for which the coordinator keeps a silent member, as far as known."""
        ...

    @property
    def interest(self) -> frozenset[str]:
        """Topics whose metadata the member needs in addition to its subscription."""
        ...

    @property
    def unknown_topics(self) -> bool:
        """True if its assignment has topic ids that are not in the metadata, so that newer metadata is needed."""
        ...

    def subscribe(self, wanted: Wanted, now: float) -> None:
        """Join with this subscription, or continue with it."""

    def topics_changed(self, snapshot: ClusterSnapshot, now: float) -> None:
        """Process newer metadata."""

    def leave(self, reason: str, *, orderly: bool, now: float) -> None:
        """Leave, until `subscribe` or `join`. If ``orderly``, give up the partitions first, else lose them at once."""

    def join(self, now: float) -> None:
        """Join again, after `leave` or an error that may have passed."""

    def step(self, now: float) -> Step:
        """Return the next step: the same step until it is done, unless a more urgent step is due."""
        ...

    def answered(self, request: Request[Any], response: Response | None, error: KafkaError | None, now: float) -> None:
        """Process the outcome of an `Ask`."""

    def done(self, step: Revoke | Lose | Assign, now: float) -> None:
        """Note that the step has been carried out."""

    def heartbeat_at(self) -> float | None:
        """Return the time at which the next heartbeat is due; None if not before another event."""
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
        """Process the outcome of a heartbeat. ``reconnected``: its connection was not the previous heartbeat's."""

    def commit_refused(self, identity: GroupIdentity, error: KafkaError, now: float) -> None:
        """Process the coordinator's refusal of a commit under this identity."""

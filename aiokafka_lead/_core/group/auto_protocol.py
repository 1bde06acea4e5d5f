"""Choosing the newest protocol that the brokers support for a group (``group_protocol="auto"``).

The member first tries to join with KIP-848. The coordinator refuses if it does not support KIP-848, or does not convert
a group with live classic members. The member then joins with the classic protocol, and uses it until the consumer
stops. A group is converted by restarting its members one at a time (KIP-848, "Migration").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._options.logs import client_log
from ..._wire import Request, Response
from ...config import ConsumerConfig
from ...errors import GroupIdNotFoundError, KafkaError, UnsupportedVersionError
from ..chance import random
from ..metadata.types import ClusterSnapshot
from .assignors import GroupAssignor
from .classic import ClassicMember
from .consumer_protocol import ConsumerProtocolMember
from .member import Assign, GroupMember, Lose, Partitions, Revoke, Step, Wanted
from .offsets import GroupIdentity

REFUSALS = (UnsupportedVersionError, GroupIdNotFoundError)
"""Errors of a coordinator that does not support KIP-848 or does not convert the group.

The configuration or the members' assignors may prevent the conversion.
"""


class AutoProtocolMember:
    """A `GroupMember` that delegates to a KIP-848 member and, after a refusal, to a classic member."""

    def __init__(
        self, config: ConsumerConfig, assignors: Sequence[GroupAssignor], rng: Callable[[], float] = random
    ) -> None:
        self._config = config
        self._log = client_log("consumer", config.client_id)
        self._assignors = assignors
        self._member: GroupMember = ConsumerProtocolMember(config, rng)
        self._snapshot: ClusterSnapshot | None = None
        """The newest metadata, kept for the member to which it switches."""
        self._wanted: Wanted | None = None
        """The application's latest subscription."""
        self._in = False
        """True if the member should be in the group."""

    @property
    def _refused(self) -> bool:
        """True if the current member uses KIP-848 and the coordinator has refused it."""
        return isinstance(self._member, ConsumerProtocolMember) and isinstance(self._member.error, REFUSALS)

    def _look(self, now: float) -> None:
        """Switch to the classic protocol if KIP-848 was refused and no partitions have to be given up first."""
        if not self._refused or not self._member.out:
            return
        self._log.info(
            "joining group %r with the classic protocol, because the brokers refused the protocol of KIP-848: %s",
            self._config.group_id,
            self._member.error,
        )
        self._member = ClassicMember(self._config, self._assignors)
        if self._snapshot is not None:
            self._member.topics_changed(self._snapshot, now)
        if self._in and self._wanted is not None:
            self._member.subscribe(self._wanted, now)

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def identity(self) -> GroupIdentity | None:
        return self._member.identity

    @property
    def owned(self) -> Partitions:
        return self._member.owned

    @property
    def error(self) -> KafkaError | None:
        """The current member's error, or None if KIP-848 was refused: the classic protocol is tried next."""
        return None if self._refused else self._member.error

    @property
    def kept_out(self) -> str | None:
        return self._member.kept_out

    @property
    def awaits(self) -> str | None:
        return self._member.awaits

    @property
    def stable(self) -> bool:
        return self._member.stable

    @property
    def out(self) -> bool:
        return self._member.out

    @property
    def session_s(self) -> float:
        return self._member.session_s

    @property
    def interest(self) -> frozenset[str]:
        return self._member.interest

    @property
    def unknown_topics(self) -> bool:
        return self._member.unknown_topics

    # --- events -------------------------------------------------------------------------------------------------------

    def subscribe(self, wanted: Wanted, now: float) -> None:
        self._wanted, self._in = wanted, True
        self._member.subscribe(wanted, now)

    def topics_changed(self, snapshot: ClusterSnapshot, now: float) -> None:
        self._snapshot = snapshot
        self._member.topics_changed(snapshot, now)

    def leave(self, reason: str, *, orderly: bool, now: float) -> None:
        self._in = False
        self._member.leave(reason, orderly=orderly, now=now)

    def join(self, now: float) -> None:
        """Join with the latest subscription, which the current member may not have received yet."""
        if self._wanted is not None:
            self.subscribe(self._wanted, now)

    def step(self, now: float) -> Step:
        return self._member.step(now)

    def answered(self, request: Request[Any], response: Response | None, error: KafkaError | None, now: float) -> None:
        self._member.answered(request, response, error, now)

    def done(self, step: Revoke | Lose | Assign, now: float) -> None:
        self._member.done(step, now)
        self._look(now)

    def heartbeat_at(self) -> float | None:
        return self._member.heartbeat_at()

    def heartbeat_timeout_s(self) -> float:
        return self._member.heartbeat_timeout_s()

    def heartbeat(self, now: float) -> Request[Any] | None:
        return self._member.heartbeat(now)

    def heartbeat_answered(
        self,
        request: Request[Any],
        response: Response | None,
        error: KafkaError | None,
        now: float,
        *,
        reconnected: bool = False,
    ) -> None:
        self._member.heartbeat_answered(request, response, error, now, reconnected=reconnected)
        self._look(now)

    def commit_refused(self, identity: GroupIdentity, error: KafkaError, now: float) -> None:
        self._member.commit_refused(identity, error, now)

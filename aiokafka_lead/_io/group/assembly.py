"""A consumer's membership, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..._core.consumer.in_hand import InHand
from ..._core.consumer.positions import Positions
from ..._core.consumer.prefetch import Prefetch
from ..._core.group.assignors import GroupAssignor, builtin
from ..._core.group.classic import ClassicMember
from ..._core.group.consumer_protocol import ConsumerProtocolMember
from ..._core.group.member import GroupMember
from ..._core.group.poll_interval import PollInterval
from ...config import ConsumerConfig
from ...errors import ConfigError, ConfigTypeError
from .asking import GroupCoordinator
from .handover import Handover, ParallelWork
from .task import GroupTask

if TYPE_CHECKING:
    from ...client import Client
    from ..consumer.auto_commit import AutoCommit

__all__ = ["group_task"]

LOOK_AT_MOST_EVERY_S = 1.0
"""How exactly ``max_poll_interval_ms`` is kept."""


def group_task(
    client: Client,
    config: ConsumerConfig,
    coordinator: GroupCoordinator,
    positions: Positions,
    prefetch: Prefetch,
    in_hand: InHand,
    poll: PollInterval,
    auto_commit: AutoCommit | None,
    parallel_work: Callable[[], ParallelWork | None],
) -> GroupTask:
    """The tasks, not yet running; raises `ConfigError` or `ConfigTypeError`."""
    handover = Handover(positions, prefetch, in_hand, auto_commit, parallel_work)
    handover.listen_within_s = (config.rebalance_timeout_ms or config.max_poll_interval_ms) / 1000
    look_every_s = min(LOOK_AT_MOST_EVERY_S, poll.interval_s / 4)
    return GroupTask(client, _member(config), coordinator, handover, in_hand, poll, look_every_s)


def _member(config: ConsumerConfig) -> GroupMember:
    if config.group_protocol == "consumer":
        return ConsumerProtocolMember(config)
    return ClassicMember(config, _assignors(config.partition_assignment_strategy))


def _assignors(given: Iterable[Any]) -> list[GroupAssignor]:
    found: dict[str, GroupAssignor] = {}
    for item in given:
        if isinstance(item, str):
            item = builtin(item)
        elif not isinstance(getattr(item, "name", None), str) or not callable(getattr(item, "assign", None)):
            raise ConfigTypeError(
                f"partition_assignment_strategy must hold names or assignors, not {type(item).__name__}"
            )
        if item.name in found:
            raise ConfigError(f"partition_assignment_strategy holds {item.name!r} twice")
        found[item.name] = item
    return list(found.values())

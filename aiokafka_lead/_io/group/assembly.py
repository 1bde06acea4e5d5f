"""A consumer's membership, put together."""

from __future__ import annotations

from collections.abc import Callable

from ..._core.consumer.in_hand import InHand
from ..._core.consumer.positions import Positions
from ..._core.consumer.prefetch import Prefetch
from ..._core.group.assignors import builtin
from ..._core.group.classic import ClassicMember
from ..._core.group.consumer_protocol import ConsumerProtocolMember
from ..._core.group.member import GroupMember
from ..._core.group.poll_interval import PollInterval
from ..._options.logs import client_log
from ...config import ConsumerConfig
from ..client import Client
from .asking import GroupCoordinator
from .auto_commit import AutoCommit
from .handover import Handover
from .parallel_work import ParallelWork
from .task import GroupTask

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
    """The tasks, not yet running."""
    handover = Handover(
        positions, prefetch, in_hand, auto_commit, parallel_work, client_log("consumer", config.client_id)
    )
    handover.listen_within_s = (config.rebalance_timeout_ms or config.max_poll_interval_ms) / 1000
    look_every_s = min(LOOK_AT_MOST_EVERY_S, poll.interval_s / 4)
    return GroupTask(client, _member(config), coordinator, handover, in_hand, poll, look_every_s)


def _member(config: ConsumerConfig) -> GroupMember:
    if config.group_protocol == "consumer":
        return ConsumerProtocolMember(config)
    strategy = config.partition_assignment_strategy
    return ClassicMember(config, [builtin(given) if isinstance(given, str) else given for given in strategy])

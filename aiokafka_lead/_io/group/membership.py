"""Assembly of the parts that a consumer needs for its group."""

from __future__ import annotations

from collections.abc import Callable

from ..._core.consumer.in_hand import CurrentRun, PollInterval
from ..._core.consumer.reading import Reading
from ..._core.group.assignors import builtin
from ..._core.group.auto_protocol import AutoProtocolMember
from ..._core.group.classic import ClassicMember
from ..._core.group.consumer_protocol import ConsumerProtocolMember
from ..._core.group.member import GroupMember
from ..._options.logs import client_log
from ..._values import NamedTuple
from ...config import ConsumerConfig
from ...types import TopicPartition
from ..client import Client
from ..loop import Signal
from .commits import Commits
from .coordinators import Coordinators
from .handover import Handover
from .heartbeats import GroupCoordinator, Heartbeats
from .leases import AutoCommit, Leases
from .offsets import GroupOffsets
from .standing import Standing
from .task import GroupTask


class MembershipEvents(NamedTuple):
    """The callbacks with which a membership notifies the consumer."""

    on_interest: Callable[[frozenset[str]], None]
    """Called with additional topics whose metadata the member needs."""
    on_error: Callable[[], None]
    """Called when `Standing.check` has an error to raise."""
    on_change: Callable[[], None]
    """Called when the member has changed."""
    is_late: Callable[[TopicPartition], bool]
    """Returns True if a partition was created while its topic was already being read."""
    released: Signal
    """Set when records are done."""


class Membership(NamedTuple):
    """The parts that a consumer needs only if it has a ``group_id``."""

    group_id: str
    task: GroupTask
    standing: Standing
    offsets: GroupOffsets
    commits: Commits
    leases: Leases
    auto_commit: AutoCommit | None
    """The automatic commits, or None if ``enable_auto_commit`` is False."""


def membership(
    client: Client,
    config: ConsumerConfig,
    group_id: str,
    reading: Reading,
    poll: PollInterval,
    run: CurrentRun,
    events: MembershipEvents,
) -> Membership:
    """Create the parts of a group membership. Their tasks are not started."""
    coordinators = Coordinators(client)
    offsets = GroupOffsets(client, coordinators, group_id)
    coordinator = GroupCoordinator(coordinators, group_id)
    member = _member(config)
    standing = Standing(
        member,
        coordinator,
        Heartbeats(member, coordinator, client.metadata.request_update),
        config.group_instance_id,
        events.released,
        on_interest=events.on_interest,
        on_error=events.on_error,
        on_change=events.on_change,
    )
    commits = Commits(reading, client.metadata, offsets, standing, run, config.default_api_timeout_ms)
    leases = Leases(reading, commits)
    auto_commit: AutoCommit | None = None
    commits.automatic = config.enable_auto_commit
    if config.enable_auto_commit:
        interval_s = config.auto_commit_interval_ms / 1000
        auto_commit = AutoCommit(client, reading.positions, commits, leases, interval_s)
    handover = Handover(
        reading,
        auto_commit,
        run,
        client_log("consumer", config.client_id),
        events.released,
        listen_within_s=(config.rebalance_timeout_ms or config.max_poll_interval_ms) / 1000,
        is_late=events.is_late,
    )
    task = GroupTask(client, standing, handover, reading.prefetch, poll, reading.counters.rebalance_latency)
    return Membership(group_id, task, standing, offsets, commits, leases, auto_commit)


def _member(config: ConsumerConfig) -> GroupMember:
    if config.group_protocol == "consumer":
        return ConsumerProtocolMember(config)
    strategy = config.partition_assignment_strategy
    assignors = [builtin(given) if isinstance(given, str) else given for given in strategy]
    return (AutoProtocolMember if config.group_protocol == "auto" else ClassicMember)(config, assignors)

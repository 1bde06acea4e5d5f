"""Checks of the arguments of the embedded cluster's methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from .._options.arguments import list_of, map_of, string, topic_name
from .._options.checks import INT64_MAX, Check, integer, optional
from ..errors import ConfigError, ConfigTypeError

PORT = integer(0, 65_535)
OFFSET = integer(0, INT64_MAX)
BROKERS = list_of("broker ids", integer(0))
CONFIGS = map_of("str to str", string, optional(string))
_PER_PARTITION = list_of("lists of broker ids", BROKERS)
_BY_PARTITION = map_of("partition to broker ids", integer(0), BROKERS)


class AdminTopicNames(TypedDict, total=False):
    """Arguments of `EmbeddedCluster.create_topic` under the names of `aiokafka_lead.admin.NewTopic`."""

    num_partitions: int
    """Same as ``partitions``. The value -1 means the cluster's default."""
    replica_assignments: Mapping[int, Sequence[int]]
    """Same as ``assignments``, but a mapping from the number of the partition."""
    topic_configs: Mapping[str, str | None]
    """Same as ``configs``."""


def check_all(checks: Mapping[str, Check], given: Mapping[str, Any]) -> None:
    """Run the check for each argument by its name. Raises `ConfigError` or `ConfigTypeError` for a wrong value."""
    for name, check in checks.items():
        check(name, given[name])


def broker_ids(name: str, value: Any) -> list[int]:
    """Return broker ids. ``value`` is a sequence of ids or the number of brokers, which then have the ids 1, 2 and so
    on.
    """
    if isinstance(value, int):
        return list(range(1, 1 + integer(1)(name, value)))
    return list(BROKERS(name, value))


def _assignments(name: str, value: Any) -> list[list[int]]:
    """Return the brokers of each partition, from a list or from a dict by partition."""
    if not isinstance(value, Mapping):
        return list(_PER_PARTITION(name, value))
    by_number = _BY_PARTITION(name, value)
    if sorted(by_number) != list(range(len(by_number))):
        raise ConfigError(f"{name} must have every partition from 0 on, without gaps, not {sorted(by_number)}")
    return [by_number[number] for number in sorted(by_number)]


class WantedTopic(NamedTuple):
    """The checked arguments of `EmbeddedCluster.create_topic`. The value -1 means the cluster's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]
    assignments: list[list[int]] | None


def new_topic(
    name: Any, partitions: Any, replication_factor: Any, configs: Any, assignments: Any, by_admin: AdminTopicNames
) -> WantedTopic:
    """Return the checked arguments. Each may be given under either of its two names."""
    ours = {"partitions": partitions, "configs": configs, "assignments": assignments}
    called = dict(zip(ours, ours, strict=True))
    for theirs, value in by_admin.items():
        own = _ADMIN_NAMES.get(theirs)
        if own is None:
            raise ConfigTypeError(f"{theirs} is not an argument of create_topic")
        if ours[own] not in (None, 1):
            raise ConfigError(f"{theirs} and {own} mean the same: pass only one of them")
        ours[own], called[own] = value, theirs
    given = optional(CONFIGS)(called["configs"], ours["configs"]) or {}
    return WantedTopic(
        topic_name("name", name),
        integer(-1)(called["partitions"], ours["partitions"]),
        -1 if replication_factor is None else integer(-1)("replication_factor", replication_factor),
        {key: value for key, value in given.items() if value is not None},
        None if not ours["assignments"] else _assignments(called["assignments"], ours["assignments"]),
    )


_ADMIN_NAMES = {"num_partitions": "partitions", "topic_configs": "configs", "replica_assignments": "assignments"}

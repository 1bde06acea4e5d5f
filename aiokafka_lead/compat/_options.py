"""Conversion of aiokafka's options to native options."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, get_args

from .._core.group.assignors import MemberSubscription, TopicPartitions
from .._options.checks import INT32_MAX
from ..config import ASSIGNOR_NAMES
from ..errors import ConfigError, ConfigTypeError
from ..security import PASSWORD_MECHANISMS, SASL_PREFIXES, SecurityProtocol
from ..types import CompressionType, TopicPartition
from .cluster import AssignableCluster
from .coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

_log = logging.getLogger("aiokafka_lead.compat")

_LIBRARIES = {"aiokafka", "kafka", __name__.partition(".")[0]}


def native_assignors(strategy: Any) -> list[Any]:
    """Convert assignors to native ones: names for Kafka's assignors, and adapters for the application's assignors."""
    given = [strategy] if isinstance(strategy, (str, type)) or not isinstance(strategy, Iterable) else list(strategy)
    return [_native(assignor) for assignor in given]


def _native(assignor: Any) -> Any:
    if isinstance(assignor, str):
        return assignor
    kind = assignor if isinstance(assignor, type) else type(assignor)
    name = getattr(assignor, "name", None)
    if name in ASSIGNOR_NAMES and kind.__module__.partition(".")[0] in _LIBRARIES:
        return name
    if not isinstance(name, str) or not callable(getattr(assignor, "assign", None)):
        raise ConfigTypeError(f"partition_assignment_strategy must contain assignors, not {assignor!r}")
    return OwnAssignor(assignor, name)


class OwnAssignor:
    """Adapts an application's assignor to the native interface (`GroupAssignor`)."""

    cooperative = False

    def __init__(self, assignor: Any, name: str) -> None:
        self.assignor = assignor
        self.name = name

    def user_data(self, topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """Return the bytes that the application's assignor sends to the group's leader.

        Before that, pass the assignor the partitions that the member owns.
        """
        if owned:
            assigned: dict[str, list[int]] = {}
            for topic, partition in owned:
                assigned.setdefault(topic, []).append(partition)
            self.assignor.on_assignment(ConsumerProtocolMemberAssignment(0, sorted(assigned.items()), b""))
        said: bytes | None = self.assignor.metadata(set(topics)).user_data
        return said

    def assign(self, members: Sequence[MemberSubscription], topics: TopicPartitions) -> dict[str, list[TopicPartition]]:
        """Return the assignor's assignment for these members and partitions."""
        subscriptions = {
            member.member_id: ConsumerProtocolMemberMetadata(0, list(member.topics), member.user_data or b"")
            for member in members
        }
        given = self.assignor.assign(AssignableCluster(topics.counts), subscriptions)
        return {
            member.member_id: [
                TopicPartition(topic, partition)
                for topic, partitions in given[member.member_id].assignment
                for partition in partitions
            ]
            for member in members
        }


_NEVER_MS = INT32_MAX
"""Idle time for connections without a limit, which is None in aiokafka."""

_producers = itertools.count(1)

CLIENT: dict[str, Any] = {
    "client_id": None,
    "metadata_max_age_ms": 300_000,
    "request_timeout_ms": 40_000,
    "retry_backoff_ms": 100,
    "connections_max_idle_ms": 540_000,
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": None,
    "sasl_plain_password": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
}
"""Options of every client, with aiokafka's defaults."""

_MS, _BYTES = (1, INT32_MAX), (1, INT32_MAX)
_RANGES: dict[str, tuple[int, int]] = {
    "metadata_max_age_ms": _MS,
    "request_timeout_ms": _MS,
    "retry_backoff_ms": (0, INT32_MAX),
    "connections_max_idle_ms": _MS,
    "linger_ms": (0, INT32_MAX),
    "transaction_timeout_ms": _MS,
    "auto_commit_interval_ms": _MS,
    "session_timeout_ms": (2, INT32_MAX),
    "heartbeat_interval_ms": _MS,
    "max_poll_interval_ms": _MS,
    "rebalance_timeout_ms": _MS,
    "fetch_max_wait_ms": (0, INT32_MAX),
    "fetch_max_bytes": _BYTES,
    "fetch_min_bytes": (0, INT32_MAX),
    "max_partition_fetch_bytes": _BYTES,
    "max_batch_size": (0, INT32_MAX),
    "max_request_size": _BYTES,
}
"""Ranges of native options. aiokafka accepts any numbers."""
_MAY_BE_NONE = {"connections_max_idle_ms", "rebalance_timeout_ms", "transaction_timeout_ms"}
_WHOLE = {name for name in _RANGES if name.endswith(("_bytes", "_size"))} | {"transaction_timeout_ms"}
_FLAGS = ("enable_auto_commit", "check_crcs", "exclude_internal_topics", "enable_idempotence")
_NAMES = ("client_id", "client_rack", "group_id", "group_instance_id", "transactional_id")
_MAY_BE_EMPTY = ("client_id", "client_rack", "group_instance_id")
"""Options that aiokafka considers not given if they are empty."""


def client_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the native options common to all clients. Raises ValueError as aiokafka does."""
    given = plain_values(given)
    protocol = given["security_protocol"]
    if protocol not in get_args(SecurityProtocol):
        raise ConfigError("`security_protocol` should be SSL or PLAINTEXT")
    if protocol in ("SSL", "SASL_SSL") and given["ssl_context"] is None:
        raise ConfigError("`ssl_context` is mandatory if security_protocol=='SSL'")
    options = {name: given[name] for name in CLIENT if not name.startswith("sasl_")}
    if options["connections_max_idle_ms"] is None:
        options["connections_max_idle_ms"] = _NEVER_MS
    if protocol not in ("SSL", "SASL_SSL"):
        del options["ssl_context"]
    if options["client_id"] is None:
        del options["client_id"]
    # In aiokafka the backoff does not grow.
    options["retry_backoff_max_ms"] = options["retry_backoff_ms"]
    if protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        mechanism = given["sasl_mechanism"]
        options["sasl_mechanism"] = mechanism
        if mechanism in PASSWORD_MECHANISMS and None in (
            given["sasl_plain_username"],
            given["sasl_plain_password"],
        ):
            raise ConfigError(f"sasl_plain_username and sasl_plain_password required for {mechanism} sasl")
        # Options of other mechanisms are dropped, because aiokafka ignores them.
        own = [name for name in CLIENT if name.startswith(SASL_PREFIXES.get(mechanism, ()))]
        options |= {name: given[name] for name in own if given[name] is not None}
    return options


def plain_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values that aiokafka accepts, but native options do not.

    Enum members, which kstreams passes, become their values. Numbers become the nearest allowed number, flags become
    bool, and names become text, or None if they are empty.
    """
    found = {name: value.value if isinstance(value, Enum) else value for name, value in given.items()}
    for name, (low, high) in _RANGES.items():
        value = found.get(name)
        if isinstance(value, int | float):
            near = min(max(value, low), high)
            found[name] = int(near) if name in _WHOLE or isinstance(near, bool) else near
        elif name in found and (value is not None or name not in _MAY_BE_NONE):
            raise ConfigTypeError(f"{name} must be a number, not {type(value).__name__}")
    found |= {name: bool(found[name]) for name in _FLAGS if name in found}
    found |= {name: str(found[name]) for name in _NAMES if found.get(name) is not None}
    return found | {name: None for name in _MAY_BE_EMPTY if found.get(name) == ""}


def producer_options(given: Mapping[str, Any], acks_given: bool) -> dict[str, Any]:
    """Return the native options of a producer. Raises ValueError as aiokafka does."""
    given = plain_values(given)
    acks, compression = given["acks"], given["compression_type"]
    acks = int(acks) if isinstance(acks, bool) else acks
    if acks not in (0, 1, -1, "all"):
        raise ConfigError("Invalid ACKS parameter")
    if compression == "none" or compression not in (*get_args(CompressionType), None):
        raise ConfigError("Invalid compression type!")
    idempotent = given["enable_idempotence"] or given["transactional_id"] is not None
    if idempotent:
        if not acks_given:
            acks = "all"
        elif acks not in ("all", -1):
            raise ConfigError(f"acks={acks} not supported if enable_idempotence=True")
    options = client_options(given)
    options.setdefault("client_id", f"aiokafka-producer-{next(_producers)}")
    timeout_ms, linger_ms = given["request_timeout_ms"], given["linger_ms"]
    options |= {
        "acks": acks,
        "enable_idempotence": idempotent,
        # Without sequence numbers, a later batch could overtake a retried batch.
        "max_in_flight_requests_per_connection": 5 if idempotent else 1,
        "compression_type": compression,
        "batch_size": given["max_batch_size"],
        "max_request_size": given["max_request_size"],
        "linger_ms": linger_ms,
        "max_block_ms": timeout_ms,
        "delivery_timeout_ms": timeout_ms + linger_ms,
    }
    if not is_default_partitioner(given["partitioner"]):
        options["partitioner"] = partial(_choose, given["partitioner"])
    if given["transactional_id"] is not None:
        options["transactional_id"] = given["transactional_id"]
        options["transaction_timeout_ms"] = given["transaction_timeout_ms"]
    return options


def _choose(partitioner: Callable[..., int], key: Any, every: Sequence[int], available: Sequence[int]) -> int:
    """Call a partitioner with aiokafka's interface, which expects lists."""
    return partitioner(key, list(every), list(available))


def is_default_partitioner(partitioner: object) -> bool:
    """Return True for None, and for the default partitioners of aiokafka and kafka-python.

    The producer then chooses the same partitions without calling the partitioner.
    """
    if partitioner is None:
        return True
    kind = type(partitioner)
    return kind.__name__ == "DefaultPartitioner" and kind.__module__.partition(".")[0] in {
        "aiokafka", "kafka", __name__.partition(".")[0],
    }  # fmt: skip


_AS_THEY_ARE = (
    "group_id",
    "group_instance_id",
    "fetch_max_wait_ms",
    "fetch_max_bytes",
    "fetch_min_bytes",
    "max_partition_fetch_bytes",
    "enable_auto_commit",
    "auto_commit_interval_ms",
    "check_crcs",
    "max_poll_interval_ms",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "exclude_internal_topics",
    "isolation_level",
    "client_rack",
)
"""Options of a consumer whose native options have the same name and meaning."""


def consumer_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the native options of a consumer. Raises ValueError as aiokafka does."""
    given = plain_values(given)
    limit = given["max_poll_records"]
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise ConfigError("`max_poll_records` should be positive Integer")
    if given["isolation_level"] not in ("read_uncommitted", "read_committed"):
        raise ConfigError(f"Incorrect isolation level {given['isolation_level']}")
    if given["group_id"] is None:
        given["group_instance_id"] = None
    # With other values, a consumer of aiokafka would lose its session or its fetches.
    given["heartbeat_interval_ms"] = min(given["heartbeat_interval_ms"], given["session_timeout_ms"] / 2)
    given["fetch_max_wait_ms"] = min(given["fetch_max_wait_ms"], given["request_timeout_ms"] / 2)
    rebalance_ms = given["rebalance_timeout_ms"]
    strategies = given["partition_assignment_strategy"]
    return (
        client_options(given)
        | {name: given[name] for name in _AS_THEY_ARE}
        | {
            "max_poll_records": None if limit is None else min(int(limit), INT32_MAX),
            "auto_offset_reset": _reset_policy(given["auto_offset_reset"]),
            "rebalance_timeout_ms": given["session_timeout_ms"] if rebalance_ms is None else rebalance_ms,
            "default_api_timeout_ms": given["request_timeout_ms"],
        }
        | ({} if given["group_id"] is None else {"partition_assignment_strategy": native_assignors(strategies)})
    )


def _reset_policy(name: Any) -> str:
    if not isinstance(name, str):
        raise ConfigTypeError(f"auto_offset_reset must be 'earliest', 'latest' or 'none', not {name!r}")
    if name.lower() in ("earliest", "latest", "none"):
        return name.lower()
    _log.warning("Unrecognized ``auto_offset_reset`` config, using NONE")
    return "none"

"""Wrong arguments of every public method: an error that names the argument, raised before any request is sent."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from aiokafka_lead import (
    AdminClient,
    Consumer,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from aiokafka_lead.admin import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
    ElectionType,
    NewPartitions,
    NewTopic,
)
from aiokafka_lead.errors import ConfigError, ConfigTypeError
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster, Faults

from . import wrong_admin_arguments

pytestmark = pytest.mark.anyio

TP = TopicPartition("events", 0)
TOPIC_CONFIG = ConfigResource(ConfigResourceType.TOPIC, "events")

TIMEOUTS = ["5", timedelta(seconds=1), -1, -0.5, True, float("nan"), float("inf"), 10**400, [1], b"1"]
REQUIRED_TIMEOUTS = [None, *TIMEOUTS]
NO_TOPICS: list[Any] = [None, 5, b"events", "", "a b", "\ud800", "t" * 250, ".."]
NO_LISTS: list[Any] = [5, "ab", b"ab", {"a": 1}, 1.5, True]
NO_PARTITIONS: list[Any] = [
    None,
    "events",
    0,
    ("events",),
    ("events", "0"),
    ("events", True),
    ("events", -1),
    ("events", 2**31),
    (b"events", 0),
    ("\ud800", 0),
    ("events", 0, 0),
]
NO_METRICS: list[Any] = [None, 5, b"size", "", "a b", "1st", "\ud800", "n" * 239, "producer.size", "client.size"]
NO_ATTRIBUTES: list[Any] = [
    5,
    "a",
    [("a", "b")],
    {1: "a"},
    {"": "a"},
    {"a": None},
    {"a": 1.5},
    {"a": True},
    {"a": 2**63},
]
NO_INTEGERS: list[Any] = ["1", 1.5, True, b"1", [1]]
NO_FLAGS: list[Any] = [None, 0, 1, "no", "False"]
NO_OFFSETS: list[Any] = [
    None,
    "5",
    1.5,
    True,
    -1,
    2**63,
    (1,),
    (1, 5),
    (1, "\ud800"),
    ("1", "x"),
    OffsetAndMetadata("5"),  # type: ignore[arg-type]
    OffsetAndMetadata(5, None),  # type: ignore[arg-type]
    OffsetAndMetadata(5, "", "1"),  # type: ignore[arg-type]
    OffsetAndMetadata(5, "", -2),
]

Case = tuple[str, dict[str, Any], str, list[Any]]
"""A method, its other arguments, the argument under test, and its wrong values. ``*name`` takes several values."""


def each(bad: Iterable[Any]) -> list[Any]:
    """Return lists that each contain one of the values."""
    return [[item] for item in bad]


def new_topics(**fields: list[Any]) -> list[list[NewTopic]]:
    return [[NewTopic(**{"name": "new", name: value})] for name, values in fields.items() for value in values]


async def a_later_value() -> float:
    return 1.0


METRICS: list[Case] = [
    ("register_metric_for_subscription", {"measure": int}, "name", NO_METRICS),
    ("register_metric_for_subscription", {"name": "size"}, "measure", [None, 5, "x", a_later_value]),
    ("register_metric_for_subscription", {"name": "size", "measure": int}, "attributes", NO_ATTRIBUTES),
    ("register_metric_for_subscription", {"name": "size", "measure": int}, "is_sum", NO_FLAGS),
    ("unregister_metric_from_subscription", {}, "name", NO_METRICS),
    ("unregister_metric_from_subscription", {"name": "size"}, "attributes", NO_ATTRIBUTES),
]
PRODUCER: list[Case] = [
    ("send", {}, "topic", NO_TOPICS),
    ("send", {"topic": "events"}, "value", ["text", 5, {}, [b"a"]]),
    ("send", {"topic": "events"}, "key", ["text", 5, {}]),
    ("send", {"topic": "events"}, "partition", ["0", True, 1.0, -1, 2**31, 2**70]),
    ("send", {"topic": "events"}, "timestamp_ms", ["0", True, 1.5, -1, 2**63, timedelta(1)]),
    (
        "send",
        {"topic": "events"},
        "headers",
        [5, {}, {"h": b"1"}, "", "h", 0, ["h"], [("h",)], [(b"h", b"")], [("h", "1")], [("h", 1)], [("\ud800", b"")]],
    ),
    ("send", {"topic": "events"}, "timeout_ms", TIMEOUTS),
    ("send_many", {"values": [b"a"]}, "topic", NO_TOPICS),
    ("send_many", {"topic": "events"}, "values", [None, 5, "ab", b"ab", {"a": 1}]),
    ("send_many", {"topic": "events", "values": [b"a"]}, "keys", [5, "a", b"a", {b"a": 1}, []]),
    ("send_many", {"topic": "events", "values": [b"a"]}, "partition", ["0", True, -1, 2**31]),
    ("send_many", {"topic": "events", "values": [b"a"]}, "headers", [5, "a", {"h": b"1"}, [("h", "1")], [[("h", 1)]]]),
    ("send_many", {"topic": "events", "values": [b"a"]}, "timestamps_ms", [5, "1", {1: 1}, [1, 2]]),
    ("send_many", {"topic": "events", "values": [b"a"]}, "timeout_ms", TIMEOUTS),
    ("flush", {}, "timeout_ms", TIMEOUTS),
    ("client_instance_id", {}, "timeout_ms", TIMEOUTS),
    *METRICS,
    ("stop", {}, "timeout_ms", TIMEOUTS),
    ("partitions_for", {}, "topic", NO_TOPICS),
    ("partitions_for", {"topic": "events"}, "timeout_ms", TIMEOUTS),
]
PRODUCER += [
    (method, given, argument, values)
    for send, given, argument, values in PRODUCER
    if send == "send"
    for method in ("send_nowait", "send_and_wait")
    if (method, argument) != ("send_nowait", "timeout_ms")
]

CONSUMER: list[Case] = [
    ("start", {}, "wait", [None, 1, "yes"]),
    ("start", {}, "timeout_ms", TIMEOUTS),
    ("wait_ready", {}, "timeout_ms", TIMEOUTS),
    ("client_instance_id", {}, "timeout_ms", TIMEOUTS),
    *METRICS,
    ("stop", {}, "timeout_ms", TIMEOUTS),
    ("subscribe", {}, "topics", [None, *NO_LISTS, *each(NO_TOPICS)]),
    ("subscribe", {}, "pattern", [5, b"a.*", re.compile(b"a"), "(", "\ud800"]),
    ("subscribe", {"topics": ["events"]}, "listener", [5, "x", object(), lambda: None]),
    ("assign", {}, "partitions", [None, TP, *NO_LISTS, *each(NO_PARTITIONS)]),
    ("pause", {}, "*partitions", each(NO_PARTITIONS)),
    ("resume", {}, "*partitions", each(NO_PARTITIONS)),
    ("seek", {"offset": 1}, "partition", NO_PARTITIONS),
    ("seek", {"partition": TP}, "offset", NO_OFFSETS),
    ("seek_to_beginning", {}, "*partitions", each(NO_PARTITIONS)),
    ("seek_to_committed", {}, "*partitions", each(NO_PARTITIONS)),
    ("seek_to_end", {}, "*partitions", each(NO_PARTITIONS)),
    ("seek_to_beginning", {}, "timeout_ms", TIMEOUTS),
    ("seek_to_committed", {}, "timeout_ms", TIMEOUTS),
    ("seek_to_end", {}, "timeout_ms", TIMEOUTS),
    ("topics", {}, "timeout_ms", TIMEOUTS),
    ("position", {}, "partition", NO_PARTITIONS),
    ("highwater", {}, "partition", NO_PARTITIONS),
    ("last_stable_offset", {}, "partition", NO_PARTITIONS),
    ("beginning_offsets", {}, "partitions", [None, *NO_LISTS, *each(NO_PARTITIONS)]),
    ("end_offsets", {}, "partitions", [None, *NO_LISTS, *each(NO_PARTITIONS)]),
    (
        "offsets_for_times",
        {},
        "timestamps",
        [None, [TP], "ab", 5, {"events": 1}, *({TP: bad} for bad in (None, "1", 1.5, True, -1, 2**63, float("nan")))],
    ),
    ("partitions_for_topic", {}, "topic", NO_TOPICS),
    ("position", {"partition": TP}, "timeout_ms", TIMEOUTS),
    ("beginning_offsets", {"partitions": [TP]}, "timeout_ms", TIMEOUTS),
    ("end_offsets", {"partitions": [TP]}, "timeout_ms", TIMEOUTS),
    ("offsets_for_times", {"timestamps": {TP: 1}}, "timeout_ms", TIMEOUTS),
    ("partitions_for_topic", {"topic": "events"}, "timeout_ms", TIMEOUTS),
    ("getone", {}, "*partitions", each(NO_PARTITIONS)),
    ("getone", {}, "timeout_ms", TIMEOUTS),
    ("getmany", {}, "*partitions", each(NO_PARTITIONS)),
    ("getmany", {}, "timeout_ms", REQUIRED_TIMEOUTS),
    ("getmany", {}, "max_records", [*NO_INTEGERS, 0, -1]),
    ("run", {}, "handler", [None, 5, "x"]),
    ("run", {"handler": print}, "dead_letter_topic", ["", "a b", 5, "\ud800"]),
    ("run", {"handler": print, "dead_letter_topic": "dead"}, "dead_letter_producer", [5, "x", object()]),
    ("run", {"handler": print}, "exactly_once", [5, "x", object()]),
    ("commit", {}, "offsets", [5, "ab", [TP], {"events": 1}, {("events", -1): 1}, *({TP: bad} for bad in NO_OFFSETS)]),
    ("commit", {}, "timeout_ms", TIMEOUTS),
    ("committed", {}, "partition", NO_PARTITIONS),
    ("committed", {"partition": TP}, "timeout_ms", TIMEOUTS),
]

NO_PLANS: list[Any] = [("3",), (0,), (3, 5), (3, "12"), (3, [1, 2]), (3, [["1"]]), (3, {0: [1]})]

ADMIN: list[Case] = [
    ("stop", {}, "timeout_ms", TIMEOUTS),
    *METRICS,
    ("create_topics", {}, "topics", [None, NewTopic("a"), "ab", {"a": 1}, 5, ["a"], [{"name": "a"}], [None]]),
    ("create_topics", {}, "topics", [[NewTopic("new"), NewTopic("new", 2)]]),
    ("create_topics", {}, "topics", new_topics(name=NO_TOPICS, num_partitions=[None, "3", 1.5, True, -2, 2**31])),
    ("create_topics", {}, "topics", new_topics(replication_factor=[None, "3", 1.5, True, -2, 2**15])),
    (
        "create_topics",
        {},
        "topics",
        new_topics(
            replica_assignments=[None, [[1]], "1", {"0": [1]}, {0: 1}, {0: "1"}, {0: ["1"]}, {0: [-1]}, {0: None}],
            topic_configs=[None, ["a"], "ab", {"retention.ms": 1000}, {5: "1"}, {"a": b"1"}, {"a": "\ud800"}],
        ),
    ),
    ("create_topics", {"topics": [NewTopic("new")]}, "validate_only", NO_FLAGS),
    ("delete_topics", {}, "topics", [None, *NO_LISTS, *each(NO_TOPICS)]),
    ("create_partitions", {}, "topics", [None, 5, "ab", ["events"], [("events", 3)], *({bad: 3} for bad in NO_TOPICS)]),
    (
        "create_partitions",
        {},
        "topics",
        [{"events": bad} for bad in [None, "3", 1.5, True, 0, -1, 2**31, [3], {"total_count": 3}]],
    ),
    (
        "create_partitions",
        {},
        "topics",
        [{"events": NewPartitions(*bad)} for bad in NO_PLANS],
    ),
    ("create_partitions", {"topics": {"events": 3}}, "validate_only", NO_FLAGS),
    ("list_topics", {}, "include_internal", NO_FLAGS),
    ("describe_topics", {}, "topics", [*NO_LISTS, *each(NO_TOPICS)]),
    ("describe_topic_partitions", {}, "topics", [None, *NO_LISTS, *each(NO_TOPICS)]),
    ("describe_topic_partitions", {"topics": ["events"]}, "page_size", [None, *NO_INTEGERS, 0, -1, 2**31]),
    ("elect_leaders", {}, "partitions", [TP, *NO_LISTS, *each(NO_PARTITIONS)]),
    ("elect_leaders", {}, "election_type", [None, 0, 1, "PREFERRED", 7]),
    ("alter_partition_reassignments", {}, "replicas", [None, [TP], "ab", 5, {"events": [1]}, {("events", -1): [1]}]),
    ("alter_partition_reassignments", {}, "replicas", [{TP: bad} for bad in [1, "12", ["1"], [-1], {1: 2}, [2**31]]]),
    ("list_partition_reassignments", {}, "partitions", [TP, *NO_LISTS, *each(NO_PARTITIONS)]),
    (
        "list_offsets",
        {},
        "at",
        [None, [TP], "ab", {"events": -1}, *({TP: bad} for bad in [None, "1", 1.5, True, 2**63])],
    ),
    ("list_offsets", {"at": {TP: -1}}, "read_committed", NO_FLAGS),
    ("delete_records", {}, "before", [None, [TP], {"events": 1}, *({TP: bad} for bad in [None, "1", 1.5, -2, 2**63])]),
    (
        "describe_configs",
        {},
        "resources",
        [None, TOPIC_CONFIG, *NO_LISTS, ["events"], [("topic", "events")], [(2, "events")]],
    ),
    ("describe_configs", {}, "resources", each((ConfigResourceType.TOPIC, bad) for bad in [None, 5, b"a", "\ud800"])),
    ("describe_configs", {"resources": [TOPIC_CONFIG]}, "names", [5, "ab", {"a": 1}, [5], [None], ["\ud800"]]),
    ("incremental_alter_configs", {}, "changes", [None, [TOPIC_CONFIG], "ab", {"events": []}, {TOPIC_CONFIG: None}]),
    (
        "incremental_alter_configs",
        {},
        "changes",
        [
            {TOPIC_CONFIG: bad}
            for bad in [
                ConfigChange("a", "1"),
                {"retention.ms": "1"},
                ["retention.ms"],
                [ConfigChange("retention.ms", 1)],  # type: ignore[arg-type]
                [ConfigChange(None, "1")],  # type: ignore[arg-type]
                [ConfigChange("retention.ms", None)],
                [ConfigChange("retention.ms", "1", 0)],  # type: ignore[arg-type]
                [ConfigChange("retention.ms", "\ud800", ConfigOperation.APPEND)],
            ]
        ],
    ),
    ("incremental_alter_configs", {"changes": {TOPIC_CONFIG: []}}, "validate_only", NO_FLAGS),
    ("describe_cluster", {}, "include_fenced_brokers", NO_FLAGS),
    ("list_transactions", {}, "states", [*NO_LISTS, ["Ongoing"], [None]]),
    ("list_transactions", {}, "producer_ids", [*NO_LISTS, ["1"], [-1], [True]]),
    ("list_transactions", {}, "longer_than_ms", TIMEOUTS),
    ("list_transactions", {}, "transactional_id_pattern", [5, b"x", "", "\ud800"]),
    ("describe_transactions", {}, "transactional_ids", [None, *NO_LISTS, [5], [""], [b"x"]]),
    ("describe_producers", {}, "partitions", [None, *NO_LISTS, *[[bad] for bad in NO_PARTITIONS]]),
    ("describe_producers", {"partitions": [TP]}, "broker_id", ["1", True, 1.5, -1]),
    ("abort_transaction", {"start_offset": 0}, "partition", NO_PARTITIONS),
    ("abort_transaction", {"partition": TP}, "start_offset", [None, *NO_INTEGERS, -1]),
    ("abort_transaction", {"partition": TP, "producer_epoch": 0}, "producer_id", [*NO_INTEGERS, -1]),
    ("abort_transaction", {"partition": TP, "producer_id": 0}, "producer_epoch", [*NO_INTEGERS, -1, 2**15]),
    ("abort_transaction", {"partition": TP, "start_offset": 0}, "coordinator_epoch", [None, *NO_INTEGERS, -1]),
    ("fence_producers", {}, "transactional_ids", [None, *NO_LISTS, [5], [""], [b"x"]]),
    ("find_hanging_transactions", {}, "topics", [None, *NO_LISTS, *[[bad] for bad in NO_TOPICS]]),
    ("find_hanging_transactions", {}, "partitions", [*NO_LISTS, *[[bad] for bad in NO_PARTITIONS]]),
    ("find_hanging_transactions", {}, "broker_id", ["1", True, 1.5, -1]),
    ("find_hanging_transactions", {"topics": ["events"]}, "max_transaction_timeout_ms", REQUIRED_TIMEOUTS),
]
GOOD: dict[str, dict[str, Any]] = {
    "create_topics": {"topics": [NewTopic("new")]},
    "delete_topics": {"topics": ["events"]},
    "create_partitions": {"topics": {"events": 3}},
    "describe_topic_partitions": {"topics": ["events"]},
    "elect_leaders": {"election_type": ElectionType.PREFERRED},
    "alter_partition_reassignments": {"replicas": {TP: None}},
    "list_offsets": {"at": {TP: -1}},
    "delete_records": {"before": {TP: 1}},
    "describe_configs": {"resources": [TOPIC_CONFIG]},
    "incremental_alter_configs": {"changes": {TOPIC_CONFIG: []}},
    "describe_transactions": {"transactional_ids": ["tx"]},
    "describe_producers": {"partitions": [TP]},
    "abort_transaction": {"partition": TP, "start_offset": 0},
    "fence_producers": {"transactional_ids": ["tx"]},
    "find_hanging_transactions": {"topics": ["events"]},
}


def public_methods(client: type[Any]) -> dict[str, Any]:
    """Yield the public methods of clients, and of the classes that clients are made of."""
    return {name: method for name, method in inspect.getmembers(client, inspect.isfunction) if name[0] != "_"}


ADMIN += wrong_admin_arguments.CASES
GOOD |= wrong_admin_arguments.GOOD
ADMIN += [
    (name, GOOD.get(name, {}), "timeout_ms", TIMEOUTS)
    for name, method in public_methods(AdminClient).items()
    if name != "stop" and "timeout_ms" in inspect.signature(method).parameters
]

NO_BROKERS: list[Any] = [None, "1", True, 1.5, -1, 9]
NO_NUMBERS: list[Any] = [None, "0", True, 1.5, -1, 2**31]
CLUSTER: list[Case] = [
    ("create_topic", {}, "name", [*NO_TOPICS[:2], b"t"]),
    ("create_topic", {"name": "new"}, "partitions", ["3", True, 1.5, -2]),
    ("create_topic", {"name": "new"}, "num_partitions", ["3", True, 1.5, -2]),
    ("create_topic", {"name": "new"}, "replication_factor", ["3", True, 1.5, -2]),
    ("create_topic", {"name": "new"}, "configs", [5, ["a"], "ab", {"retention.ms": 5}, {5: "1"}]),
    ("create_topic", {"name": "new"}, "topic_configs", [5, ["a"], "ab", {"retention.ms": 5}, {5: "1"}]),
    ("create_topic", {"name": "new"}, "assignments", [5, "1", [1], [["1"]], {1: [1]}, {"0": [1]}]),
    ("create_topic", {"name": "new"}, "replica_assignments", [5, "1", [1], {0: 1}, {1: [1]}, {"0": [1]}]),
    ("create_topic", {"name": "new", "partitions": 2}, "num_partitions", [3]),
    ("create_topic", {"name": "new"}, "partition_count", [3]),
    ("delete_topic", {}, "name", NO_TOPICS),
    ("add_partitions", {"count": 2}, "name", NO_TOPICS),
    ("add_partitions", {"name": "events"}, "count", [None, "2", True, 0, -1]),
    ("topic_id", {}, "name", NO_TOPICS),
    ("partition_count", {}, "name", NO_TOPICS),
    ("move_leader", {"topic": "events"}, "gap_ms", REQUIRED_TIMEOUTS),
    ("move_leader", {"topic": "events"}, "to", ["1", True, 1.5, -1]),
    ("move_all_leaders", {}, "topic", NO_TOPICS[1:]),
    ("delete_records", {"topic": "events", "partition": 0}, "before", [None, "1", True, 1.5, -1]),
    ("truncate", {"topic": "events", "partition": 0}, "offset", [None, "1", True, 1.5, -1]),
    ("reassign", {"topic": "events", "partition": 0}, "replicas", [None, 5, "1", ["1"], {1: 2}]),
    ("set_isr", {"topic": "events", "partition": 0}, "isr", [None, 5, "1", ["1"], {1: 2}, [9]]),
    ("coordinator", {}, "group_id", [None, 5, b"g", "", "\ud800"]),
    ("move_coordinator", {}, "group_id", [None, 5, b"g", "", "\ud800"]),
    ("move_coordinator", {"group_id": "g"}, "to", NO_BROKERS[1:]),
    ("freeze_metadata", {}, "answers", NO_NUMBERS),
    ("freeze_metadata", {"answers": 1}, "broker", NO_BROKERS[1:]),
    ("wait_for_requests", {}, "timeout_ms", REQUIRED_TIMEOUTS),
    ("wait_for_requests", {}, "count", NO_NUMBERS),
    ("wait_for_requests", {}, "api", ["Prodduce", 1.5, True, [], int]),
    ("address", {}, "broker", NO_BROKERS),
    ("is_running", {}, "broker", NO_BROKERS),
    ("connection_count", {}, "broker", NO_BROKERS),
    ("add_broker", {}, "broker", ["1", True, 1.5, -1]),
    ("add_broker", {}, "rack", [5, b"a", ""]),
    ("add_broker", {}, "port", [None, "1", True, -1, 65_536]),
    ("stop_broker", {}, "broker", NO_BROKERS),
    ("stop_broker", {"broker": 1}, "drain_ms", REQUIRED_TIMEOUTS),
    ("kill_broker", {}, "broker", NO_BROKERS),
    ("kill_broker", {"broker": 1}, "failover_delay_ms", TIMEOUTS),
    ("start_broker", {}, "broker", NO_BROKERS),
    ("start_broker", {"broker": 1}, "port", ["1", True, -1, 65_536]),
    ("start_broker", {"broker": 1}, "host", [5, b"h", ""]),
    ("change_address", {}, "broker", NO_BROKERS),
    ("change_address", {"broker": 1}, "port", [None, "1", True, -1, 65_536]),
]
CLUSTER += [
    (name, {"partition": 0}, "topic", NO_TOPICS)
    for name in (
        "records",
        "end_offset",
        "start_offset",
        "forget_producers",
        "leader",
        "leader_epoch",
        "replicas",
        "isr",
    )
]
CLUSTER.append(("records", {"topic": "events"}, "partition", NO_NUMBERS[1:]))
CLUSTER += [
    (name, {"topic": "events"}, "partition", NO_NUMBERS)
    for name in ("end_offset", "start_offset", "forget_producers", "leader", "leader_epoch", "move_leader")
]
FAULTS: list[Case] = [
    ("add", {}, "api", ["Prodduce", 1.5, True, [], int]),
    ("add", {}, "broker", ["1", True, -1]),
    ("add", {}, "topic", NO_TOPICS[1:]),
    ("add", {"topic": "events"}, "partition", ["0", True, -1]),
    ("add", {}, "client_id", [5, b"", ""]),
    ("add", {}, "when", [5, "x"]),
    ("add", {}, "count", ["1", True, -1, 1.5]),
    ("add", {}, "skip", NO_NUMBERS),
    ("add", {}, "delay_ms", REQUIRED_TIMEOUTS),
    ("add", {}, "error_code", ["1", True, 1.5, ValueError, 2**15]),
    ("add", {}, "garbage", [5, "x"]),
    ("add", {}, "throttle_time_ms", NO_NUMBERS),
    ("add", {}, "hint", [5, (1, 2)]),
    *[("add", {}, flag, NO_FLAGS) for flag in ("after", "hold", "drop", "disconnect", "whole")],
]
OPTIONS: dict[str, list[Any]] = {
    "brokers": [None, "3", True, 0, -1, [], ["1"], [-1], [1, 1], 1.5],
    "host": [None, 5, ""],
    "ports": [5, "1", ["1"], [-1], [1, 2]],
    "racks": [5, "a", [5]],
    "advertised_host": [5, ""],
    "auto_create_topics": NO_FLAGS,
    "num_partitions": NO_NUMBERS,
    "default_replication_factor": NO_NUMBERS[1:],
    "topic_configs": [5, ["a"], {"retention.ms": 5}, {"retention.ms": None}],
    "sasl_users": [5, ["a"], {"a": 5}],
    "gssapi_keytab": [5, ""],
    "ssl_context": [5, True],
    "max_versions": [5, ["Fetch"], {"Fetch": "1"}],
    "features": [5, {"a": "1"}],
    "groups": [5, {}],
    "failover_delay_ms": REQUIRED_TIMEOUTS,
    "fetch_session_slots": NO_NUMBERS,
    "bootstrap_port": ["1", True, -1, 65_536],
    "request_log_size": NO_NUMBERS,
}
NEW_CLUSTER: list[Case] = [("EmbeddedCluster", {}, name, bad) for name, bad in OPTIONS.items()]


def wrong(cases: list[Case]) -> list[Any]:
    return [pytest.param(*case, id=f"{case[0]}-{case[2]}") for case in cases]


async def call(method: Any, given: dict[str, Any], argument: str, value: Any) -> None:
    called = method(*value, **given) if argument.startswith("*") else method(**{**given, argument: value})
    if inspect.isawaitable(called):
        await called


async def refused(target: Any, method: str, given: dict[str, Any], argument: str, values: list[Any]) -> None:
    """Check that each value raises an error that names the argument."""
    for value in values:
        with pytest.raises((ConfigError, ConfigTypeError)) as caught:
            await call(getattr(target, method), given, argument, value)
        text = str(caught.value)
        assert re.match(rf"({argument.strip('*')}|{argument.strip('*').removesuffix('s')})\b", text), (value, text)


@asynccontextmanager
async def a_cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(2) as cluster:
        cluster.create_topic("events", replication_factor=2)
        yield cluster


def sent(cluster: EmbeddedCluster, *background: str) -> set[str]:
    return {record.api for record in cluster.requests} - {"ApiVersions", *background}


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with a_cluster() as running:
        yield running


@pytest.fixture(scope="module")
async def producer() -> AsyncIterator[tuple[EmbeddedCluster, Producer]]:
    async with a_cluster() as cluster, Producer(cluster.bootstrap_servers) as started:
        await started.send_and_wait("events", b"first")
        yield cluster, started


@pytest.fixture(scope="module")
async def consumer() -> AsyncIterator[tuple[EmbeddedCluster, Consumer]]:
    async with a_cluster() as cluster:
        made = Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id="g", enable_auto_commit=False)
        made.assign([TP])
        async with made:
            await made.seek_to_end()
            yield cluster, made


@pytest.fixture(scope="module")
async def admin() -> AsyncIterator[tuple[EmbeddedCluster, AdminClient]]:
    async with a_cluster() as cluster, AdminClient(cluster.bootstrap_servers) as started:
        yield cluster, started


@pytest.mark.parametrize(("method", "given", "argument", "values"), wrong(PRODUCER))
async def test_producer(
    producer: tuple[EmbeddedCluster, Producer], method: str, given: dict[str, Any], argument: str, values: list[Any]
) -> None:
    cluster, client = producer
    cluster.requests.clear()
    await refused(client, method, given, argument, values)
    await client.flush()
    assert sent(cluster) == set()


@pytest.mark.parametrize(("method", "given", "argument", "values"), wrong(CONSUMER))
async def test_consumer(
    consumer: tuple[EmbeddedCluster, Consumer], method: str, given: dict[str, Any], argument: str, values: list[Any]
) -> None:
    cluster, client = consumer
    cluster.requests.clear()
    await refused(client, method, given, argument, values)
    assert sent(cluster, "Fetch") == set()
    assert client.assignment() == {TP}


@pytest.mark.parametrize(("method", "given", "argument", "values"), wrong(ADMIN))
async def test_admin(
    admin: tuple[EmbeddedCluster, AdminClient], method: str, given: dict[str, Any], argument: str, values: list[Any]
) -> None:
    cluster, client = admin
    cluster.requests.clear()
    await refused(client, method, given, argument, values)
    assert sent(cluster) == set()
    assert cluster.topic_names() == ["events"]


@pytest.mark.parametrize(("method", "given", "argument", "values"), wrong(CLUSTER))
async def test_embedded_cluster(
    cluster: EmbeddedCluster, method: str, given: dict[str, Any], argument: str, values: list[Any]
) -> None:
    await refused(cluster, method, given, argument, values)
    assert cluster.topic_names() == ["events"]
    assert cluster.broker_ids == [1, 2]
    assert (cluster.leader("events"), cluster.leader_epoch("events")) == (1, 0)


@pytest.mark.parametrize(("method", "given", "argument", "values"), wrong(FAULTS))
async def test_faults(method: str, given: dict[str, Any], argument: str, values: list[Any]) -> None:
    await refused(Faults(lambda _: None), method, given, argument, values)


@pytest.mark.parametrize(("method", "given", "argument", "values"), wrong(NEW_CLUSTER))
async def test_new_cluster(method: str, given: dict[str, Any], argument: str, values: list[Any]) -> None:
    import aiokafka_lead.testing

    await refused(aiokafka_lead.testing, method, given, argument, values)


def test_a_cluster_in_a_thread_says_the_same() -> None:
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        cluster.create_topic("events", num_partitions=2, topic_configs={"retention.ms": "5"})
        assert cluster.partition_count("events") == 2
        with pytest.raises(ConfigTypeError, match="num_partitions"):
            cluster.create_topic("other", num_partitions="2")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="broker"):
            cluster.address(7)


TRANSACTIONS = {f"{verb}_transaction" for verb in ("begin", "commit", "abort", "send_offsets_to")}
"""Methods that first check for an open transaction: tests/transactions tests their arguments."""
TRANSACTIONS |= {"transaction", "transaction_health"}


@pytest.mark.parametrize(
    ("client", "cases", "without_wrong_ones"),
    [
        (Producer, PRODUCER, {"start", "metrics", "health"} | TRANSACTIONS),
        (
            Consumer,
            CONSUMER,
            {
                "unsubscribe",
                "subscription",
                "assignment",
                "paused",
                "topics",
                "batches",
                "group_metadata",
            }
            | {"metrics", "lag", "health"},
        ),
        (AdminClient, ADMIN, {"start", "metrics"}),
    ],
)
def test_no_public_method_is_left_out(client: type[Any], cases: list[Case], without_wrong_ones: Iterable[str]) -> None:
    methods = set(public_methods(client))
    assert methods == {method for method, *_ in cases} | set(without_wrong_ones)
    for name in methods - set(without_wrong_ones):
        asked = {argument.strip("*") for method, _, argument, _ in cases if method == name}
        known = set(inspect.signature(getattr(client, name)).parameters) - {"self", "options"}
        assert known <= asked, f"{name} has no case for {known - asked}"

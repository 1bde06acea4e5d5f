"""Wrong arguments of the admin client's calls about groups, access and brokers: cases for `tests.test_arguments`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from aiokafka_lead import TopicPartition
from aiokafka_lead.admin import (
    FeatureUpdate,
    RaftVoterEndpoint,
)

__all__ = ["CASES", "GOOD"]

TP = TopicPartition("events", 0)
VOTER = UUID(int=7)

NO_NAMES: list[Any] = [None, 5, b"g", "", "\ud800"]
NO_LISTS: list[Any] = [5, "ab", b"ab", {"a": 1}, 1.5, True]
NO_PARTITIONS: list[Any] = [*NO_LISTS, ["events"], [("events", -1)], [("events", True)], [(b"events", 0)]]
NO_TOPICS: list[Any] = [*NO_LISTS, [5], [""], ["a b"]]
NO_FLAGS: list[Any] = [None, 0, 1, "no"]
NO_INTEGERS: list[Any] = ["1", 1.5, True, b"1", [1], -1]
NO_TIMES: list[Any] = ["1", True, b"1", [1], -2]

GOOD: dict[str, dict[str, Any]] = {
    "add_raft_voter": {
        "voter_id": 1,
        "voter_directory_id": VOTER,
        "endpoints": [RaftVoterEndpoint("CONTROLLER", "h", 1)],
    },
    "remove_raft_voter": {"voter_id": 1, "voter_directory_id": VOTER},
    "unregister_broker": {"broker_id": 1},
    "unregister_controller": {"controller_id": 1},
    "update_features": {"updates": {"f": FeatureUpdate(1)}},
    "alter_client_quotas": {"quotas": {}},
    "alter_replica_log_dirs": {"moves": {}},
    "alter_user_scram_credentials": {"alterations": []},
    "create_acls": {"bindings": []},
    "delete_acls": {"filters": []},
    "describe_log_dirs": {"brokers": [1]},
    "expire_delegation_token": {"hmac": b"h"},
    "renew_delegation_token": {"hmac": b"h"},
    "reset_consumer_group_offsets": {"group_id": "g", "to": 0},
    "reset_share_group_offsets": {"group_id": "g", "to": 0},
    "remove_members_from_consumer_group": {"group_id": "g"},
}
for _kind in ("consumer", "streams"):
    GOOD[f"alter_{_kind}_group_offsets"] = {"group_id": "g", "offsets": {TP: 1}}
    GOOD[f"delete_{_kind}_group_offsets"] = {"group_id": "g", "partitions": [TP]}
GOOD["alter_share_group_offsets"] = {"group_id": "g", "offsets": {TP: 1}}
GOOD["delete_share_group_offsets"] = {"group_id": "g", "topics": ["events"]}
for _kind in ("consumer", "share", "streams"):
    GOOD[f"list_{_kind}_group_offsets"] = {"group_id": "g"}
    GOOD[f"delete_{_kind}_groups"] = {"group_ids": ["g"]}
for _kind in ("consumer", "classic", "share", "streams"):
    GOOD[f"describe_{_kind}_groups"] = {"group_ids": ["g"]}

Case = tuple[str, dict[str, Any], str, list[Any]]

CASES: list[Case] = [
    ("list_groups", {}, "states", [*NO_LISTS, ["Stable"], [None]]),
    ("list_groups", {}, "types", [*NO_LISTS, ["classic"], [None]]),
    ("list_groups", {}, "protocol_types", [*NO_LISTS, [5], [None]]),
    ("remove_members_from_consumer_group", {}, "group_id", NO_NAMES),
    ("remove_members_from_consumer_group", {"group_id": "g"}, "members", [*NO_LISTS, [5], [""]]),
    ("remove_members_from_consumer_group", {"group_id": "g"}, "static_members", [*NO_LISTS, [5], [""]]),
    ("remove_members_from_consumer_group", {"group_id": "g"}, "reason", [None, 5, b"r", "\ud800"]),
    ("reset_consumer_group_offsets", {"to": 0}, "group_id", NO_NAMES),
    ("reset_consumer_group_offsets", {"group_id": "g"}, "to", [None, "2h", 1.5, True, -7]),
    ("reset_consumer_group_offsets", {"group_id": "g", "to": 0}, "topics", NO_TOPICS),
    ("reset_consumer_group_offsets", {"group_id": "g", "to": 0}, "partitions", NO_PARTITIONS),
    ("reset_consumer_group_offsets", {"group_id": "g", "to": 0}, "dry_run", NO_FLAGS),
    ("reset_share_group_offsets", {"to": 0}, "group_id", NO_NAMES),
    ("reset_share_group_offsets", {"group_id": "g"}, "to", [None, "2h", 1.5, True, -7]),
    ("reset_share_group_offsets", {"group_id": "g", "to": 0}, "topics", NO_TOPICS),
    ("reset_share_group_offsets", {"group_id": "g", "to": 0}, "partitions", NO_PARTITIONS),
    ("reset_share_group_offsets", {"group_id": "g", "to": 0}, "dry_run", NO_FLAGS),
    ("list_share_group_offsets", {}, "group_id", NO_NAMES),
    ("list_share_group_offsets", {"group_id": "g"}, "partitions", NO_PARTITIONS),
    ("alter_share_group_offsets", {"offsets": {TP: 1}}, "group_id", NO_NAMES),
    ("alter_share_group_offsets", {"group_id": "g"}, "offsets", [None, [TP], "ab", {"events": 1}, {TP: -1}, {TP: "1"}]),
    ("delete_share_group_offsets", {"topics": ["events"]}, "group_id", NO_NAMES),
    ("delete_share_group_offsets", {"group_id": "g"}, "topics", [None, *NO_TOPICS]),
    ("describe_acls", {}, "acl_filter", [None, 5, "any", {}]),
    ("create_acls", {}, "bindings", [None, *NO_LISTS, [5], [None]]),
    ("delete_acls", {}, "filters", [None, *NO_LISTS, [5], [None]]),
    ("describe_client_quotas", {}, "quota_filter", [None, 5, "user", {}]),
    ("alter_client_quotas", {}, "quotas", [None, 5, "ab", [1], {(("user", "a"),): {"producer_byte_rate": 10**400}}]),
    ("alter_client_quotas", {"quotas": {}}, "validate_only", NO_FLAGS),
    ("describe_user_scram_credentials", {}, "users", [*NO_LISTS, [5], [""]]),
    ("alter_user_scram_credentials", {}, "alterations", [None, *NO_LISTS, [5], [None]]),
    ("create_delegation_token", {}, "owner", [5, b"User:a", ""]),
    ("create_delegation_token", {}, "renewers", [None, *NO_LISTS, [5]]),
    ("create_delegation_token", {}, "max_lifetime_ms", NO_TIMES),
    ("renew_delegation_token", {}, "hmac", [None, 5, "aGk="]),
    ("renew_delegation_token", {"hmac": b"h"}, "renew_period_ms", NO_TIMES),
    ("expire_delegation_token", {}, "hmac", [None, 5, "aGk="]),
    ("expire_delegation_token", {"hmac": b"h"}, "expiry_period_ms", NO_TIMES),
    ("describe_delegation_token", {}, "owners", [*NO_LISTS, [5]]),
    ("describe_log_dirs", {}, "brokers", [None, *NO_LISTS, ["1"], [-1], [True]]),
    ("describe_log_dirs", {"brokers": [1]}, "partitions", NO_PARTITIONS),
    ("alter_replica_log_dirs", {}, "moves", [None, [TP], "ab", {TP: "/x"}, {(TP, 1): 5}]),
    ("update_features", {}, "updates", [None, ["f"], "f", {"f": 1}, {5: FeatureUpdate(1)}]),
    ("update_features", {"updates": {"f": FeatureUpdate(1)}}, "validate_only", NO_FLAGS),
    ("add_raft_voter", {**GOOD["add_raft_voter"]}, "voter_id", [None, *NO_INTEGERS]),
    ("add_raft_voter", {**GOOD["add_raft_voter"]}, "voter_directory_id", [None, 5, "7"]),
    ("add_raft_voter", {**GOOD["add_raft_voter"]}, "endpoints", [None, *NO_LISTS, [5], [("CONTROLLER", "h", 1)]]),
    ("remove_raft_voter", {**GOOD["remove_raft_voter"]}, "voter_id", [None, *NO_INTEGERS]),
    ("remove_raft_voter", {**GOOD["remove_raft_voter"]}, "voter_directory_id", [None, 5, "7"]),
    ("unregister_broker", {}, "broker_id", [None, *NO_INTEGERS]),
    ("describe_features", {}, "broker_id", NO_INTEGERS),
    ("unregister_controller", {}, "controller_id", [None, *NO_INTEGERS]),
    ("list_config_resources", {}, "types", [*NO_LISTS, [2], [None]]),
]
for _kind in ("consumer", "streams"):
    CASES += [
        (f"list_{_kind}_group_offsets", {}, "group_id", NO_NAMES),
        (f"list_{_kind}_group_offsets", {"group_id": "g"}, "partitions", NO_PARTITIONS),
        (f"list_{_kind}_group_offsets", {"group_id": "g"}, "require_stable", NO_FLAGS),
        (f"alter_{_kind}_group_offsets", {"offsets": {TP: 1}}, "group_id", NO_NAMES),
        (
            f"alter_{_kind}_group_offsets",
            {"group_id": "g"},
            "offsets",
            [None, [TP], "ab", {"events": 1}, {TP: -1}, {TP: "1"}],
        ),
        (f"delete_{_kind}_group_offsets", {"partitions": [TP]}, "group_id", NO_NAMES),
        (f"delete_{_kind}_group_offsets", {"group_id": "g"}, "partitions", [None, *NO_PARTITIONS]),
    ]
CASES += [
    (name, {}, "group_ids", [None, *NO_LISTS, [5], [""]])
    for name in GOOD
    if name.startswith(("describe_", "delete_")) and name.endswith("_groups")
]
CASES += [
    (name, {"group_ids": ["g"]}, "include_authorized_operations", NO_FLAGS)
    for name in GOOD
    if name.startswith("describe_") and name.endswith("_groups")
]
CASES.append(("describe_streams_groups", {"group_ids": ["g"]}, "include_topology_description", NO_FLAGS))

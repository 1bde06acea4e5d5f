"""Access control rules on the embedded cluster, and arguments that calls about security and brokers refuse at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokafka_lead import TopicPartition
from aiokafka_lead.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPatternType,
    AclPermissionType,
    AclResourceType,
    AdminClient,
    ClientQuotaFilter,
    DelegationToken,
    FeatureUpdate,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from aiokafka_lead.errors import ConfigError, ConfigTypeError, InvalidRequestError, InvalidUpdateVersionError
from aiokafka_lead.testing import EmbeddedCluster

from .support import make_admin

pytestmark = pytest.mark.anyio

READ = AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
PREFIXED = AclBinding(
    AclResourceType.TOPIC, "ord", "User:bob", AclOperation.WRITE, pattern_type=AclPatternType.PREFIXED
)
DENIED = AclBinding(AclResourceType.GROUP, "*", "User:*", AclOperation.ALL, AclPermissionType.DENY, host="10.0.0.1")


async def test_rules() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        await admin.create_acls([READ, PREFIXED, DENIED])
        await admin.create_acls([READ])
        assert await admin.describe_acls() == [READ, PREFIXED, DENIED]
        orders = AclBindingFilter(AclResourceType.TOPIC, "orders", pattern_type=AclPatternType.MATCH)
        assert await admin.describe_acls(orders) == [READ, PREFIXED]
        any_group = AclBindingFilter(AclResourceType.GROUP, "g", pattern_type=AclPatternType.MATCH)
        bobs = AclBindingFilter(principal="User:bob")
        nobodys = AclBindingFilter(principal="User:eve")
        assert await admin.delete_acls([any_group, bobs, nobodys]) == {
            any_group: (DENIED,),
            bobs: (PREFIXED,),
            nobodys: (),
        }
        assert await admin.describe_acls() == [READ]


async def test_each_rule_has_an_outcome_of_its_own() -> None:
    wrong = AclBinding(AclResourceType.CLUSTER, "mine", "User:alice", AclOperation.ALTER)
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        with pytest.raises(InvalidRequestError, match="kafka-cluster") as caught:
            await admin.create_acls([wrong, READ])
        assert caught.value.outcomes is not None
        assert caught.value.outcomes[READ] is None
        assert await admin.describe_acls() == [READ]


async def test_features() -> None:
    async with EmbeddedCluster(1) as cluster, make_admin(cluster) as admin:
        features = await admin.describe_features()
        assert features.finalized == cluster.features
        low, high = features.supported["transaction.version"]
        assert low <= features.finalized["transaction.version"] <= high
        with pytest.raises(InvalidUpdateVersionError):
            await admin.update_features({"transaction.version": FeatureUpdate(high + 1)})
        await admin.update_features({"transaction.version": FeatureUpdate(high)})
        assert cluster.features["transaction.version"] == high


def test_secrets_do_not_show() -> None:
    assert "sesame" not in repr(ScramUpsertion("alice", "open sesame"))
    token = DelegationToken("id", b"hidden", "User:alice", None, (), 0, 0, 0)
    assert "hidden" not in repr(token)


SHA_512 = ScramMechanism.SCRAM_SHA_512
WRONG: list[tuple[Callable[[AdminClient, Any], Awaitable[object]], Any, str]] = [
    (AdminClient.create_acls, [AclBinding(AclResourceType.ANY, "x", "User:a", AclOperation.READ)], "must not be ANY"),
    (AdminClient.create_acls, [AclBinding(AclResourceType.TOPIC, "x", "alice", AclOperation.READ)], "User:alice"),
    (AdminClient.create_acls, [AclBinding(AclResourceType.TOPIC, "", "User:a", AclOperation.READ)], "resource_name"),
    (AdminClient.create_acls, READ, "must be a list of AclBinding"),
    (AdminClient.describe_acls, READ, "must be an AclBindingFilter"),
    (AdminClient.delete_acls, [AclBindingFilter(operation="read")], r"filters\[0\].operation"),  # type: ignore[arg-type]
    (AdminClient.describe_client_quotas, ClientQuotaFilter({"planet": "x"}), "'user', 'client-id', 'ip'"),
    (AdminClient.describe_client_quotas, ClientQuotaFilter({"ip": "x"}, frozenset({"ip"})), "must not repeat"),
    (AdminClient.alter_client_quotas, {(("user", "a"), ("user", "b")): {}}, "twice"),
    (AdminClient.alter_client_quotas, {(("user", "a"),): {"producer_byte_rate": -1}}, "at least 0"),
    (AdminClient.alter_client_quotas, {"user": {}}, "tuple of .type, name. pairs"),
    (AdminClient.alter_user_scram_credentials, [ScramUpsertion("a", "")], "password must not be empty"),
    (AdminClient.alter_user_scram_credentials, [ScramUpsertion("a", "p", iterations=1)], "from 4096 to 16384"),
    (AdminClient.alter_user_scram_credentials, [ScramDeletion("", SHA_512)], "user must not be empty"),
    (AdminClient.alter_user_scram_credentials, [("a", "p")], "ScramUpsertion or ScramDeletion"),
    (AdminClient.renew_delegation_token, b"", "hmac"),
    (AdminClient.expire_delegation_token, "text", "hmac"),
    (AdminClient.describe_delegation_token, ["alice"], "User:alice"),
    (AdminClient.describe_log_dirs, [-1], r"brokers\[0\]"),
    (AdminClient.alter_replica_log_dirs, {TopicPartition("t", 0): "/x"}, "moves"),
    (AdminClient.update_features, {"f": 1}, "must be a FeatureUpdate"),
    (AdminClient.unregister_broker, "1", "broker_id must be an int"),
    (AdminClient.list_config_resources, [2], "ConfigResourceType"),
]


@pytest.mark.parametrize(("call", "argument", "text"), WRONG)
async def test_wrong_arguments_are_refused_before_anything_is_sent(
    call: Callable[[AdminClient, Any], Awaitable[object]], argument: Any, text: str
) -> None:
    admin = AdminClient("127.0.0.1:1")  # without ever connecting
    with pytest.raises((ConfigError, ConfigTypeError), match=text):
        await call(admin, argument)

"""Every area of the admin client on real Kafka, right and wrong input, beside Java's own tools."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, OffsetAndMetadata, TopicPartition
from aiokafka_lead.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclResourceType,
    ClientQuotaFilter,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    FeatureUpdate,
    GroupState,
    GroupType,
    LogDirDescription,
    NewTopic,
    OffsetSpec,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
    ToShifted,
)
from aiokafka_lead.errors import (
    BrokerIdNotRegisteredError,
    ControllerIdNotRegisteredError,
    DelegationTokenNotFoundError,
    DelegationTokenRequestNotAllowedError,
    GroupIdNotFoundError,
    InvalidConfigError,
    InvalidRequestError,
    KafkaError,
    LogDirNotFoundError,
    NonEmptyGroupError,
    ResourceNotFoundError,
    SaslAuthenticationFailedError,
    SecurityDisabledError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

from .harness import KafkaCluster, Listener
from .harness.settings import PASSWORD, USER
from .support import make_producer, on_asyncio
from .test_admin import eventually

pytestmark = [pytest.mark.anyio, on_asyncio]

_GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_SHARE_GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


async def tool(kafka: KafkaCluster, name: str, *arguments: str) -> str:
    """Return the output of one of Java's tools."""
    given = ("--bootstrap-server", kafka.bootstrap(), *arguments)
    return await anyio.to_thread.run_sync(lambda: kafka.tools.run(name, *given))


async def test_groups_and_their_offsets(kafka: KafkaCluster, admin: AdminClient, topic_name: Callable[[], str]) -> None:
    topic, old, new, kept = (topic_name() for _ in range(4))
    where = TopicPartition(topic, 0)
    await admin.create_topics([NewTopic(topic, 1, 3)])
    async with make_producer(kafka) as producer:
        for number in range(10):
            await producer.send_and_wait(topic, b"%d" % number, partition=0, timestamp_ms=1000 + number)
    servers = kafka.bootstrap()
    async with (
        Consumer(topic, bootstrap_servers=servers, group_id=old),
        Consumer(topic, bootstrap_servers=servers, group_id=new, group_protocol="consumer"),
    ):
        for name, kind in ((old, GroupType.CLASSIC), (new, GroupType.CONSUMER)):
            group = (await admin.describe_consumer_groups([name], include_authorized_operations=True))[name]
            assert (group.type, [member.assignment for member in group.members]) == (kind, [(where,)])
            assert group.authorized_operations is not None
            assert AclOperation.DELETE in group.authorized_operations
            with pytest.raises(NonEmptyGroupError):
                await admin.delete_consumer_groups([name])
            with pytest.raises(NonEmptyGroupError):
                await admin.reset_consumer_group_offsets(name, OffsetSpec.EARLIEST, topics=[topic])
        listed = {group.group_id: group async for group in admin.list_groups(states=[GroupState.STABLE])}
        assert (listed[old].type, listed[new].type) == (GroupType.CLASSIC, GroupType.CONSUMER)
    await admin.alter_consumer_group_offsets(kept, {where: OffsetAndMetadata(4, "by hand")})
    assert (await admin.list_consumer_group_offsets(kept)) == {where: OffsetAndMetadata(4, "by hand")}
    assert (await admin.reset_consumer_group_offsets(kept, 1007, dry_run=True))[where].after.offset == 7
    planned = await tool(
        kafka, _GROUPS_TOOL, "--group", kept, "--reset-offsets", "--shift-by", "-3", "--topic", topic, "--dry-run"
    )
    changes = await admin.reset_consumer_group_offsets(kept, ToShifted(-3))
    assert str(changes[where].after.offset) == planned.split()[-1] == "1"
    seen = (await tool(kafka, _GROUPS_TOOL, "--group", kept, "--describe")).split()
    assert seen[seen.index(topic) : seen.index(topic) + 5] == [topic, "0", "1", "10", "9"]
    await admin.delete_consumer_group_offsets(kept, [where])
    assert await admin.list_consumer_group_offsets(kept) == {}
    await admin.delete_consumer_groups([old, new])
    for name in (old, new):
        with pytest.raises(GroupIdNotFoundError):
            await admin.describe_consumer_groups([name])


async def test_share_groups(kafka: KafkaCluster, admin: AdminClient, topic_name: Callable[[], str]) -> None:
    topic, group = topic_name(), topic_name()
    where = TopicPartition(topic, 0)
    await admin.create_topics([NewTopic(topic, 1, 3)])
    with pytest.raises(GroupIdNotFoundError):
        await admin.describe_share_groups([group])
    assert await admin.list_share_group_offsets(group) == {}
    with pytest.raises(GroupIdNotFoundError):
        await admin.describe_streams_groups([group])
    with pytest.raises(GroupIdNotFoundError):
        await admin.delete_share_group_offsets(group, [topic])
    await admin.alter_share_group_offsets(group, {where: 0})
    assert (await admin.describe_share_groups([group]))[group].state is GroupState.EMPTY
    offset = (await admin.list_share_group_offsets(group, [where]))[where]
    assert offset is not None
    assert offset.start_offset == 0
    async with make_producer(kafka) as producer:
        for number in range(3):
            await producer.send_and_wait(topic, b"%d" % number, timestamp_ms=1000 + number)
    assert (await admin.reset_share_group_offsets(group, 1001, dry_run=True))[where] == (0, 1)
    assert (await admin.reset_share_group_offsets(group, ToShifted(1)))[where] == (0, 1)
    seen = (await tool(kafka, _SHARE_GROUPS_TOOL, "--group", group, "--describe", "--offsets")).split()
    assert seen[seen.index(topic) :][:4] == [topic, "0", "1", "2"]
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.alter_share_group_offsets(group, {TopicPartition(topic, 9): 0})
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.reset_share_group_offsets(group, OffsetSpec.LATEST, topics=[f"{topic}-none"])
    own = ConfigResource(ConfigResourceType.GROUP, group)
    right = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
    right["share.record.lock.duration.ms"] = "5000"
    await admin.incremental_alter_configs({own: [ConfigChange(name, value) for name, value in right.items()]})

    async def configured() -> bool:
        return {name: (await admin.describe_configs([own]))[own][name].value for name in right} == right

    await eventually(configured)
    for name, value in (("share.isolation.level", "x"), ("share.record.lock.duration.ms", "1"), ("share.none", "1")):
        with pytest.raises(InvalidConfigError):
            await admin.incremental_alter_configs({own: [ConfigChange(name, value)]})
    await admin.delete_share_group_offsets(group, [topic])
    await admin.delete_share_groups([group])


async def test_quotas_and_passwords(kafka: KafkaCluster, admin: AdminClient) -> None:
    user = f"u-{uuid4().hex[:8]}"
    entity = (("client-id", "app"), ("user", user))
    await admin.alter_client_quotas({entity: {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}})
    await admin.alter_client_quotas({entity: {"consumer_byte_rate": None}})
    wanted = ClientQuotaFilter({"user": user}, frozenset({"client-id"}), strict=True)

    async def altered() -> bool:
        return await admin.describe_client_quotas(wanted) == {entity: {"producer_byte_rate": 1e6}}

    await eventually(altered)
    with pytest.raises(InvalidRequestError):
        await admin.alter_client_quotas({entity: {"no_such_quota": 1.0}})

    await admin.alter_user_scram_credentials([ScramUpsertion(user, "open sesame", ScramMechanism.SCRAM_SHA_256)])

    async def known() -> bool:
        return user in await admin.describe_user_scram_credentials()

    await eventually(known)
    assert await admin.describe_user_scram_credentials([user]) == {
        user: (ScramCredential(ScramMechanism.SCRAM_SHA_256, 8192),)
    }
    seen = await tool(kafka, kafka.release.config_tool, "--describe", "--entity-type", "users", "--entity-name", user)
    assert "SCRAM-SHA-256=iterations=8192" in seen
    login: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": user,
        "sasl_plain_password": "open sesame",
    }

    async def works() -> bool:  # as soon as the broker that is asked knows the user
        try:
            async with AdminClient(kafka.bootstrap(Listener.SASL_PLAINTEXT), **login) as other:
                return await other.list_topics() is not None
        except SaslAuthenticationFailedError:
            return False

    await eventually(works)
    await admin.alter_user_scram_credentials([ScramDeletion(user, ScramMechanism.SCRAM_SHA_256)])
    with pytest.raises(ResourceNotFoundError):
        await admin.alter_user_scram_credentials([ScramDeletion(user, ScramMechanism.SCRAM_SHA_512)])
    # The user is created again, to protect the other users. A starting broker replays its log into one ScramDelta,
    # whose apply() drops a mechanism if the first of its users in hash order is a removed one: then the broker refuses
    # all users of that mechanism (tried on 4.3.1).
    await admin.alter_user_scram_credentials([ScramUpsertion(user, "open sesame", ScramMechanism.SCRAM_SHA_256)])


async def test_delegation_tokens(kafka: KafkaCluster, admin: AdminClient) -> None:
    with pytest.raises(DelegationTokenRequestNotAllowedError):  # without authentication there is no owner
        await admin.create_delegation_token()
    login: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    async with AdminClient(kafka.bootstrap(Listener.SASL_PLAINTEXT), **login) as owner:
        token = await owner.create_delegation_token(renewers=["User:bob"], max_lifetime_ms=3_600_000)
        assert (token.owner, token.renewers) == (f"User:{USER}", ("User:bob",))
        assert token.max_ms - token.issued_ms == 3_600_000
        assert token.hmac.hex() not in repr(token)

        async def described() -> bool:
            return token.token_id in {each.token_id for each in await owner.describe_delegation_token()}

        await eventually(described)
        assert await owner.describe_delegation_token(["User:nobody"]) == []

        async def renewed() -> bool:
            try:
                return await owner.renew_delegation_token(token.hmac, renew_period_ms=60_000) <= token.max_ms
            except DelegationTokenNotFoundError:  # the controller itself learns of it a moment later
                return False

        await eventually(renewed)
        by_token = {
            **login,
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": token.token_id,
            "sasl_plain_password": b64encode(token.hmac).decode(),
            "sasl_delegation_token": True,
        }

        async def works() -> bool:
            try:
                async with AdminClient(kafka.bootstrap(Listener.SASL_PLAINTEXT), **by_token):
                    return True
            except KafkaError:
                return False

        await eventually(works)
        await owner.expire_delegation_token(token.hmac)
        with pytest.raises(DelegationTokenNotFoundError):
            await owner.renew_delegation_token(b"no token has this")


async def test_rules_need_an_authorizer(admin: AdminClient) -> None:
    rule = AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
    with pytest.raises(SecurityDisabledError):
        await admin.create_acls([rule])
    with pytest.raises(SecurityDisabledError):
        await admin.describe_acls()
    with pytest.raises(SecurityDisabledError):
        await admin.delete_acls([AclBindingFilter(principal="User:alice")])


async def test_log_directories(kafka: KafkaCluster, admin: AdminClient, topic_name: Callable[[], str]) -> None:
    topic = topic_name()
    where = TopicPartition(topic, 0)
    await admin.create_topics([NewTopic(topic, replica_assignments={0: [1, 2]})])

    async def placed() -> bool:  # a replica has its log once its broker has learnt of it
        found = await admin.describe_log_dirs([1, 2, 3], partitions=[where])
        brokers = set()
        for broker, paths in found.items():
            for path in paths.values():
                assert isinstance(path, LogDirDescription)
                assert path.total_bytes is not None
                assert not path.is_cordoned
                if where in path.replicas:
                    brokers.add(broker)
        return brokers == {1, 2}

    await eventually(placed)
    printed = await tool(kafka, "org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list", topic)
    theirs = json.loads(printed.splitlines()[-1])
    assert {each["broker"] for each in theirs["brokers"] for d in each["logDirs"] if d["partitions"]} == {1, 2}
    with pytest.raises(LogDirNotFoundError):
        await admin.alter_replica_log_dirs({(where, 1): "/no/such/directory"})


async def test_features_quorum_and_resources(kafka: KafkaCluster, admin: AdminClient) -> None:
    features = await admin.describe_features()
    level = features.finalized["transaction.version"]
    low, high = features.supported["transaction.version"]
    assert low <= level <= high
    await admin.update_features({"transaction.version": FeatureUpdate(level)}, validate_only=True)
    with pytest.raises(KafkaError):
        await admin.update_features({"transaction.version": FeatureUpdate(high + 7)}, validate_only=True)
    quorum = await admin.describe_metadata_quorum()
    printed = await tool(kafka, "org.apache.kafka.tools.MetadataQuorumCommand", "describe", "--status")
    assert f"LeaderId: {quorum.leader_id} " in " ".join(printed.split())
    assert quorum.leader_id in {voter.replica_id for voter in quorum.voters}
    with pytest.raises(KafkaError):  # the quorum is a static one
        await admin.remove_raft_voter(99, uuid4())
    with pytest.raises(BrokerIdNotRegisteredError):
        await admin.unregister_broker(99)
    with pytest.raises((ControllerIdNotRegisteredError, UnsupportedVersionError)):  # by the metadata version
        await admin.unregister_controller(99)
    name = f"m-{uuid4().hex[:8]}"
    resource = ConfigResource(ConfigResourceType.CLIENT_METRICS, name)
    await admin.incremental_alter_configs({resource: [ConfigChange("interval.ms", "60000")]})

    async def listed() -> bool:
        return name in await admin.list_client_metrics_resources()

    await eventually(listed)
    assert resource in await admin.list_config_resources()
    with pytest.raises((InvalidConfigError, InvalidRequestError)):
        await admin.incremental_alter_configs({resource: [ConfigChange("interval.ms", "never")]})
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "nowhere")])

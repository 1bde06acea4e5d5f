"""Access rules on a real Kafka that enforces them, beside Java's ``kafka-acls``: each tool sees the other's changes."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient
from aiokafka_lead.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPatternType,
    AclPermissionType,
    AclResourceType,
)
from aiokafka_lead.errors import ConfigTypeError, KafkaError

from .harness import KafkaCluster
from .test_admin import eventually

pytestmark = pytest.mark.anyio

_TOOL = "org.apache.kafka.tools.AclCommand"
_RESOURCE = re.compile(r"resourceType=(\w+), name=([^,]+), patternType=(\w+)")
_RULE = re.compile(r"principal=([^,]+), host=([^,]+), operation=(\w+), permissionType=(\w+)")

RULES = {
    AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ),
    AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.DESCRIBE_CONFIGS, host="10.0.0.7"),
    AclBinding(AclResourceType.TOPIC, "orders-", "User:*", AclOperation.WRITE, pattern_type=AclPatternType.PREFIXED),
    AclBinding(AclResourceType.GROUP, "*", "User:mallory", AclOperation.ALL, AclPermissionType.DENY),
    AclBinding(AclResourceType.CLUSTER, "kafka-cluster", "User:alice", AclOperation.IDEMPOTENT_WRITE),
    AclBinding(AclResourceType.TRANSACTIONAL_ID, "payments", "User:CN=app", AclOperation.WRITE),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop suffices: the embedded cluster's tests run on both."""
    return "asyncio"


async def tool(kafka: KafkaCluster, *arguments: str) -> set[AclBinding]:
    """Run the tool; return the rules that it prints."""
    given = ("--bootstrap-server", kafka.bootstrap(), *arguments)
    found: set[AclBinding] = set()
    resource: Any = None
    for line in (await anyio.to_thread.run_sync(lambda: kafka.tools.run(_TOOL, *given))).splitlines():
        if heading := _RESOURCE.search(line):
            resource = heading.groups()
        elif rule := _RULE.search(line):
            principal, host, operation, permission = rule.groups()
            kind, name, pattern = resource
            found.add(
                AclBinding(
                    AclResourceType[kind],
                    name,
                    principal,
                    AclOperation[operation],
                    AclPermissionType[permission],
                    host,
                    AclPatternType[pattern],
                )
            )
    return found


async def test_each_sees_the_others_rules(kafka_alone: KafkaCluster) -> None:
    kafka = kafka_alone
    async with AdminClient(kafka.bootstrap()) as admin:

        async def ours(wanted: AclBindingFilter | None = None) -> set[AclBinding]:
            return set(await admin.describe_acls(wanted or AclBindingFilter()))

        async def both_are(expected: set[AclBinding]) -> bool:
            return await ours() == expected

        await admin.create_acls(RULES)
        await admin.create_acls(RULES)
        await eventually(lambda: both_are(RULES))
        assert await tool(kafka, "--list") == RULES
        of_alice = AclBindingFilter(principal="User:alice")
        assert await ours(of_alice) == {rule for rule in RULES if rule.principal == "User:alice"}
        matching = AclBindingFilter(AclResourceType.TOPIC, "orders-1", pattern_type=AclPatternType.MATCH)
        listed = await tool(kafka, "--list", "--topic", "orders-1", "--resource-pattern-type", "match")
        assert await ours(matching) == listed != set()

        consumer = ("--consumer", "--topic", "bills", "--group", "billing", "--allow-principal", "User:bob")
        await tool(kafka, "--add", *consumer)
        bobs = {
            AclBinding(AclResourceType.TOPIC, "bills", "User:bob", AclOperation.READ),
            AclBinding(AclResourceType.TOPIC, "bills", "User:bob", AclOperation.DESCRIBE),
            AclBinding(AclResourceType.GROUP, "billing", "User:bob", AclOperation.READ),
        }
        await eventually(lambda: both_are(RULES | bobs))

        gone = await admin.delete_acls([of_alice, AclBindingFilter(principal="User:nobody")])
        assert {rule for rules in gone.values() for rule in rules} == {r for r in RULES if r.principal == "User:alice"}
        assert gone[AclBindingFilter(principal="User:nobody")] == ()
        left = {rule for rule in RULES | bobs if rule.principal != "User:alice"}
        await eventually(lambda: both_are(left))
        assert await tool(kafka, "--list") == left
        await tool(kafka, "--remove", "--force", *consumer)
        await eventually(lambda: both_are(left - bobs))

        for wrong in (
            AclBinding(AclResourceType.CLUSTER, "other", "User:alice", AclOperation.ALTER),
            AclBinding(AclResourceType.TOPIC, "orders", "alice", AclOperation.READ),
        ):
            with pytest.raises(KafkaError):
                await admin.create_acls([wrong])
        with pytest.raises(ConfigTypeError):
            await admin.create_acls(["rule"])  # type: ignore[list-item]
        assert await ours() == left - bobs


async def test_the_command_line_sees_the_same(kafka_alone: KafkaCluster) -> None:
    """The rules, and the clock of a real controller, which is this machine's."""

    async def program(*arguments: str) -> Any:
        command = [sys.executable, "-m", "aiokafka_lead.cli", *arguments, "-b", kafka_alone.bootstrap(), "--json"]
        return json.loads((await anyio.run_process(command)).stdout)

    await program("acls", "add", "-u", "User:carol", "-o", "read", "-r", "topic", "--name", "carols")
    carols = AclBinding(AclResourceType.TOPIC, "carols", "User:carol", AclOperation.READ)
    assert carols in await tool(kafka_alone, "--list")
    (rule,) = await program("acls", "list", "-u", "User:carol")
    assert (rule["principal"], rule["operation"].lower()) == ("User:carol", "read")
    (clock,) = [row for row in await program("doctor", "--watch", "0s") if "clock:" in json.dumps(row)]
    assert "ok" in clock.values()

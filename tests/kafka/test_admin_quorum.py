"""A controller that starts and stops voting on real Kafka (KIP-853), beside Java's tool."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from aiokafka_lead import AdminClient
from aiokafka_lead.admin import QuorumReplica, RaftVoterEndpoint
from aiokafka_lead.errors import DuplicateVoterError, InvalidRequestError, RequestTimedOutError, VoterNotFoundError

from .harness import KafkaCluster
from .support import in_thread, on_asyncio
from .test_admin import eventually

pytestmark = [pytest.mark.anyio, on_asyncio]

_TOOL = "org.apache.kafka.tools.MetadataQuorumCommand"


@pytest.fixture
async def admin(kafka_alone: KafkaCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(kafka_alone.bootstrap()) as admin:
        yield admin


async def replicas(admin: AdminClient, node_id: int) -> tuple[list[QuorumReplica], list[QuorumReplica]]:
    """Return a node as voter, and as observer."""
    found = await admin.describe_metadata_quorum()
    voters, observers = (
        [each for each in all_ if each.replica_id == node_id] for all_ in (found.voters, found.observers)
    )
    return voters, observers


async def in_java(kafka: KafkaCluster) -> list[dict[str, Any]]:
    """Return the voters, as Java's tool prints them."""
    printed = await in_thread(kafka.tools.run, _TOOL, "--bootstrap-server", kafka.bootstrap(), "describe", "--status")
    (line,) = [line for line in printed.splitlines() if line.startswith("CurrentVoters:")]
    voters: list[dict[str, Any]] = json.loads(line.partition(":")[2])
    return voters


def as_java(directory: UUID) -> str:
    return base64.urlsafe_b64encode(directory.bytes).decode().rstrip("=")


async def test_a_controller_begins_and_ends_to_vote(
    kafka_alone: KafkaCluster, admin: AdminClient, tmp_path: Path
) -> None:
    kafka = kafka_alone
    spare, port = kafka.spare
    where = [RaftVoterEndpoint("CONTROLLER", "127.0.0.1", port)]

    async def is_following() -> bool:
        return (await replicas(admin, spare))[1] != []

    await eventually(is_following)
    _, (follower,) = await replicas(admin, spare)
    directory = follower.directory_id
    assert directory is not None
    with pytest.raises(VoterNotFoundError):
        await admin.remove_raft_voter(spare, directory)

    await admin.add_raft_voter(spare, directory, where)
    (voter,), observers = await replicas(admin, spare)
    assert (voter.directory_id, observers) == (directory, [])
    assert (await admin.describe_metadata_quorum()).nodes[spare] == tuple(where)
    theirs = {each["id"]: each for each in await in_java(kafka)}
    assert theirs.keys() == {1, spare}
    assert theirs[spare]["directoryId"] == as_java(directory)
    assert theirs[spare]["endpoints"] == [f"CONTROLLER://127.0.0.1:{port}"]

    with pytest.raises(DuplicateVoterError):
        await admin.add_raft_voter(spare, directory, where)
    with pytest.raises(VoterNotFoundError):
        await admin.remove_raft_voter(spare, uuid4())
    await admin.remove_raft_voter(spare, directory)
    assert [each["id"] for each in await in_java(kafka)] == [1]

    # Additions by Java's tool are removed as well.
    settings = kafka.properties_path(spare).read_text().splitlines(keepends=True)
    own = tmp_path / "spare.properties"
    own.write_text("".join(line for line in settings if not line.startswith("metric.reporters")))  # unknown to the tool
    given = ("--bootstrap-server", kafka.bootstrap(), "--command-config", str(own))
    await in_thread(kafka.tools.run, _TOOL, *given, "add-controller")
    assert len((await replicas(admin, spare))[0]) == 1
    await admin.remove_raft_voter(spare, directory)
    await eventually(is_following)


async def test_a_controller_that_cannot_vote_is_refused(kafka_alone: KafkaCluster, admin: AdminClient) -> None:
    spare, port = kafka_alone.spare
    with pytest.raises(InvalidRequestError):
        await admin.add_raft_voter(spare, uuid4(), [RaftVoterEndpoint("ELSEWHERE", "127.0.0.1", port)])
    with pytest.raises(RequestTimedOutError):
        await admin.add_raft_voter(7, uuid4(), [RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1)], timeout_ms=3000)
    assert [each.replica_id for each in (await admin.describe_metadata_quorum()).voters] == [1]

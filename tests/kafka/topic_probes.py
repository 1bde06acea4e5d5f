"""A cluster's answers to requests about topics, as in `probes`: codes, and the kind of message."""

from __future__ import annotations

from aiokafka_lead._wire.messages import alter_partition_reassignments as reassign
from aiokafka_lead._wire.messages import create_partitions as cp
from aiokafka_lead._wire.messages import create_topics as ct
from aiokafka_lead._wire.messages import delete_topics as dt
from aiokafka_lead._wire.messages import elect_leaders as elect
from aiokafka_lead._wire.messages import incremental_alter_configs as alter

from .probes import Answers, World

TOPIC_RESOURCE = 2


def kind_of(message: str | None) -> str | None:
    """Return None and "" unchanged; any other text as "text", since its words may change."""
    return "text" if message else message


def creatable(name: str, partitions: int = 1, factor: int = 1, **configs: str) -> ct.CreatableTopic:
    given = [ct.CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=given)


async def topics(world: World) -> Answers:
    name = world.name("-made")
    await world.topic(name)
    assigned = ct.CreatableTopic(name=world.name("-gap"), num_partitions=-1, replication_factor=-1)
    assigned.assignments = [ct.CreatableReplicaAssignment(partition_index=1, broker_ids=[1])]
    both = creatable(world.name("-both"))
    both.assignments = [ct.CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
    twice = world.name("-twice")
    wanted = {
        "new": [creatable(world.name("-new"), 2, 1, retention_ms="1000")],
        "exists": [creatable(name)],
        "no partitions": [creatable(world.name("-none"), 0)],
        "factor": [creatable(world.name("-factor"), 1, 9)],
        "illegal": [creatable("a b")],
        "twice": [creatable(twice), creatable(twice)],
        "unknown config": [creatable(world.name("-config"), no_such_option="1")],
        "gap": [assigned],
        "both": [both],
    }
    answers: Answers = {}
    for what, asked in wanted.items():
        for version in (4, 7):
            if what == "new":
                asked[0].name = world.name(f"-new{version}")
            response = await world.ask(ct.CreateTopicsRequest(topics=asked, timeout_ms=20_000), version)
            answers[f"create {what}, version {version}"] = [
                (
                    topic.error_code,
                    kind_of(topic.error_message),
                    topic.num_partitions,
                    topic.replication_factor,
                    topic.topic_config_error_code,
                    topic.configs is None,
                )
                for topic in response.topics
            ]
    only = ct.CreateTopicsRequest(topics=[creatable(world.name("-only"))], validate_only=True, timeout_ms=20_000)
    result = (await world.ask(only)).topics[0]
    answers["create, only validated"] = result.error_code, kind_of(result.error_message)

    for what, topic, count in (("more", name, 2), ("fewer", name, 1), ("nowhere", world.name("-nowhere"), 3)):
        grown = cp.CreatePartitionsTopic(name=topic, count=count, assignments=None)
        more = (await world.ask(cp.CreatePartitionsRequest(topics=[grown], timeout_ms=20_000))).results[0]
        answers[f"partitions, {what}"] = more.error_code, kind_of(more.error_message)

    for what, topic, option in (
        ("right", name, "retention.ms"),
        ("unknown option", name, "no.such.option"),
        ("nowhere", world.name("-nowhere"), "retention.ms"),
    ):
        change = alter.AlterableConfig(name=option, config_operation=0, value="5000")
        resource = alter.AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[change])
        altered = (await world.ask(alter.IncrementalAlterConfigsRequest(resources=[resource]))).responses[0]
        answers[f"configs, {what}"] = altered.error_code, kind_of(altered.error_message)

    election = elect.ElectLeadersRequest(
        election_type=0, topic_partitions=[elect.TopicPartitions(topic=name, partitions=[0, 99])], timeout_ms=20_000
    )
    for elected in (await world.ask(election)).replica_election_results[0].partition_result:
        answers[f"election, {elected.partition_id}"] = elected.error_code, kind_of(elected.error_message)

    cancel = reassign.ReassignableTopic(
        name=name, partitions=[reassign.ReassignablePartition(partition_index=0, replicas=None)]
    )
    moved = await world.ask(reassign.AlterPartitionReassignmentsRequest(topics=[cancel], timeout_ms=20_000))
    refused = moved.responses[0].partitions[0]
    answers["reassignment, nothing to cancel"] = (
        moved.error_code,
        kind_of(moved.error_message),
        refused.error_code,
        kind_of(refused.error_message),
    )

    for what, topic in (("there", name), ("nowhere", world.name("-nowhere"))):
        gone = dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name=topic)], timeout_ms=20_000)
        deleted = (await world.ask(gone)).responses[0]
        answers[f"delete, {what}"] = deleted.error_code, kind_of(deleted.error_message)
    return answers

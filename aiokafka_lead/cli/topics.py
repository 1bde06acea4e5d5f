"""``aiokafka-lead topics``: lists, describes, creates and deletes topics, and adds partitions."""

from __future__ import annotations

from typing import Annotated

import typer

from ..admin import NewTopic, OffsetSpec
from ..errors import ConfigError
from ..types import TopicPartition
from .names import described_topics, done_of, succeeded
from .registering import add
from .session import Session
from .stdin import confirm

Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="The names of the topics.")]
Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.")]


def register(app: typer.Typer) -> None:
    """Add the subcommands of ``topics`` to ``app``."""
    topics = typer.Typer(no_args_is_help=True, help="List, describe, create and delete topics, and add partitions.")
    add(topics, "list", list_topics)
    add(topics, "describe", describe_topics)
    add(topics, "create", create_topic)
    add(topics, "delete", delete_topics)
    add(topics, "add-partitions", add_partitions)
    app.add_typer(topics, name="topics")


async def list_topics(
    session: Session,
    internal: Annotated[bool, typer.Option("--internal", help="Include Kafka's internal topics.")] = False,
) -> None:
    """List all topics, with their numbers of partitions and replicas."""
    async with session.admin() as admin:
        described = await admin.describe_topics()
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": max((len(partition.replicas) for partition in topic.partitions), default=0),
            "under_replicated": sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
            "without_leader": sum(each.leader_id < 0 for each in topic.partitions),
        }
        for topic in sorted(described.values(), key=lambda topic: topic.name)
        if internal or not topic.is_internal
    ]
    columns = ["topic", "partitions", "replicas", "under_replicated", "without_leader"]
    session.out.rows(rows, columns, "there are no topics")


async def describe_topics(session: Session, names: Names) -> None:
    """Show the partitions of topics: leader, replicas, and start and end offsets."""
    async with session.admin() as admin:
        described = await described_topics(session, admin, names)
        everything = {
            TopicPartition(topic.name, partition.partition): partition
            for topic in described.values()
            for partition in topic.partitions
        }
        led = [where for where, partition in everything.items() if partition.leader_id >= 0]
        timeout_ms = session.options["request_timeout_ms"]
        first, last = [
            await succeeded(session, admin, admin.list_offsets(dict.fromkeys(led, spec), timeout_ms=timeout_ms))
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        ]
    rows = []
    for where, partition in everything.items():
        start, end = first.get(where), last.get(where)
        rows.append(
            {
                "topic": where.topic,
                "partition": where.partition,
                "leader": partition.leader_id if partition.leader_id >= 0 else None,
                "epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
                "start": None if start is None else start.offset,
                "end": None if end is None else end.offset,
            }
        )
    session.out.rows(
        rows, ["topic", "partition", "leader", "epoch", "replicas", "isr", "start", "end"], "no partitions"
    )


async def create_topic(
    session: Session,
    name: Name,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="Number of partitions; -1 is the cluster's default.")
    ] = -1,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", help="Replicas per partition; -1 is the cluster's default.")
    ] = -1,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            "-c",
            metavar="NAME=VALUE",
            help="A configuration, such as retention.ms=86400000; may be repeated.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the cluster check the request without creating the topic.")
    ] = False,
) -> None:
    """Create a topic."""
    configs: dict[str, str | None] = dict(map(_pair, config or ()))
    async with session.admin() as admin:
        topic = NewTopic(name, partitions, replication_factor, topic_configs=configs)
        created = (await admin.create_topics([topic], validate_only=dry_run))[name]
    done = "could be created" if dry_run else "created"
    text = f"{name}: {done}, {created.num_partitions} partitions, {created.replication_factor} replicas"
    session.out.done(
        text,
        topic=name,
        partitions=created.num_partitions,
        replication_factor=created.replication_factor,
        created=not dry_run,
    )


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise ConfigError(f"--config takes NAME=VALUE, not {text!r}")
    return name, value


async def delete_topics(
    session: Session,
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete topics with all their records."""
    if not yes:
        await confirm(session.out, f"Delete {', '.join(names)} with all records?")
    async with session.admin() as admin:
        deleted = await done_of(session, admin, admin.delete_topics(names), names)
    if deleted:
        session.out.done(f"deleted: {', '.join(deleted)}", deleted=deleted)


async def add_partitions(
    session: Session,
    name: Name,
    total: Annotated[int, typer.Argument(metavar="TOTAL", help="The new number of partitions.")],
) -> None:
    """Increase the number of partitions of a topic.

    Afterwards, records of a key may go to another partition than before.
    """
    async with session.admin() as admin:
        if not await done_of(session, admin, admin.create_partitions({name: total}), [name]):
            return
    session.out.done(f"{name}: {total} partitions", topic=name, partitions=total)

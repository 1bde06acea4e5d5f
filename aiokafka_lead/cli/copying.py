"""``aiokafka-lead copy``: copies records of a topic to another topic, in this cluster or another."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from .._records.record import ConsumerRecord
from ..errors import ConfigError
from ..types import TopicPartition
from .matching import HeaderMatch, KeyMatch, MatchBytes, ValueMatch, Where, matching
from .places import isolation, part_of
from .profiles import ENVIRONMENT_PREFIX, options_of
from .registering import Compression, add
from .session import Session
from .writing import Place, at_offset, topic_to_write, writing


def register(app: typer.Typer) -> None:
    """Add the command ``copy`` to ``app``."""
    add(app, "copy", copy)


async def copy(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The topic to read.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The topic to write to.")],
    offset: Annotated[
        str,
        typer.Option(
            "--offset",
            "-o",
            help="Start at: beginning, an offset, -N (N offsets before the end), @2h (2 hours ago), @2026-11-23T10:00.",
        ),
    ] = "beginning",
    until: Annotated[str, typer.Option("--until", help="Stop at: end (the current end), an offset, @TIME.")] = "end",
    partition: Annotated[
        list[int] | None, typer.Option("--partition", help="Copy only this partition; may be repeated.")
    ] = None,
    to_servers: Annotated[
        str | None,
        typer.Option(
            "--to-bootstrap-servers", metavar="HOST:PORT,...", help="Bootstrap servers of another cluster with TARGET."
        ),
    ] = None,
    to_profile: Annotated[
        str | None, typer.Option("--to-profile", help="Profile of another cluster with TARGET.")
    ] = None,
    key_match: KeyMatch = None,
    value_match: ValueMatch = None,
    header_match: HeaderMatch = None,
    match_bytes: MatchBytes = False,
    where: Where = None,
    keep_partition: Annotated[
        bool,
        typer.Option(
            "--keep-partition",
            help="Write to the partition with the same number. Default: the key determines the partition.",
        ),
    ] = False,
    uncommitted: Annotated[
        bool,
        typer.Option(
            "--uncommitted", help="Include records of open and aborted transactions. Default: read_committed."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the records without copying them.")] = False,
    compression: Compression = "none",
) -> None:
    """Copy records of a topic, with their keys, headers and timestamps, to another topic.

    Shows for each partition the number of records, and the offset at which the next run can continue.
    """
    other = session if to_servers is None and to_profile is None else _other(session, to_servers, to_profile)
    if source == target and (other is session or await _cluster_id(other) == await _cluster_id(session)):
        raise ConfigError(f"cannot copy topic {source} into itself; name another topic or another cluster")
    wanted = matching(key_match, value_match, header_match or (), where or (), in_bytes=match_bytes)
    part = await part_of(session, [source], partition, offset, until, committed=not uncommitted)
    rows: dict[TopicPartition, dict[str, Any]] = {
        each: {"topic": source, "partition": each.partition, "next": part.first[each], "records": 0}
        for each in sorted(part.first)
    }

    def copied(place: Place) -> None:
        where, offset = place
        rows[where]["records"] += 1
        rows[where]["next"] = offset + 1

    try:
        async with (
            session.consumer(**isolation(committed=not uncommitted)) as consumer,
            other.producer(compression, copies=True) as producer,
        ):
            if not dry_run:
                await topic_to_write(other, producer, target)
            part.begin(consumer)
            with session.out.progress(wanted=True) as progress:
                task = None if progress is None else progress.add_task(source, total=part.total)
                async with writing(session, producer, at_offset, acknowledged=copied) as here:
                    while part.open:
                        records = await part.batch(consumer)
                        for record in records:
                            place = TopicPartition(source, record.partition), record.offset
                            if not wanted(record):
                                continue
                            if dry_run:
                                copied(place)
                            else:
                                await here.send(target, _arguments(record, keep_partition), place)
                        await here.keep_up()
                        if progress is not None and task is not None:
                            progress.advance(task, len(records))
        for each, end in (part.last or {}).items():
            rows[each]["next"] = max(end, rows[each]["next"])
    finally:
        session.out.rows(rows.values(), ["topic", "partition", "records", "next"], "nothing to copy")


def _other(session: Session, servers: str | None, profile: str | None) -> Session:
    """Return a session for the other cluster, which receives the records.

    With a profile, the session has only the profile's options, because options in the environment and on the command
    line are meant for this cluster. Without a profile, it has this session's options, with ``servers`` as the bootstrap
    servers.
    """
    if profile is None:
        return session.beside({**session.options, "bootstrap_servers": servers})
    environment = {name: text for name, text in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    variable = f"{ENVIRONMENT_PREFIX}CONFIG"
    if variable in os.environ:
        environment[variable] = os.environ[variable]
    return session.beside(
        options_of(
            servers=servers, profile=profile, settings=(), environment=environment, ask=None, note=session.out.note
        )
    )


async def _cluster_id(session: Session) -> str | None:
    async with session.admin() as admin:
        return (await admin.describe_cluster()).cluster_id


def _arguments(record: ConsumerRecord[Any, Any], keep_partition: bool) -> dict[str, Any]:
    return {
        "value": record.value,
        "key": record.key,
        "headers": record.headers,
        "partition": record.partition if keep_partition else None,
        "timestamp_ms": record.timestamp_ms if record.timestamp_ms >= 0 else None,
    }

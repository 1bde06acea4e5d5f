"""``aiokafka-lead replay``: writes dead letters and records of retry topics back to their original topics.

`Consumer.run` stores the origin of each record in headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from .._core.run.failures import DEAD_LETTER_HEADERS
from .._core.run.later import RETRY_HEADERS
from .._options.arguments import topic_name
from .._records.record import ConsumerRecord
from ..errors import ConfigError
from ..types import TopicPartition
from .failures import Failed
from .places import isolation, part_of
from .registering import Compression, add
from .session import Session
from .writing import at_offset, topic_to_write, writing

_TOPIC, _PARTITION = DEAD_LETTER_HEADERS[:2]
_GROUP = DEAD_LETTER_HEADERS[4]
_NAMES = {**{name: name for name in DEAD_LETTER_HEADERS}, RETRY_HEADERS[0]: _TOPIC, RETRY_HEADERS[1]: _PARTITION}
"""Maps the headers with a record's origin, in dead letters and retry topics, to their names in dead letters."""

_ADDED = frozenset((*DEAD_LETTER_HEADERS, *RETRY_HEADERS))


def register(app: typer.Typer) -> None:
    """Add the command ``replay`` to ``app``."""
    add(app, "replay", replay)


async def replay(
    session: Session,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic of dead letters, or a retry topic.")],
    offset: Annotated[
        str,
        typer.Option(
            "--offset", "-o", help="Start at: beginning, an offset, -N (N offsets before the end), @2h (2 hours ago)."
        ),
    ] = "beginning",
    until: Annotated[str, typer.Option("--until", help="Stop at: end (the current end), an offset, @TIME.")] = "end",
    origin: Annotated[str | None, typer.Option("--origin", help="Only dead letters from this topic.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Only dead letters of this consumer group.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="Write to this topic instead of the original topics.")] = None,
    keep_partition: Annotated[
        bool,
        typer.Option(
            "--keep-partition", help="Write to the original partition. Default: the key determines the partition."
        ),
    ] = False,
    uncommitted: Annotated[
        bool,
        typer.Option(
            "--uncommitted", help="Include records of open and aborted transactions. Default: read_committed."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the records without writing them.")] = False,
    compression: Compression = "none",
) -> None:
    """Write dead letters to their original topics again.

    The records are written without the headers that Consumer.run added. A record that became a dead letter several
    times is written to the topic that it came from last. Dead letters are not deleted. Unless the next run starts at
    the end of this run (--offset), it writes the same records again.
    """
    if to is not None:
        topic_name("--to", to)
    counts: dict[str, int] = {}
    absent: set[str] = set()
    skipped = 0
    part = await part_of(session, [topic], None, offset, until, committed=not uncommitted)
    async with (
        session.consumer(**isolation(committed=not uncommitted)) as consumer,
        session.producer(compression, copies=True) as producer,
    ):
        part.begin(consumer)
        with session.out.progress(wanted=True) as progress:
            task = None if progress is None else progress.add_task(topic, total=part.total)
            async with writing(session, producer, at_offset) as here:
                while part.open:
                    records = await part.batch(consumer)
                    for record in records:
                        death = _death(record)
                        if not _is_wanted(death, origin, group):
                            skipped += 1
                            continue
                        target = death[_TOPIC] if to is None else to
                        if target == topic:
                            raise Failed(f"the origin of a dead letter is {topic} itself; name another topic with --to")
                        if target not in counts:
                            counts[target] = 0
                            if not dry_run:
                                try:
                                    await topic_to_write(session, producer, target)
                                except Failed as error:
                                    absent.add(target)
                                    session.fail(f"{error}: its dead letters were not written", error.code)
                        counts[target] += 1
                        if not dry_run and target not in absent:
                            place = TopicPartition(topic, record.partition), record.offset
                            await here.send(target, _life(record, death, keep_partition), place)
                    await here.settle()
                    if progress is not None and task is not None:
                        progress.advance(task, len(records))
    rows = [
        {"topic": name, "records": count, "written": not dry_run and name not in absent}
        for name, count in sorted(counts.items())
    ]
    session.out.rows(rows, ["topic", "records", "written"], f"{topic}: no matching dead letters")
    if skipped:
        session.out.note(f"{skipped} records were skipped")


def _death(record: ConsumerRecord[Any, Any]) -> dict[str, str]:
    """Return the headers that describe a dead letter's origin.

    If the record was dead-lettered several times, the last headers count.
    """
    return {
        _NAMES[name]: content.decode(errors="replace")
        for name, content in record.headers
        if name in _NAMES and content is not None
    }


def _is_wanted(death: Mapping[str, str], origin: str | None, group: str | None) -> bool:
    return _TOPIC in death and origin in (None, death[_TOPIC]) and group in (None, death.get(_GROUP))


def _life(record: ConsumerRecord[Any, Any], death: Mapping[str, str], keep_partition: bool) -> dict[str, Any]:
    """Return the arguments of `Producer.send` for the original record."""
    partition = None
    if keep_partition:
        try:
            partition = int(death[_PARTITION])
        except (KeyError, ValueError):
            raise ConfigError(
                f"--keep-partition: the record at offset {record.offset} has no valid header {_PARTITION}"
            ) from None
    return {
        "value": record.value,
        "key": record.key,
        "headers": [(name, content) for name, content in record.headers if name not in _ADDED],
        "partition": partition,
        "timestamp_ms": record.timestamp_ms if record.timestamp_ms >= 0 else None,
    }

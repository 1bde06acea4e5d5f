"""``aiokafka-lead consume``: records to standard output or a file."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from stat import S_ISREG
from typing import Annotated, Any, Protocol

import typer

from .._records.record import ConsumerRecord
from ..consumer import Consumer
from ..errors import ConfigError
from ..types import TopicPartition
from .arrow_files import ArrowFile
from .places import beginnings, endings
from .record_text import DECODERS, Decoder, as_json, template
from .registering import add
from .schemas import BY_SCHEMA, AsJson, registry_of
from .session import Session

__all__ = ["register"]

Record = ConsumerRecord[Any, Any]
_AS_TEXT = "%v\\n"


class Sink(Protocol):
    """Where records go."""

    def write(self, record: Record) -> None:
        """Take one record."""

    def flush(self) -> None:
        """Nothing more comes at once."""

    def close(self) -> None:
        """Nothing more comes at all."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "consume", consume)


async def consume(
    session: Session,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics to read.")],
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset",
            "-o",
            help="Where to begin: beginning (default with --until), end (default without), an offset, -N (the last N), "
            "@2h (ago), @2026-11-23T10:00.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Where to end: end (as it is now), an offset, @TIME. Default: never.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many records.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", help="Read these partitions only; may be repeated.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Read as a member of this group, and commit what was printed.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", "-f", help="A template: %t %p %o %k %v %h %T %D, \\n, \\t.")
    ] = _AS_TEXT,
    key_as: Annotated[str, typer.Option("--key-as", help="text, json, hex, base64 or schema.")] = "text",
    value_as: Annotated[
        str, typer.Option("--value-as", help="text, json, hex, base64, or schema: JSON, by the registry.")
    ] = "text",
    key_match: Annotated[str | None, typer.Option("--key", help="Only keys in which this expression occurs.")] = None,
    value_match: Annotated[str | None, typer.Option("--value", help="Only values in which it occurs.")] = None,
    header_match: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME[=REGEX]", help="Only records with such a header; may be repeated."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-O", metavar="FILE", help="Write to FILE.parquet or FILE.arrow instead."),
    ] = None,
    committed: Annotated[bool, typer.Option("--committed", help="Of transactions, only committed ones.")] = False,
) -> None:
    """Read records."""
    if group is not None and (offset is not None or until is not None or partition is not None):
        raise ConfigError("--group excludes --offset, --until and --partition: the group says where it reads")
    wanted = _filter(key_match, value_match, header_match or ())
    sink = _sink(session, form, _decoder("--key-as", key_as), _decoder("--value-as", value_as), output)
    isolation = {"isolation_level": "read_committed"} if committed else {}
    by_schema = (key_as == BY_SCHEMA, value_as == BY_SCHEMA)
    read_by = AsJson(registry_of(session.options), keys=by_schema[0], values=by_schema[1]) if any(by_schema) else None
    try:
        if group is not None:
            names = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
            async with session.consumer(*topics, **names, **isolation) as consumer:
                await _read_as_member(consumer, sink, wanted, read_by, count)
        else:
            to_file = output is not None or S_ISREG(os.fstat(1).st_mode)
            place = offset or ("end" if until is None else "beginning")
            await _read(session, topics, partition, place, until, isolation, sink, wanted, read_by, count, to_file)
    finally:
        sink.close()


async def _read_as_member(
    consumer: Consumer[Any, Any],
    sink: Sink,
    wanted: Callable[[Record], bool],
    read_by: AsJson | None,
    count: int | None,
) -> None:
    left = count
    while left is None or left > 0:
        found = await consumer.getmany(timeout_ms=1000, max_records=left)
        for records in found.values():
            for record in filter(wanted, records if read_by is None else await read_by.records(records)):
                sink.write(record)
                if left is not None:
                    left -= 1
        sink.flush()
        if found:
            await consumer.commit()


async def _read(
    session: Session,
    topics: list[str],
    numbers: list[int] | None,
    offset: str,
    until: str | None,
    isolation: Mapping[str, Any],
    sink: Sink,
    wanted: Callable[[Record], bool],
    read_by: AsJson | None,
    count: int | None,
    writes_to_file: bool,
) -> None:
    async with session.admin() as admin:
        described = await admin.describe_topics(topics)
        partitions = [
            TopicPartition(topic.name, each.partition)
            for topic in described.values()
            for each in topic.partitions
            if numbers is None or each.partition in numbers
        ]
        there = {where.partition for where in partitions}
        missing = [number for number in numbers or () if number not in there]
        if missing:
            raise ConfigError(f"--partition: {', '.join(topics)} has no partition {missing[0]}")
        first = await beginnings(admin, partitions, offset)
        last = await endings(admin, partitions, until)
    open_ones = {where for where in partitions if last is None or first[where] < last[where]}
    total = None if last is None else sum(last[where] - first[where] for where in open_ones)
    if not open_ones:
        return
    if offset == "end" and last is None:
        session.out.hint("waiting for new records (Ctrl-C ends; -o beginning reads those that are there)")
    async with session.consumer(**isolation) as consumer:
        consumer.assign(open_ones)
        for where in open_ones:
            consumer.seek(where, first[where])
        with session.out.progress(wanted=total is not None and writes_to_file) as progress:
            task = None if progress is None else progress.add_task(", ".join(topics), total=total)
            left = count
            while open_ones and (left is None or left > 0):
                found = await consumer.getmany(timeout_ms=500)
                for where, records in found.items():
                    before_end = [each for each in records if last is None or each.offset < last[where]]
                    for record in before_end if read_by is None else await read_by.records(before_end):
                        if left != 0 and wanted(record):
                            sink.write(record)
                            left = None if left is None else left - 1
                sink.flush()
                if last is not None:
                    # The last records before the end may be markers of transactions, which nobody is given.
                    for where in list(open_ones):
                        if await consumer.position(where) >= last[where]:
                            open_ones.discard(where)
                            consumer.pause(where)
                if progress is not None and task is not None:
                    progress.advance(task, sum(map(len, found.values())))


def _decoder(option: str, name: str) -> Decoder:
    if name == BY_SCHEMA:
        return DECODERS["json"]
    if name not in DECODERS:
        raise ConfigError(f"{option} takes {', '.join(DECODERS)} or {BY_SCHEMA}, not {name!r}")
    return DECODERS[name]


def _filter(key: str | None, value: str | None, headers: list[str] | tuple[str, ...]) -> Callable[[Record], bool]:
    of_key, of_value = _expression("--key", key), _expression("--value", value)
    of_headers = []
    for text in headers:
        name, separator, expression = text.partition("=")
        of_headers.append((name, _expression("--header", expression if separator else "")))

    def wanted(record: Record) -> bool:
        if of_key is not None and (record.key is None or of_key.search(record.key) is None):
            return False
        if of_value is not None and (record.value is None or of_value.search(record.value) is None):
            return False
        return all(
            any(found == name and (each is None or each.search(content or b"")) for found, content in record.headers)
            for name, each in of_headers
        )

    return wanted


def _expression(option: str, text: str | None) -> re.Pattern[bytes] | None:
    try:
        return None if text is None else re.compile(text.encode())
    except re.error as error:
        raise ConfigError(f"{option}: {text!r} is no regular expression: {error}") from None


def _sink(session: Session, form: str, key: Decoder, value: Decoder, output: str | None) -> Sink:
    if output is not None:
        return ArrowFile(output, lambda text: session.out.note(text))
    if session.out.as_json:
        return _Lines(lambda record: session.out.json_line(as_json(record, key, value)))
    write = template(form, key, value)
    return _Lines(lambda record: sys.stdout.write(write(record)))


class _Lines:
    """Records on standard output."""

    def __init__(self, write: Callable[[Record], object]) -> None:
        self._write = write

    def write(self, record: Record) -> None:
        self._write(record)

    def flush(self) -> None:
        sys.stdout.flush()

    def close(self) -> None:
        sys.stdout.flush()

"""``aiokafka-lead consume``: prints records, or writes them to a Parquet or Arrow file."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated, Any

import anyio.to_thread
import typer

from .._options.checks import INT32_MAX
from ..consumer import Consumer
from ..errors import CommitFailedError, ConfigError, KafkaError
from ..errors.shown import some_of
from ..types import TopicPartition
from .failures import ExitCode, Failed, exit_code
from .matching import HeaderMatch, KeyMatch, MatchBytes, ValueMatch, Wanted, Where, matching
from .names import described_topics
from .places import isolation, part_of
from .record_text import FORMS, SCHEMA_FORM
from .registering import add
from .schemas import AsJson, BadRecord, registry_of
from .session import Session
from .sinks import Record, Sink, sink_for

_AS_TEXT = "%v\\n"
_ON_ERROR = ("stop", "skip", "raw")
_SLOW_READER_S = 1.0
_LAST_COMMIT_S = 5.0


def register(app: typer.Typer) -> None:
    """Add the command ``consume`` to ``app``."""
    add(app, "consume", consume)


async def consume(
    session: Session,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics to read.")],
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset",
            "-o",
            help="Start at: beginning (default with --until), end (default without --until), an offset, -N "
            "(N offsets before the end), @2h (2 hours ago), @2026-11-23T10:00.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", help="Stop at: end (the current end), an offset, @TIME. Default: read until Ctrl-C."),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Stop after this many records.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", help="Read only this partition; may be repeated.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", "-g", help="Read as a member of this group, and commit the offsets of printed records."
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format", "-f", help=r"Template for each record: %t %p %o %k %v %h %T %D, \n, \t, \x1f, \u00e9."
        ),
    ] = _AS_TEXT,
    key_as: Annotated[
        str, typer.Option("--key-as", help="Show keys as text, json, hex, base64 or schema (see --value-as).")
    ] = "text",
    value_as: Annotated[
        str,
        typer.Option(
            "--value-as",
            help="Show values as text, json, hex, base64, or schema (decoded with the schema registry, shown as JSON).",
        ),
    ] = "text",
    on_error: Annotated[
        str,
        typer.Option(
            "--on-error",
            help="If a record does not match its schema: stop, skip the record, or show it raw. Needs --value-as "
            "schema or --key-as schema.",
        ),
    ] = "stop",
    key_match: KeyMatch = None,
    value_match: ValueMatch = None,
    header_match: HeaderMatch = None,
    match_bytes: MatchBytes = False,
    where: Where = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-O", metavar="FILE", help="Write a .parquet or .arrow file instead of printing records."
        ),
    ] = None,
    committed: Annotated[
        bool,
        typer.Option(
            "--committed",
            help="Read only committed records (read_committed). Default: also records of open and aborted "
            "transactions.",
        ),
    ] = False,
) -> None:
    """Print the records of topics, or write them to a file."""
    if group is not None and (offset is not None or until is not None or partition is not None):
        raise ConfigError("--group determines the offsets; it cannot be combined with --offset, --until or --partition")
    for option, name in (("--key-as", key_as), ("--value-as", value_as)):
        if name not in (*FORMS, SCHEMA_FORM):
            raise ConfigError(f"{option} takes {', '.join(FORMS)} or {SCHEMA_FORM}, not {name!r}")
    by_schema = SCHEMA_FORM in (key_as, value_as)
    if on_error != _ON_ERROR[0] and not by_schema:
        raise ConfigError(f"--on-error needs --key-as {SCHEMA_FORM} or --value-as {SCHEMA_FORM}")
    if session.out.as_json and form != _AS_TEXT:
        raise ConfigError("--json cannot be combined with --format, because the JSON form is fixed")
    if output is not None and (session.out.as_json or form != _AS_TEXT):
        raise ConfigError("--output cannot be combined with --json or --format, because the file has fixed columns")
    if output is not None and not {key_as, value_as} <= {"text", SCHEMA_FORM}:
        raise ConfigError(
            f"--output writes bytes unchanged, or JSON with --value-as {SCHEMA_FORM} or --key-as {SCHEMA_FORM}"
        )
    committed = committed or session.options.get("isolation_level") == "read_committed"
    wanted = matching(key_match, value_match, header_match or (), where or (), in_bytes=match_bytes)
    selection = _Selection(session, wanted, on_error, key_as == SCHEMA_FORM, value_as == SCHEMA_FORM)
    sink = sink_for(session.out, form, key_as, value_as, output)
    try:
        async with session.out.read() if sink.is_kept else nullcontext():
            if group is not None:
                await _read_as_member(session, topics, group, sink, selection, count, committed)
            else:
                usual = "end" if until is None else "beginning"
                place = usual if offset is None else offset
                shows = output is not None or session.out.stdout.is_file
                await _read(session, topics, partition, place, until, sink, selection, count, committed, shows)
    finally:
        sink.close()
        selection.close()


async def _read_as_member(
    session: Session,
    topics: list[str],
    group: str,
    sink: Sink,
    selection: _Selection,
    count: int | None,
    committed: bool,
) -> None:
    """Show the records of topics as a member of a group.

    Commits records after they have been printed or, with a file, after the file is complete.
    """
    async with session.admin() as admin:
        there = list(await described_topics(session, admin, topics))
    reset = session.options.get("auto_offset_reset", "earliest")
    names = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": reset}
    async with session.consumer(*there, **names, **isolation(committed=committed)) as consumer:
        done = _Done(session, consumer)
        left = count
        held: list[Record] = []
        try:
            while left is None or left > 0:
                if not held:
                    most = None if left is None else min(left, INT32_MAX)
                    found = await consumer.getmany(timeout_ms=1000, max_records=most)
                    held = [record for records in found.values() for record in records]
                records, held = held[:left], held[left:] if left is not None else []
                if not records:
                    if done.late:
                        await done.commit(positions=True, last=False)
                    continue
                whole = False
                try:
                    await selection.prepare(records)
                    for record in records:
                        if (shown := selection.of(record)) is not None:
                            sink.write(shown)
                            left = None if left is None else left - 1
                        done.add(record)
                    whole = True
                finally:
                    held += await _flushed(consumer, sink)
                    if sink.is_kept:
                        # If every fetched record was printed, commit all positions, even of partitions without records.
                        await done.commit(positions=whole and not held, last=left == 0 or not whole)
                    else:
                        done.forget_lost()
        finally:
            if not sink.is_kept:  # complete the file before committing, even if a signal ends the command
                sink.close()
                with anyio.move_on_after(_LAST_COMMIT_S, shield=True) as scope:
                    await done.commit()
                if scope.cancelled_caught:
                    text = f"the file is complete, but its offsets are not committed: no answer in {_LAST_COMMIT_S:g} s"
                    raise Failed(text, ExitCode.UNREACHABLE)


async def _flushed(consumer: Consumer[Any, Any], sink: Sink) -> list[Record]:
    """Write the output while polling the consumer, so that it stays in its group.

    Otherwise, a slow reader of the output would make the consumer exceed ``max_poll_interval_ms``. Partitions are
    paused during the polls. Returns the records that newly assigned partitions deliver before they are paused.
    """
    held: list[Record] = []

    async def poll() -> None:
        await anyio.sleep(_SLOW_READER_S)
        paused: set[TopicPartition] = set()
        try:
            while True:
                new = consumer.assignment() - paused
                consumer.pause(*new)
                paused |= new
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    held.extend(records)
        finally:
            consumer.resume(*(paused & consumer.assignment()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poll)
        await sink.flush()
        tasks.cancel_scope.cancel()
    return held


class _Done:
    """The offsets after the written records, in the partitions that the member still owns.

    If a partition is taken away, its offset is forgotten and not committed, even if the partition is assigned again. In
    the meantime, another member may have committed a later offset.
    """

    def __init__(self, session: Session, consumer: Consumer[Any, Any]) -> None:
        self._note = session.out.note
        self._consumer = consumer
        self._offsets: dict[TopicPartition, int] = {}
        self._lost: set[TopicPartition] = set()
        self.late = False
        """True if brokers were unreachable at the last commit."""

    def add(self, record: Record) -> None:
        """Note the offset after a record that has been written to the output."""
        self._offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1

    def forget_lost(self) -> bool:
        """Forget partitions that have been taken away. Return True if there are any."""
        lost = self._offsets.keys() - self._consumer.assignment()
        for where in lost:
            del self._offsets[where]
        self._lost |= lost
        return bool(lost)

    async def commit(self, *, positions: bool = False, last: bool = True) -> None:
        """Commit the offsets, or all ``positions`` of the consumer. Report partitions that have been taken away.

        Unless this is the ``last`` commit, an unreachable coordinator is ignored, because the next commit includes
        these offsets.
        """
        self.forget_lost()
        why = ""
        while positions or self._offsets:
            try:
                await self._consumer.commit(None if positions else self._offsets)
            except CommitFailedError as error:
                if not positions and self.forget_lost():
                    continue  # commit the rest
                why = str(error)
            except KafkaError as error:
                if last or exit_code(error) is not ExitCode.UNREACHABLE:
                    raise
                self.late = True
                return
            break
        if self._lost and not positions:
            why = why or f"{some_of(sorted(map(str, self._lost)))} are not assigned to this member any more"
        if why:
            self._note(f"records were printed but not committed, so another member may print them again: {why}")
        self._offsets, self._lost, self.late = {}, set(), False


async def _read(
    session: Session,
    topics: list[str],
    numbers: list[int] | None,
    offset: str,
    until: str | None,
    sink: Sink,
    selection: _Selection,
    count: int | None,
    committed: bool,
    shows_progress: bool,
) -> None:
    """Show the records of a range of offsets, without a group."""
    part = await part_of(session, topics, numbers, offset, until, committed=committed)
    if not part.open:
        return
    if offset == "end" and until is None:
        session.out.hint("waiting for new records (Ctrl-C to stop; -o beginning reads existing records)")
    async with session.consumer(**isolation(committed=committed)) as consumer:
        part.begin(consumer)
        with session.out.progress(wanted=part.total is not None and shows_progress) as progress:
            task = None if progress is None else progress.add_task(", ".join(topics), total=part.total)
            left = count
            while part.open and left != 0:
                if new := part.grow(consumer):
                    session.out.note(f"reading new partitions: {some_of(list(map(str, new)))}")
                records = await part.batch(consumer)
                try:
                    await selection.prepare(records)
                    for record in records:
                        if left != 0 and (shown := selection.of(record)) is not None:
                            sink.write(shown)
                            left = None if left is None else left - 1
                finally:
                    await sink.flush()
                if progress is not None and task is not None:
                    progress.advance(task, len(records))


class _Selection:
    """Decodes records with their schemas, and selects the records to show."""

    def __init__(self, session: Session, wanted: Wanted, on_error: str, keys: bool, values: bool) -> None:
        if on_error not in _ON_ERROR:
            raise ConfigError(f"--on-error takes {', '.join(_ON_ERROR)}, not {on_error!r}")
        self._note = session.out.note
        self._wanted = wanted
        self._on_error = on_error
        self._by_schema = AsJson(registry_of(session.options), keys=keys, values=values) if keys or values else None
        self._bad = 0

    async def prepare(self, records: list[Record]) -> None:
        """Request the schemas that `of` needs for these records."""
        if self._by_schema is not None:
            await self._by_schema.prepare(records)

    def of(self, record: Record) -> Record | None:
        """Return the decoded record, or None if it is not selected. With ``--on-error stop``, raises `BadRecord`."""
        if self._by_schema is not None:
            try:
                record = self._by_schema.record(record)
            except BadRecord as error:
                if self._on_error == "stop":
                    raise
                self._bad += 1
                self._note(f"{'skipped' if self._on_error == 'skip' else 'shown raw'}: {error}")
                if self._on_error == "skip":
                    return None
        return record if self._wanted(record) else None

    def close(self) -> None:
        """Report the number of records that did not match their schemas."""
        if self._bad:
            self._note(f"{self._bad} records did not match their schemas")

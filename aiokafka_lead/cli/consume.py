"""``aiokafka-lead consume``: writes records to standard output or a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Protocol

import anyio
import anyio.to_thread
import typer

from .._options.checks import INT32_MAX
from .._records.record import ConsumerRecord
from ..consumer import Consumer
from ..errors import CommitFailedError, ConfigError, KafkaError
from ..errors.shown import some_of
from ..types import TopicPartition
from .failures import ExitCode, Failed, exit_code
from .matching import HeaderMatch, KeyMatch, MatchBytes, ValueMatch, Wanted, Where, matching
from .names import described_topics
from .output import Output
from .places import isolation, part_of
from .record_text import FORMS, SCHEMA_FORM, as_json, template
from .registering import add
from .schemas import AsJson, BadRecord, registry_of
from .session import Session

_ROWS = 65_536
_BYTES = 64_000_000
"""Maximum size of a row group, which is held in memory."""


class ArrowFile:
    """A file that grows by row groups under a temporary name, until `close` renames it.

    No file remains without a `close`. Columns: topic, partition, offset, timestamp, key, value, headers.
    """

    is_kept = False

    def __init__(self, path: str, note: Callable[[str], None]) -> None:
        """Create the file; raise `ConfigError` if it cannot be written."""
        self._kind = Path(path).suffix
        if self._kind not in (".parquet", ".arrow"):
            raise ConfigError(f"--output takes a file that ends in .parquet or .arrow, not {path!r}")
        if find_spec("pyarrow") is None:
            raise ConfigError("--output needs pyarrow: pip install 'aiokafka-lead[arrow]'")
        self._path = Path(path)
        real = Path(os.path.realpath(path))  # replace the target of a link, and not the link
        self._beside = real.with_name(f".{real.name}.{os.getpid()}.part")
        self._target = real
        self._note = note
        self._records: list[ConsumerRecord[Any, Any]] = []
        self._bytes = 0
        self._written = 0
        self._schema: Any = _schema()
        self._failure: OSError | None = None
        self._closed = False
        try:
            self._writer: Any = self._open()
        except OSError as error:
            self._beside.unlink(missing_ok=True)
            raise ConfigError(f"--output: {error}") from None

    def _open(self) -> Any:
        import pyarrow.ipc
        import pyarrow.parquet

        if self._target.is_dir():
            raise IsADirectoryError(f"{self._path} is a directory")
        if self._kind == ".parquet":
            return pyarrow.parquet.ParquetWriter(str(self._beside), self._schema, compression="zstd")
        return pyarrow.ipc.new_file(str(self._beside), self._schema)

    def write(self, record: ConsumerRecord[Any, Any]) -> None:
        """Add a record to the next row group."""
        self._records.append(record)
        self._bytes += len(record.key or b"") + len(record.value or b"")
        for name, content in record.headers:
            self._bytes += len(name) + len(content or b"")

    async def flush(self) -> None:
        """Write a row group once there are enough records: many small groups would make a large file."""
        if len(self._records) >= _ROWS or self._bytes >= _BYTES:
            await anyio.to_thread.run_sync(self._write_group)

    def close(self) -> None:
        """Write the rest, and move the file into place; raise `Failed` and leave no file if that fails.

        It may be called again.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._records:
                self._write_group()
            if self._failure is None:
                self._writer.close()
                self._beside.replace(self._target)
        except OSError as error:
            self._failure = error
        except Failed:
            pass  # the file is kept
        if self._failure is not None:
            self._beside.unlink(missing_ok=True)
            raise Failed(f"{self._path} cannot be written: {self._failure}")
        self._note(f"{self._path}: {self._written} records")

    def _write_group(self) -> None:
        import pyarrow

        records, self._records = self._records, []
        self._bytes = 0
        columns = {
            "topic": [record.topic for record in records],
            "partition": [record.partition for record in records],
            "offset": [record.offset for record in records],
            "timestamp": [record.timestamp_ms if record.timestamp_ms >= 0 else None for record in records],
            "key": [record.key for record in records],
            "value": [record.value for record in records],
            "headers": [[{"key": name, "value": content} for name, content in record.headers] for record in records],
        }
        try:
            self._writer.write_table(pyarrow.Table.from_pydict(columns, schema=self._schema))
        except OSError as error:
            self._failure = error
            raise Failed(f"{self._path} cannot be written: {error}") from None
        self._written += len(records)


def _schema() -> Any:
    import pyarrow

    header = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    return pyarrow.schema(
        [
            ("topic", pyarrow.string()),
            ("partition", pyarrow.int32()),
            ("offset", pyarrow.int64()),
            ("timestamp", pyarrow.timestamp("ms", tz="UTC")),
            ("key", pyarrow.binary()),
            ("value", pyarrow.binary()),
            ("headers", pyarrow.list_(header)),
        ]
    )


Record = ConsumerRecord[Any, Any]
_AS_TEXT = "%v\\n"
_ON_ERROR = ("stop", "skip", "raw")
_SLOW_READER_S = 1.0
_LAST_COMMIT_S = 5.0


class Sink(Protocol):
    """The destination of records."""

    def write(self, record: Record) -> None:
        """Write a record."""

    is_kept: bool
    """True if flushed records are safe even if `close` is never called."""

    async def flush(self) -> None:
        """Handle a pause in the records."""

    def close(self) -> None:
        """Handle the end of the records. It may be called again."""


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
            help="Where to begin: beginning (default with --until), end (default without), an offset, -N "
            "(N before the end), @2h (ago), @2026-11-23T10:00.",
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
        str, typer.Option("--format", "-f", help=r"A template: %t %p %o %k %v %h %T %D, \n, \t, \x1f, \u00e9.")
    ] = _AS_TEXT,
    key_as: Annotated[str, typer.Option("--key-as", help="text, json, hex, base64 or schema.")] = "text",
    value_as: Annotated[
        str, typer.Option("--value-as", help="text, json, hex, base64, or schema: JSON, by the registry.")
    ] = "text",
    on_error: Annotated[
        str,
        typer.Option(
            "--on-error", help="With a schema, at a record that does not fit it: stop, skip it, or show it raw."
        ),
    ] = "stop",
    key_match: KeyMatch = None,
    value_match: ValueMatch = None,
    header_match: HeaderMatch = None,
    match_bytes: MatchBytes = False,
    where: Where = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-O", metavar="FILE", help="Write to FILE.parquet or FILE.arrow instead."),
    ] = None,
    committed: Annotated[
        bool,
        typer.Option(
            "--committed", help="Of transactions, only committed ones (read_committed). Default: all records."
        ),
    ] = False,
) -> None:
    """Read records."""
    if group is not None and (offset is not None or until is not None or partition is not None):
        raise ConfigError("--group excludes --offset, --until and --partition: the group says where it reads")
    for option, name in (("--key-as", key_as), ("--value-as", value_as)):
        if name not in (*FORMS, SCHEMA_FORM):
            raise ConfigError(f"{option} takes {', '.join(FORMS)} or {SCHEMA_FORM}, not {name!r}")
    by_schema = SCHEMA_FORM in (key_as, value_as)
    if on_error != _ON_ERROR[0] and not by_schema:
        raise ConfigError(f"--on-error needs --key-as {SCHEMA_FORM} or --value-as {SCHEMA_FORM}")
    if session.out.as_json and form != _AS_TEXT:
        raise ConfigError("--json excludes --format")
    if output is not None and (session.out.as_json or form != _AS_TEXT):
        raise ConfigError("--output excludes --json and --format: the columns of a file are fixed")
    if output is not None and not {key_as, value_as} <= {"text", SCHEMA_FORM}:
        raise ConfigError(f"--output writes bytes as they are, or with --value-as {SCHEMA_FORM} as JSON")
    committed = committed or session.options.get("isolation_level") == "read_committed"
    wanted = matching(key_match, value_match, header_match or (), where or (), in_bytes=match_bytes)
    selection = _Selection(session, wanted, on_error, key_as == SCHEMA_FORM, value_as == SCHEMA_FORM)
    sink = _sink(session.out, form, key_as, value_as, output)
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
                        # With no record in hand, positions cover everything, including partitions without records.
                        await done.commit(positions=whole and not held, last=left == 0 or not whole)
                    else:
                        done.forget_lost()
        finally:
            if not sink.is_kept:  # a file, which is complete before anything is committed, also at a signal
                sink.close()
                with anyio.move_on_after(_LAST_COMMIT_S, shield=True) as scope:
                    await done.commit()
                if scope.cancelled_caught:
                    text = f"the file is complete, but its offsets are not committed: no answer in {_LAST_COMMIT_S:g} s"
                    raise Failed(text, ExitCode.UNREACHABLE)


async def _flushed(consumer: Consumer[Any, Any], sink: Sink) -> list[Record]:
    """Wait for a slow reader of the output, and poll to stay in the group.

    A member that does not poll is considered stuck (``max_poll_interval_ms``). Returns records of partitions that were
    assigned in the meantime.
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
    """Offsets after the written records, in the partitions that the member still has.

    After a partition was taken away, its offset must not be committed: another member may be ahead, even if the
    partition comes back.
    """

    def __init__(self, session: Session, consumer: Consumer[Any, Any]) -> None:
        self._note = session.out.note
        self._consumer = consumer
        self._offsets: dict[TopicPartition, int] = {}
        self._lost: set[TopicPartition] = set()
        self.late = False
        """True if brokers were away at the last commit."""

    def add(self, record: Record) -> None:
        """Add a written record."""
        self._offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1

    def forget_lost(self) -> bool:
        """Forget partitions that were taken away; return True if there are any."""
        lost = self._offsets.keys() - self._consumer.assignment()
        for where in lost:
            del self._offsets[where]
        self._lost |= lost
        return bool(lost)

    async def commit(self, *, positions: bool = False, last: bool = True) -> None:
        """Commit the offsets, or all ``positions`` of the consumer. Report partitions that were taken away.

        Unless this is the ``last`` commit, brokers that are away do not matter: the next includes these offsets.
        """
        self.forget_lost()
        why = ""
        while positions or self._offsets:
            try:
                await self._consumer.commit(None if positions else self._offsets)
            except CommitFailedError as error:
                if not positions and self.forget_lost():
                    continue  # commit the others
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
            self._note(f"printed, but not committed, so that another member may have it again: {why}")
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
    part = await part_of(session, topics, numbers, offset, until, committed=committed)
    if not part.open:
        return
    if offset == "end" and until is None:
        session.out.hint("waiting for new records (Ctrl-C ends; -o beginning reads those that are there)")
    async with session.consumer(**isolation(committed=committed)) as consumer:
        part.begin(consumer)
        with session.out.progress(wanted=part.total is not None and shows_progress) as progress:
            task = None if progress is None else progress.add_task(", ".join(topics), total=part.total)
            left = count
            while part.open and left != 0:
                if new := part.grow(consumer):
                    session.out.note(f"new partitions are read as well: {some_of(list(map(str, new)))}")
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
    """Selects the records to show, and converts them."""

    def __init__(self, session: Session, wanted: Wanted, on_error: str, keys: bool, values: bool) -> None:
        if on_error not in _ON_ERROR:
            raise ConfigError(f"--on-error takes {', '.join(_ON_ERROR)}, not {on_error!r}")
        self._note = session.out.note
        self._wanted = wanted
        self._on_error = on_error
        self._by_schema = AsJson(registry_of(session.options), keys=keys, values=values) if keys or values else None
        self._bad = 0

    async def prepare(self, records: list[Record]) -> None:
        """Prepare `of` for these records."""
        if self._by_schema is not None:
            await self._by_schema.prepare(records)

    def of(self, record: Record) -> Record | None:
        """Return the record as shown, or None if it is left out. Raises `BadRecord` if bad records end the reading."""
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
        """Report the number of bad records."""
        if self._bad:
            self._note(f"{self._bad} records did not fit their schemas")


def _sink(out: Output, form: str, key_as: str, value_as: str, output: str | None) -> Sink:
    if output is not None:
        return ArrowFile(output, out.note)
    if out.as_json:
        return _Lines(out, lambda record: out.stdout.write_json(as_json(record, key_as, value_as) + "\n"))
    write = template(form, key_as, value_as, out.stdout)
    return _Lines(out, lambda record: out.stdout.write_bytes(write(record)))


class _Lines:
    """Writes records to standard output."""

    is_kept = True

    def __init__(self, out: Output, write: Any) -> None:
        self.write = write
        self._out = out

    async def flush(self) -> None:
        await self._out.drain()

    def close(self) -> None:
        """Do nothing: `flush` has written everything."""

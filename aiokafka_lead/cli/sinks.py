"""Destinations of the records that the command line reads: standard output, or a Parquet or Arrow file."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import anyio.to_thread

from .._records.record import ConsumerRecord
from ..errors import ConfigError
from .failures import Failed
from .output import Output
from .record_text import as_json, template

Record = ConsumerRecord[Any, Any]

_ROWS = 65_536
_BYTES = 64_000_000
"""Maximum size in bytes of the keys, values and headers in a row group, which is held in memory."""


class Sink(Protocol):
    """Destination of records: standard output or a file."""

    def write(self, record: Record) -> None:
        """Accept a record. It may be buffered until `flush`."""

    is_kept: bool
    """True if flushed records are safe even if `close` is never called."""

    async def flush(self) -> None:
        """Write buffered records. Called after each batch of records."""

    def close(self) -> None:
        """Write everything that is still buffered. Further calls have no effect."""


class ArrowFile:
    """A Parquet or Arrow file. It has a temporary name until `close` has completed it.

    Its columns are topic, partition, offset, timestamp, key, value and headers.
    """

    is_kept = False

    def __init__(self, path: str, note: Callable[[str], None]) -> None:
        """Create the temporary file. Raises `ConfigError` if that fails, or if the name has another suffix."""
        self._kind = Path(path).suffix
        if self._kind not in (".parquet", ".arrow"):
            raise ConfigError(f"--output takes a file name that ends in .parquet or .arrow, not {path!r}")
        if find_spec("pyarrow") is None:
            raise ConfigError("--output needs pyarrow; install with: pip install 'aiokafka-lead[arrow]'")
        self._path = Path(path)
        real = Path(os.path.realpath(path))  # renaming over a symbolic link would replace the link and not its target
        self._beside = real.with_name(f".{real.name}.{os.getpid()}.part")
        self._target = real
        self._note = note
        self._records: list[Record] = []
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

    def write(self, record: Record) -> None:
        """Add a record to the next row group."""
        self._records.append(record)
        self._bytes += len(record.key or b"") + len(record.value or b"")
        for name, content in record.headers:
            self._bytes += len(name) + len(content or b"")

    async def flush(self) -> None:
        """Write a row group if enough records are buffered. Small row groups would make the file larger."""
        if len(self._records) >= _ROWS or self._bytes >= _BYTES:
            await anyio.to_thread.run_sync(self._write_group)

    def close(self) -> None:
        """Write the buffered records and rename the file. Further calls have no effect.

        Raises `Failed` if the file cannot be written. The temporary file is then deleted.
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
            pass  # the same failure is raised below, after the file is deleted
        if self._failure is not None:
            self._beside.unlink(missing_ok=True)
            raise Failed(f"cannot write {self._path}: {self._failure}")
        self._note(f"{self._path}: {self._written} records")

    def _write_group(self) -> None:
        """Write the collected records as one group of rows. Raises `Failed` if the file cannot be written."""
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
            raise Failed(f"cannot write {self._path}: {error}") from None
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


class _Lines:
    """Writes records to standard output, each on its own line or by a template."""

    is_kept = True

    def __init__(self, out: Output, write: Any) -> None:
        self.write = write
        self._out = out

    async def flush(self) -> None:
        await self._out.drain()

    def close(self) -> None:
        """Do nothing: `flush` has written everything."""


def sink_for(out: Output, form: str, key_as: str, value_as: str, output: str | None) -> Sink:
    """Return the file ``output``, or standard output in this form if it is None."""
    if output is not None:
        return ArrowFile(output, out.note)
    if out.as_json:
        return _Lines(out, lambda record: out.stdout.write_json(as_json(record, key_as, value_as) + "\n"))
    write = template(form, key_as, value_as, out.stdout)
    return _Lines(out, lambda record: out.stdout.write_bytes(write(record)))

"""Writes records to an Apache Arrow or Parquet file, which is either complete or absent."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio.to_thread

from .._records.record import ConsumerRecord
from ..errors import ConfigError
from .failures import Failed

__all__ = ["ArrowFile"]

_ROWS = 65_536
_BYTES = 64_000_000
"""Maximum size of a row group, which is held in memory."""


class ArrowFile:
    """A file that grows by row groups under a temporary name, until `close` renames it.

    Nothing remains if that is not reached. Columns: topic, partition, offset, timestamp, key, value, headers.
    """

    is_kept = False

    def __init__(self, path: str, note: Callable[[str], None]) -> None:
        """Begin; raise `ConfigError` if such a file cannot be written."""
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
        """Add one record; it is written together with later ones."""
        self._records.append(record)
        self._bytes += len(record.key or b"") + len(record.value or b"")
        for name, content in record.headers:
            self._bytes += len(name) + len(content or b"")

    async def flush(self) -> None:
        """Write a row group once there are enough records for one: small ones would make a large file."""
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

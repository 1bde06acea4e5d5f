"""Records into a file of Apache Arrow or Parquet, a row group for each so many records."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .._records.record import ConsumerRecord
from ..errors import ConfigError

__all__ = ["ArrowFile"]

_ROWS = 65_536


class ArrowFile:
    """A file that grows by row groups. Columns: topic, partition, offset, timestamp, key, value, headers."""

    def __init__(self, path: str, note: Callable[[str], None]) -> None:
        self._kind = Path(path).suffix
        if self._kind not in (".parquet", ".arrow"):
            raise ConfigError(f"--output takes a file that ends in .parquet or .arrow, not {path!r}")
        if find_spec("pyarrow") is None:
            raise ConfigError("--output needs pyarrow: pip install 'aiokafka-lead[arrow]'")
        self._path = path
        self._note = note
        self._records: list[ConsumerRecord[Any, Any]] = []
        self._written = 0
        self._schema: Any = _schema()
        try:
            self._writer: Any = self._open()
        except OSError as error:
            raise ConfigError(f"--output: {error}") from None

    def _open(self) -> Any:
        import pyarrow.ipc
        import pyarrow.parquet

        if self._kind == ".parquet":
            return pyarrow.parquet.ParquetWriter(self._path, self._schema, compression="zstd")
        return pyarrow.ipc.new_file(self._path, self._schema)

    def write(self, record: ConsumerRecord[Any, Any]) -> None:
        """Take one record; written with those that follow."""
        self._records.append(record)
        if len(self._records) >= _ROWS:
            self._write_group()

    def flush(self) -> None:
        """Nothing: small row groups would make a large file."""

    def close(self) -> None:
        """Write the rest; only then the file can be read."""
        if self._records:
            self._write_group()
        self._writer.close()
        self._note(f"{self._path}: {self._written} records")

    def _write_group(self) -> None:
        import pyarrow

        records, self._records = self._records, []
        columns = {
            "topic": [record.topic for record in records],
            "partition": [record.partition for record in records],
            "offset": [record.offset for record in records],
            "timestamp": [record.timestamp_ms if record.timestamp_ms >= 0 else None for record in records],
            "key": [record.key for record in records],
            "value": [record.value for record in records],
            "headers": [[{"key": name, "value": content} for name, content in record.headers] for record in records],
        }
        self._writer.write_table(pyarrow.Table.from_pydict(columns, schema=self._schema))
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

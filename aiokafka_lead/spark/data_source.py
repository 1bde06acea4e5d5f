"""Data source behind ``format("aiokafka_lead")``, which creates readers and writers.

PySpark creates the data source in several processes and pickles it, so it contains only the options. It imports readers
and writers on demand, because a task that writes does not need the modules for reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import CaseInsensitiveDict, DataSource

from .format import FORMAT

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class KafkaDataSource(DataSource):
    """Source and sink for Kafka topics, in batch and streaming queries, with the options of Spark's Kafka connector."""

    _key_is_hidden: ClassVar[bool] = False
    """True if Spark redacts a private key among the options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns, which are the same as in Spark's connector. Raises ValueError for invalid options.

        Spark calls this in ``load()`` if the user gives no schema.
        """
        from .source.options import check_options
        from .source.schema import full_schema

        options = self._discreet()
        check_options(options)
        return full_schema(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for ``spark.read``."""
        from .source.batch import KafkaBatchReader

        return KafkaBatchReader(self._given(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (PySpark's name)
        """Return the reader for ``spark.readStream``."""
        from .source.stream import KafkaStreamReader

        return KafkaStreamReader(self._given(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for ``df.write``."""
        from .sink.writers import batch_writer

        return batch_writer(self._given(), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (PySpark's name)
        """Return the writer for ``df.writeStream``."""
        from .sink.writers import stream_writer

        return stream_writer(self._given(), schema, overwrite)

    def _given(self) -> Mapping[str, str]:
        """Return the options, and log a warning if Spark does not redact a private key among them."""
        from .kafka_options import mention_key

        if not self._key_is_hidden:
            mention_key(self.options)
        return self._discreet()

    def _discreet(self) -> Mapping[str, str]:
        """Return the options, with secrets hidden from ``repr``."""
        from .secrets import hidden

        return CaseInsensitiveDict(hidden(self.options))


class RegisteredDataSource(KafkaDataSource):
    """Data source for sessions in which `register` was called, so that Spark redacts private keys."""

    _key_is_hidden = True

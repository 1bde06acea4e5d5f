"""The entry point: the data source behind ``format("aiokafka_lead")``.

PySpark creates it again in several processes and pickles it between them, so it holds only the options. Readers and
writers are imported on demand: a task that writes does not import the reading part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource

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
    """Topics for batch and streaming queries, with the options of Spark's Kafka connector."""

    _key_is_hidden: ClassVar[bool] = False
    """True if Spark hides a private key that is an option."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of Spark's connector, with ``headers`` if the option ``includeHeaders`` is set.

        Spark calls this in ``load()`` if no columns are given. Errors in the options are then reported there.
        """
        from .source.options import check_options
        from .source.schema import full_schema

        check_options(self.options)
        return full_schema(self.options)

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
        from .sink import batch_writer

        return batch_writer(self._given(), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (PySpark's name)
        """Return the writer for ``df.writeStream``."""
        from .sink import stream_writer

        return stream_writer(self._given(), schema, overwrite)

    def _given(self) -> Mapping[str, str]:
        """Return the options, with a warning if Spark shows a secret in them."""
        from .kafka_options import mention_key

        if not self._key_is_hidden:
            mention_key(self.options)
        return self.options


class RegisteredDataSource(KafkaDataSource):
    """The data source in a session in which `register` makes Spark hide private keys."""

    _key_is_hidden = True

"""The entry point: what PySpark makes of ``format("aiokafka_lead")``.

PySpark builds it anew in several processes and pickles it between them, so that it holds nothing but the options.
Readers and writers are imported when they are asked for: a task that writes does not pay for what reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

__all__ = ["KafkaDataSource"]


class KafkaDataSource(DataSource):
    """Topics for batch and streaming queries, with the options of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of Spark's connector; ``headers`` with the option ``includeHeaders``.

        Spark asks at ``load()`` unless it is given the columns: what is wrong with the options shows there.
        """
        from .source.options import check_options
        from .source.schema import full_schema

        check_options(self.options)
        return full_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        from .source.batch import KafkaBatchReader

        return KafkaBatchReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (PySpark's name)
        """For ``spark.readStream``."""
        from .source.stream import KafkaStreamReader

        return KafkaStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For ``df.write``."""
        from .sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (PySpark's name)
        """For ``df.writeStream``."""
        from .sink import stream_writer

        return stream_writer(self.options, schema, overwrite)

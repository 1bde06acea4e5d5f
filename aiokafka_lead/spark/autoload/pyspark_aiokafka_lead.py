"""Lets PySpark find the format: PySpark imports every top-level module whose name begins with ``pyspark_``.

Packaging installs this file at the top level. An error here would disable all formats that PySpark finds this way.
Import errors are therefore ignored, and `aiokafka_lead.spark.register` reports them.
"""

try:
    from aiokafka_lead.spark.data_source import KafkaDataSource as DefaultSource
except ImportError:
    pass
else:
    __all__ = ["DefaultSource"]

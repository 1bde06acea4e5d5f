"""Makes PySpark find the format: it imports each top-level module whose name begins with ``pyspark_``.

Packaging installs this file at the top level. An error here would disable every other format found this way, so errors
of our own imports only disable this format, and `aiokafka_lead.spark.register` then reports them.
"""

from __future__ import annotations

try:
    from aiokafka_lead.spark.data_source import KafkaDataSource as DefaultSource
except ImportError:
    pass
else:
    __all__ = ["DefaultSource"]

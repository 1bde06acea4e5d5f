"""How PySpark finds the format by itself: it imports each top-level module whose name begins with ``pyspark_``.

Packaging installs this file at the top level. An error here would disable every other format that is found this way,
so that one in our own imports only leaves this format out, which `aiokafka_lead.spark.register` then explains.
"""

from __future__ import annotations

try:
    from aiokafka_lead.spark.data_source import KafkaDataSource as DefaultSource
except ImportError:
    pass
else:
    __all__ = ["DefaultSource"]

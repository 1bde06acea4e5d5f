"""The name of the data source."""

FORMAT = "aiokafka_lead"
"""The argument of ``format`` for ``spark.read``, ``readStream``, ``write`` and ``writeStream``."""

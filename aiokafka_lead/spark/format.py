"""The name of the data source."""

FORMAT = "aiokafka_lead"
"""Argument of ``format`` for ``spark.read``, ``readStream``, ``write`` and ``writeStream``."""

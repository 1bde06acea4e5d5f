"""The name of the data source."""

__all__ = ["FORMAT"]

FORMAT = "aiokafka_lead"
"""The argument of ``format`` for ``spark.read``, ``readStream``, ``write`` and ``writeStream``."""

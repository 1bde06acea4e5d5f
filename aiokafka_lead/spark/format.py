"""The name of the data source."""

__all__ = ["FORMAT"]

FORMAT = "aiokafka_lead"
"""What ``spark.read.format``, ``readStream``, ``write`` and ``writeStream`` take."""

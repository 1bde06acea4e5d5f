"""Tests against a real Apache Kafka, which they start themselves."""

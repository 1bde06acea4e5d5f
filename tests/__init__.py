"""Tests, in the same folders as the package. The folder ``kafka`` has the tests against a real Apache Kafka."""

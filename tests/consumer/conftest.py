"""A cluster for each test: its topic's partitions are led by three brokers."""

from __future__ import annotations

from tests.embedded import cluster_with

cluster = cluster_with(brokers=3, events=3)

"""A cluster for each test; three brokers lead the partitions of its topic."""

from __future__ import annotations

from tests.embedded import cluster_with

cluster = cluster_with(brokers=3, events=3)

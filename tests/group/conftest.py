"""A cluster for each test, with a topic for its group."""

from __future__ import annotations

from tests.embedded import cluster_with

cluster = cluster_with(brokers=3, events=6)

"""A cluster for each test, with a topic for dead letters."""

from __future__ import annotations

from tests.embedded import cluster_with

cluster = cluster_with(brokers=1, events=3, failed=1)

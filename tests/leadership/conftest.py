"""A cluster for each test: broker 1 leads its topic's one partition."""

from __future__ import annotations

from tests.embedded import cluster_with

cluster = cluster_with(brokers=3, t=1)

"""Partitions that stay where they are."""

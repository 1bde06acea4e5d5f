"""Assignors, which distribute partitions among the members of a group."""

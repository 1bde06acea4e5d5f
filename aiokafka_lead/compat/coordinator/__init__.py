"""Assignors and messages of consumer groups."""

"""Assignor that moves as few partitions as possible."""

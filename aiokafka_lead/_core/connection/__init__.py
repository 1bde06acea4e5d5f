"""Frames of one connection, its requests in flight, and its authentication."""

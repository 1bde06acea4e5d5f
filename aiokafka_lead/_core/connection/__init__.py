"""Connections without I/O: frames, requests in flight, and authentication."""

"""Shared parts of the simulations: virtual time, a partition's truth, a broker, its fetch sessions, error codes."""

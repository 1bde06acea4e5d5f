"""What the simulations have in common: virtual time, a partition's truth, a broker, its fetch sessions, error codes."""

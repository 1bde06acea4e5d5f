"""One connection's frames, its requests in flight, and its authentication."""

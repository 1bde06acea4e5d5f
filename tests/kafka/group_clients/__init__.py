"""Members of a consumer group, one module for each client: `run` reads and commits until it is stopped."""

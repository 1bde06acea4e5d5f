"""The metadata actor, which owns the cluster's snapshot, and its requests to brokers."""

"""The metadata actor, which owns the cluster snapshot, and its requests to brokers."""

"""The metadata actor, which owns the cluster's snapshot, and the requests that it sends to brokers."""

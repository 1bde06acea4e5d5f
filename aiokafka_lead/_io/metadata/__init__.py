"""The metadata actor, sole owner of the cluster's snapshot, and its requests to brokers."""

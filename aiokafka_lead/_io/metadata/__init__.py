"""The metadata actor: sole owner of the cluster's snapshot, and which brokers it asks."""

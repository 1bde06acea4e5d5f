"""The metadata actor: sole owner of the cluster's snapshot, and whom it asks."""

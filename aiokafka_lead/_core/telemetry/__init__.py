"""Client metrics that are pushed to the cluster (KIP-714), without I/O."""

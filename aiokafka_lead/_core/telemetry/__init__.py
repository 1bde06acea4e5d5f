"""Metrics requested from clients by clusters (KIP-714), without I/O."""

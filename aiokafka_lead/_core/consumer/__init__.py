"""Consuming records, without I/O: planning fetches, processing responses, and storing prefetched records."""

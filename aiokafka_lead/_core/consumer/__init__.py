"""Reads records, without I/O: plans fetches, interprets responses, and stores prefetched records."""

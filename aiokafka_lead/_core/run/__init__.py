"""`Consumer.run` without I/O: the order of records, their progress, and their retries."""

"""Source of Spark queries: the readers for batch and streaming queries, and their tasks."""

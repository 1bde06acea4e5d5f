"""A pipeline: order events from asyncio into Kafka, from there through Spark into Parquet, and a report."""

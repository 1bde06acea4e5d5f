"""A pipeline: order events from asyncio to Kafka, from there through Spark to Parquet, and a report."""

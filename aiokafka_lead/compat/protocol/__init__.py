"""Requests for `AIOKafkaClient.send`, and their responses."""

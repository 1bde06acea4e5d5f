"""Requests for `AIOKafkaClient.send`, and the form of responses."""

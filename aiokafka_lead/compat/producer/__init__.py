"""aiokafka's producer."""

from .producer import AIOKafkaProducer

__all__ = ["AIOKafkaProducer"]

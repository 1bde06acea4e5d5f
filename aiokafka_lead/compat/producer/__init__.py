"""aiokafka's producer."""

from __future__ import annotations

from .producer import AIOKafkaProducer

__all__ = ["AIOKafkaProducer"]

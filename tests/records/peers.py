"""Codecs of other clients, as references."""

from __future__ import annotations

import warnings
from typing import Any

from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder as AiokafkaLegacyBuilder
from aiokafka.record.memory_records import MemoryRecords as AiokafkaRecords

with warnings.catch_warnings():
    # kafka-python's own import warns on Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2
    from kafka.record import MemoryRecords as KafkaPythonRecords
    from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder
    from kafka.record.legacy_records import LegacyRecordBatchBuilder as KafkaPythonLegacyBuilder

BUILDERS: dict[str, Any] = {"aiokafka": AiokafkaBuilder, "kafka-python": KafkaPythonBuilder}
LEGACY_BUILDERS: dict[str, Any] = {"aiokafka": AiokafkaLegacyBuilder, "kafka-python": KafkaPythonLegacyBuilder}
READERS: dict[str, Any] = {"aiokafka": AiokafkaRecords, "kafka-python": KafkaPythonRecords}
MURMUR2: dict[str, Any] = {"aiokafka": aiokafka_murmur2, "kafka-python": kafka_python_murmur2}

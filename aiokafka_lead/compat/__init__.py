"""aiokafka's interface on the native clients: programs written for aiokafka run unchanged.

    import aiokafka_lead.compat

    aiokafka_lead.compat.install()  # before anything imports aiokafka, which need not be installed

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

Modules, classes and options have the names, defaults and meaning of aiokafka's; docs/migration/from-aiokafka.md lists
the differences. Works with asyncio only. Classes such as `AIOKafkaProducer` may also be imported from here.
"""

from __future__ import annotations

from .abc import ConsumerRebalanceListener
from .client import AIOKafkaClient
from .consumer import AIOKafkaConsumer
from .errors import ConsumerStoppedError, IllegalOperation
from .install import install, uninstall
from .producer import AIOKafkaProducer
from .structs import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .version import __version__ as __version__

__all__ = [
    "AIOKafkaClient",
    "AIOKafkaConsumer",
    "AIOKafkaProducer",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerStoppedError",
    "IllegalOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "TopicPartition",
    "install",
    "uninstall",
]

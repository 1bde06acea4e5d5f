"""aiokafka's interface, so that programs written for aiokafka run unchanged.

    import aiokafka_lead.compat

    aiokafka_lead.compat.install()  # before the first import of aiokafka, which need not be installed

    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

Modules, classes and options have the same names, defaults and meanings as in aiokafka. docs/migration/from-aiokafka.md
lists the differences. Classes such as `AIOKafkaProducer` can also be imported from this package. The package works
only with asyncio. In the docstrings of this package, *native* means the classes of `aiokafka_lead`.
"""

from .abc import ConsumerRebalanceListener
from .client import AIOKafkaClient
from .consumer import AIOKafkaConsumer
from .errors import ConsumerStoppedError, IllegalOperation
from .install import install, uninstall
from .producer import AIOKafkaProducer
from .structs import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from .util import __version__ as __version__

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

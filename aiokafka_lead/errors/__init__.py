"""Every error that this client raises.

`KafkaError` is the root. Errors that a broker answered with derive from `BrokerError` and carry the protocol's error
code; `error_for_code` maps a code to its class. ``retriable`` tells whether the same call may succeed later,
``refreshes_metadata`` whether the client's view of the cluster is stale (Java: ``RetriableException``,
``InvalidMetadataException``).
"""

from __future__ import annotations

from .base import *
from .client import *
from .cluster import *
from .group import *
from .log import *
from .membership import *
from .reads import *
from .run import *


def _adopt() -> None:
    """Users meet the classes by this module's name, in tracebacks too."""
    for value in globals().values():
        if isinstance(value, type) and issubclass(value, KafkaError):
            value.__module__ = __name__


_adopt()

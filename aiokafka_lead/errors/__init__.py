"""All errors that this client raises, and errors that handlers may raise.

All errors of the client derive from `KafkaError`. Errors that a broker returns derive from `BrokerError` and have the
error code of the protocol; `error_for_code` returns the class for a code. ``retriable`` is True if the same call may
succeed later (Java: ``RetriableException``). ``refreshes_metadata`` is True if the client's view of the cluster is
stale (Java: ``InvalidMetadataException``).
"""

from __future__ import annotations

from . import base, client, cluster, group, log, reads
from .base import *
from .client import *
from .cluster import *
from .group import *
from .log import *
from .reads import *

__all__: list[str] = []
__all__ += base.__all__
__all__ += client.__all__
__all__ += cluster.__all__
__all__ += group.__all__
__all__ += log.__all__
__all__ += reads.__all__


def _adopt() -> None:
    """Set the ``__module__`` of the classes to this module, so tracebacks show the name that users import."""
    for value in globals().values():
        if isinstance(value, type) and issubclass(value, KafkaError | PermanentError | DropRecordError):
            value.__module__ = __name__


_adopt()

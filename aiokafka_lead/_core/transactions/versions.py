"""Decides if transactions follow KIP-890 (V2), or the earlier protocol (V1).

The cluster decides, by its finalized feature ``transaction.version``: version ranges alone do not show it, because
brokers offer the new versions before the feature is raised. A client hears of it when it connects.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_

from ..._wire import ApiVersions
from ..._wire.messages.end_txn import EndTxnRequest
from ..._wire.messages.produce import ProduceRequest
from ..._wire.messages.txn_offset_commit import TxnOffsetCommitRequest

FEATURE = "transaction.version"
FIRST_V2_LEVEL = 2
_NEEDED = ((ProduceRequest, 12), (EndTxnRequest, 5), (TxnOffsetCommitRequest, 5))


class TransactionVersion:
    """The feature in the newest answer; a transaction ends in the version in which it began."""

    def __init__(self) -> None:
        self._newest = -1
        """Epoch of the finalized features in that answer."""
        self._level = 0
        self._offered: list[ApiVersions] = []
        self._v2 = False
        """The version that follows from these."""

    def v2(self, offers: Iterable[ApiVersions]) -> bool:
        """Return True if the next transaction should be one of KIP-890, by the offers of the connected brokers."""
        offered = list(offers)
        if len(offered) != len(self._offered) or not all(map(is_, offered, self._offered)):
            self._offered = offered
            self._v2 = self._usable(offered) and self._level >= FIRST_V2_LEVEL
        return self._v2

    def _usable(self, offers: Iterable[ApiVersions]) -> bool:
        usable = True
        for offered in offers:
            if offered.finalized_features_epoch > self._newest:
                self._newest = offered.finalized_features_epoch
                self._level = offered.finalized_features.get(FEATURE, 0)
            usable = usable and all(offered.supports(request, version) for request, version in _NEEDED)
        return usable

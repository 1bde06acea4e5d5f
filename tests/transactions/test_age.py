"""A transaction that has used up half of its time causes one warning."""

from __future__ import annotations

import logging

import anyio
import pytest

from aiokafka_lead.testing import EmbeddedCluster

from .support import ID, transactional

pytestmark = pytest.mark.anyio


class Heard(logging.Handler):
    """Warnings of producers, and an event that is set with the first of them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []
        self.some = anyio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.some.set()


@pytest.fixture
def transaction_version() -> int:
    """A single version, since it makes no difference here."""
    return 2


async def test_it_is_warned_of_once(cluster: EmbeddedCluster) -> None:
    heard = Heard()
    logger = logging.getLogger("aiokafka_lead.producer")
    logger.addHandler(heard)
    try:
        async with transactional(cluster, transaction_timeout_ms=2000) as producer:
            for number in (1, 2):
                async with producer.transaction() as txn:
                    await txn.send_and_wait("events", b"a", partition=0)
                    assert not producer.transaction_health().late
                    with anyio.fail_after(20):
                        await heard.some.wait()
                    assert producer.transaction_health().late
                heard.some = anyio.Event()
                assert [f"{ID!r} (open)" in text for text in heard.texts] == [True] * number
    finally:
        logger.removeHandler(heard)

"""A cluster for each test, and the recorded spans of its clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace.sampling import Sampler

from aiokafka_lead.otel import instrument, uninstrument
from tests.embedded import cluster_with

from .support import Spans

cluster = cluster_with(brokers=1, events=3, letters=1)


@pytest.fixture
def sampler() -> Sampler | None:
    """Sampler that decides which traces are recorded; None for all of them."""
    return None


@pytest.fixture
def spans(sampler: Sampler | None) -> Iterator[Spans]:
    """Spans of clients that start in the test, and of the test itself."""
    found = Spans(sampler)
    instrument(tracer_provider=found.provider)
    yield found
    uninstrument()
    found.provider.shutdown()

"""Names of attributes, complete in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafka_lead.otel.names import Attribute, Vocabulary, Wording

PAGE = (Path(__file__).parents[2] / "docs" / "observability.md").read_text()


@pytest.fixture(params=["", "http", "messaging", "http, messaging/dup", "messaging,messaging/dup"])
def opt_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", request.param)
    asked: str = request.param
    return asked


def test_the_environment_chooses_the_names(opt_in: str) -> None:
    words = Vocabulary(Wording.from_environment())
    found = words((Attribute.SYSTEM, "kafka"), (Attribute.OFFSET, 7), (Attribute.CLIENT_ID, "a"), (Attribute.KEY, None))
    old = {"messaging.system": "kafka", "messaging.kafka.offset": 7, "messaging.client.id": "a"}
    new = {"messaging.system.name": "kafka", "kafka.offset": 7, "messaging.client.id": "a"}
    if "messaging/dup" in opt_in:
        assert found == old | new
    else:
        assert found == (new if "messaging" in opt_in else old)


@pytest.mark.parametrize("attribute", list(Attribute))
def test_every_attribute_is_documented(attribute: Attribute) -> None:
    old, new = attribute.value
    assert f"`{old}`" in PAGE
    assert f"`{new}`" in PAGE

"""Secrets for a registry show neither in errors nor in variables that collectors of errors report."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import pytest

from aiokafka_lead import Producer
from aiokafka_lead.errors import ConfigError, ConfigTypeError, SchemaRegistryError
from aiokafka_lead.oidc import ClientCredentials, Token
from aiokafka_lead.schema import SchemaRegistry
from aiokafka_lead.testing import EmbeddedSchemaRegistry

SECRET = "MARKED"
URL = "https://registry.example.org"


def collected(error: BaseException) -> str:
    """Return the report of an error: each link, with the variables of each function except the tests'."""
    found: list[str] = []
    rest: list[BaseException | None] = [error]
    while rest:
        link = rest.pop()
        if link is not None:
            rest += [link.__cause__, link.__context__]
            found += [repr(link), str(link), *map(repr, link.args)]
            found += variables(link.__traceback__)
    return "\n".join(found)


def variables(step: TracebackType | None) -> list[str]:
    found: list[str] = []
    while step is not None:
        if "/tests/" not in step.tb_frame.f_code.co_filename:
            found += map(repr, step.tb_frame.f_locals.values())  # present even on a half-constructed object
        step = step.tb_next
    return found


@pytest.mark.parametrize(
    ("urls", "options"),
    [
        (f"https://user:{SECRET}@registry.example.org", {}),
        (f"{URL},https://user:{SECRET}@registry.example.org", {}),
        ([URL, f" https://user:{SECRET}@registry.example.org "], {}),
        (f"https://user:{SECRET}@[registry", {}),
        (f"https://user:{SECRET}@registry:port", {}),
        (f"ftp://user:{SECRET}@registry", {}),
        (f"user:{SECRET}@registry", {}),
        (f"{URL}?token={SECRET}", {}),
        (f"{URL}#{SECRET}", {}),
        ("http://registry.example.org", {"basic_auth": ("user", SECRET)}),
        (URL, {"basic_auth": f"user:{SECRET}"}),
        (URL, {"basic_auth": ["user", SECRET]}),
        (URL, {"basic_auth": ("a:b", SECRET)}),
        (URL, {"basic_auth": ("user", f"{SECRET}\udce9")}),
        (URL, {"basic_auht": ("user", SECRET)}),
        (URL, {"basic_auth_user_info": f"user:{SECRET}"}),
        (URL, {"header": {"Authorization": f"Bearer {SECRET}"}}),
        (URL, {"headers": {"Authorization": f"Bearer {SECRET}\n"}}),
        (URL, {"headers": {"Authorization": f"Bearer {SECRET}\r\nX-More: y"}}),
        (URL, {"headers": {"Authorization": f"Bearer {SECRET}\u20ac"}}),
        (URL, {"headers": {"Bad name": SECRET}}),
        (URL, {"headers": {f"Authorization: {SECRET}": ""}}),
        (URL, {"headers": {"Authorization": SECRET.encode()}}),
        (URL, {"headers": [("Authorization", SECRET)]}),
        (URL, {"token_provider": SECRET}),
        (URL, {"ssl_password": SECRET.encode()}),
        (URL, {"ssl_password": f"{SECRET}\udce9"}),
        (URL, {"ssl_context": SECRET}),
        (URL, {"headers": {"Authorization": [SECRET]}}),
        (URL, {"ssl_pasword": SECRET}),
        (URL, {"ssl_password": [SECRET]}),
        (URL, {"timeout_ms": -1, "basic_auth": ("user", SECRET), "headers": {"X": SECRET}}),
    ],
)
def test_what_is_refused_shows_no_secret(urls: Any, options: Any) -> None:
    with pytest.raises((ConfigError, ConfigTypeError)) as caught:
        SchemaRegistry(urls, **options)
    assert SECRET not in collected(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"sasl_plain_passwrd": SECRET},
        {"sasl_password": SECRET, "sasl_mechanism": "PLAIN"},
        {"security": {"password": [SECRET]}},
    ],
)
def test_an_option_that_a_client_does_not_have_may_be_a_secret(options: Any) -> None:
    with pytest.raises(ConfigTypeError) as caught:
        Producer("localhost", **options)
    assert SECRET not in collected(caught.value)


def test_the_address_of_a_token_endpoint() -> None:
    with pytest.raises(ConfigError, match="user name or password") as caught:
        ClientCredentials(f"https://id:{SECRET}@idp.example.org/token", "id", SECRET)
    assert SECRET not in collected(caught.value)


@pytest.mark.anyio
async def test_files_that_cannot_be_used() -> None:
    registry = SchemaRegistry(URL, ssl_certfile="/nowhere", ssl_password=SECRET)
    with pytest.raises(ConfigError, match="ssl_certfile") as caught:
        await registry.subjects()
    assert SECRET not in collected(caught.value)


@pytest.mark.anyio
async def test_a_token_that_no_header_can_hold() -> None:
    with EmbeddedSchemaRegistry() as server:
        registry = SchemaRegistry(server.url, token_provider=lambda: Token(f"{SECRET}\n"), timeout_ms=50)
        with pytest.raises(SchemaRegistryError) as caught:
            await registry.subjects()
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(registry)

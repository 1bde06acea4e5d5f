"""The order service of ``examples``, with a span for each request; exported to OTLP_ENDPOINT."""

from __future__ import annotations

import os

import anyio.to_thread
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, get_tracer
from starlette.types import Message, Receive, Scope, Send

from examples.fastapi_orders import app as orders
from tests.otlp import export_to

provider = export_to(os.environ["OTLP_ENDPOINT"], "orders-api")
tracer = get_tracer(__name__)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Do the essential work of OpenTelemetry's middleware."""

    async def send_exported(message: Message) -> None:
        if message["type"].startswith("lifespan.shutdown."):  # a worker ends as soon as it has this
            await anyio.to_thread.run_sync(provider.force_flush)
        await send(message)

    if scope["type"] != "http":
        await orders(scope, receive, send_exported)
        return
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    name = f"{scope['method']} {scope['path']}"
    with tracer.start_as_current_span(name, extract(headers), kind=SpanKind.SERVER):
        await orders(scope, receive, send)

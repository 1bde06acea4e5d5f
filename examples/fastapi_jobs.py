"""A task queue behind FastAPI: requests enqueue jobs, and workers in this and other processes run them.

Run it, with a Kafka cluster of 4.2 or newer at BOOTSTRAP_SERVERS (default: localhost:9092; ``python -m
aiokafka_lead.testing --port 9092`` serves one):

    pip install 'aiokafka-lead[fastapi]' uvicorn
    uvicorn examples.fastapi_jobs:app --timeout-graceful-shutdown 20
    curl -X POST localhost:8000/thumbnails -H 'content-type: application/json' -d '{"image": "cat.png"}'

Start any number of processes: they share the work, even if the topic has fewer partitions (KIP-932). When a process
stops, it finishes its running jobs and immediately hands its other jobs to other processes. Any process may retry a
failed job. After its last retry, the job moves to a separate topic, with the cause. ``worker.py`` is a worker without
an app.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import anyio
from fastapi import Depends, FastAPI
from pydantic import BaseModel, Field

from aiokafka_lead import AdminClient, Producer, ShareRecord
from aiokafka_lead.admin import ConfigChange, ConfigResource, ConfigResourceType
from aiokafka_lead.fastapi import Kafka

TOPIC = os.environ.get("JOBS_TOPIC", "thumbnails")
GROUP = f"{TOPIC}-workers"
SERVERS = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")

log = logging.getLogger(f"uvicorn.{__name__}")  # uvicorn shows only loggers below "uvicorn"

# The shutdown is shorter than an orchestrator's grace period (Kubernetes: 30 s, including the last requests).
kafka = Kafka(SERVERS, client_id="thumbnails", wait=True, request_timeout_ms=5_000, close_timeout_ms=8_000)
jobs = kafka.producer(linger_ms=0, max_block_ms=5_000, delivery_timeout_ms=15_000)


class Job(BaseModel):
    """An image that needs a thumbnail."""

    image: str = Field(min_length=1)
    width: int = Field(default=200, gt=0)


@kafka.share_consumer(TOPIC, group_id=GROUP, run={"concurrency": 32, "dead_letter_topic": f"{TOPIC}.failed"})
async def make_thumbnail(record: ShareRecord[bytes | None, bytes | None]) -> None:
    """Run one job. It may take longer than the record's lock, which is renewed."""
    job = Job.model_validate_json(record.value or b"")
    await anyio.sleep(0.1)  # stands for the work
    log.info("thumbnail of %s, %d wide (delivery %d)", job.image, job.width, record.delivery_count)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Set up the group, which would otherwise skip jobs enqueued before its first worker joined; then run."""
    async with AdminClient(SERVERS) as admin:
        begin = ConfigChange("share.auto.offset.reset", "earliest")
        await admin.incremental_alter_configs({ConfigResource(ConfigResourceType.GROUP, GROUP): [begin]})
    async with kafka.lifespan(app):
        yield


app = FastAPI(lifespan=lifespan)
app.include_router(kafka.router())
kafka.handle_errors(app)  # 413 and 503


@app.post("/thumbnails", status_code=202)
async def enqueue(job: Job, producer: Annotated[Producer[Any, Any], Depends(jobs)]) -> dict[str, str]:
    """Enqueue a job. The response is sent once the job is stored in Kafka, before it is done."""
    await producer.send_and_wait(TOPIC, job.model_dump_json().encode())
    return {"status": "enqueued"}

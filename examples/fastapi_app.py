"""A web service that sends one record per request, and answers once the record is delivered.

    pip install -e . fastapi uvicorn
    KAFKA_BOOTSTRAP_SERVERS=localhost:9092 uvicorn --app-dir examples fastapi_app:app
    curl -i localhost:8000/orders --json '{"customer": "alice", "item": "tea", "quantity": 2}'

201: the record is in the topic, at the partition and offset in the body. 413: the record is too large.
503: the buffer is full, or the cluster did not acknowledge the record in time; "outcome" in the body says
whether the record may have been written.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypedDict

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from kproducer import AsyncKafkaProducer, KafkaTimeoutError, RecordTooLargeError

TOPIC = "orders"
log = logging.getLogger("uvicorn.error")


class State(TypedDict):
    producer: AsyncKafkaProducer


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[State]:
    """One producer per process: each uvicorn worker runs this before its first request."""
    producer = AsyncKafkaProducer(
        os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"),
        linger_ms=1,
        # An HTTP client waits for the answer. The defaults are 32 MiB, 60 s, 30 s and 2 minutes.
        buffer_memory=4 * 1024 * 1024,
        max_block_ms=500,
        request_timeout_ms=5_000,
        delivery_timeout_ms=10_000,
    )
    # uvicorn waits for open requests, and so for their records, before it leaves this block.
    try:
        yield {"producer": producer}
    finally:
        await producer.aclose(10)


app = FastAPI(title="Orders", lifespan=lifespan)


class Order(BaseModel):
    customer: str
    item: str
    quantity: int


class Delivered(BaseModel):
    partition: int
    offset: int


@app.post("/orders", status_code=201)
async def create_order(order: Order, request: Request) -> Delivered:
    producer: AsyncKafkaProducer = request.state.producer
    metadata = await producer.send(TOPIC, order.model_dump_json(), key=order.customer)
    return Delivered(partition=metadata.partition, offset=metadata.offset)


@app.exception_handler(RecordTooLargeError)
async def too_large(request: Request, error: RecordTooLargeError) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=413)


# BufferExhaustedError, MetadataTimeoutError, DeliveryTimeoutError. FastAPI answers other errors with 500.
@app.exception_handler(KafkaTimeoutError)
async def not_delivered(request: Request, error: KafkaTimeoutError) -> JSONResponse:
    log.error("%s: %s", type(error).__name__, error)
    body = {
        "detail": "The order was not acknowledged by Kafka.",
        "outcome": error.outcome.value if error.outcome else "unknown",
    }
    return JSONResponse(body, status_code=503, headers={"Retry-After": "1"})

"""Celery tasks that send records, with one producer for each worker process.

    pip install -e . celery
    cd examples
    KAFKA_BOOTSTRAP_SERVERS=localhost:9092 celery -A celery_tasks worker --concurrency 2
    celery -A celery_tasks call celery_tasks.publish_order --args '[{"customer": "alice", "item": "tea"}]'

A task succeeds once its records are delivered. A task that is repeated, because it timed out or its worker
was killed, may write a record twice. The copies have the same header "task-id".
"""

from __future__ import annotations

import itertools
import logging
import os
from pathlib import Path
from typing import Any

from celery import Celery, Task
from celery.signals import worker_process_init, worker_process_shutdown
from celery.utils.log import get_task_logger

from kproducer import (
    AuthorizationError,
    JsonSerializer,
    KafkaProducer,
    KafkaTimeoutError,
    RecordTooLargeError,
    SerializationError,
)

TOPIC = "orders"
#: Another attempt has the same result.
PERMANENT = (AuthorizationError, RecordTooLargeError, SerializationError)
log = get_task_logger(__name__)

# A folder instead of a message broker, to try this out. Elsewhere: broker="redis://..." or "amqp://...".
QUEUE = Path("celery-queue")
QUEUE.mkdir(exist_ok=True)
app = Celery("celery_tasks", broker="filesystem://")
app.conf.broker_transport_options = {
    "data_folder_in": str(QUEUE),
    "data_folder_out": str(QUEUE),
    "control_folder": str(QUEUE),
}
# A task whose worker process dies goes back to the queue.
app.conf.task_acks_late = True
app.conf.task_reject_on_worker_lost = True

producer: KafkaProducer


@worker_process_init.connect
def open_producer(**_: object) -> None:
    """Runs in each worker process after the fork: connections and threads cannot be shared."""
    global producer
    producer = KafkaProducer(
        os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"),
        value_serializer=JsonSerializer(),
        linger_ms=0,  # a task waits for its records, so no others would join the batch
        max_block_ms=2_000,
        request_timeout_ms=5_000,
        delivery_timeout_ms=10_000,
    )


@worker_process_shutdown.connect
def close_producer(**_: object) -> None:
    producer.close()
    log.info("the producer is closed")


@app.task(bind=True, autoretry_for=(KafkaTimeoutError,), retry_backoff=True, max_retries=10)
def publish_order(self: Task, order: dict[str, Any]) -> None:
    headers = [("task-id", self.request.id)]
    # Without a timeout of its own: result() returns or raises within delivery_timeout_ms.
    metadata = producer.send(TOPIC, order, key=order["customer"], headers=headers).result()
    log.info("order at %s-%d, offset %d", metadata.topic, metadata.partition, metadata.offset)


@app.task(bind=True, autoretry_for=(KafkaTimeoutError,), retry_backoff=True, max_retries=10)
def publish_orders(self: Task, orders: list[dict[str, Any]]) -> None:
    result = producer.send_many(
        TOPIC,
        orders,
        keys=[order["customer"] for order in orders],
        headers=itertools.repeat([("task-id", self.request.id)]),
    )
    failures = result.failures()
    for index, error in failures:
        level = logging.ERROR if isinstance(error, PERMANENT) else logging.WARNING
        log.log(level, "order of %s: %s", orders[index]["customer"], error)
    log.info("%d of %d orders delivered", len(orders) - len(failures), len(orders))
    # Only what may succeed is sent again.
    failed = [orders[index] for index, error in failures if not isinstance(error, PERMANENT)]
    if failed:
        raise self.retry(args=(failed,), kwargs={}, exc=failures[0][1], countdown=2**self.request.retries)
    if failures:
        raise failures[0][1]

"""A FastStream application that reads orders and publishes invoices, with kproducer's adapter as producer.

    pip install -e . 'faststream[confluent,cli]'
    KAFKA_BOOTSTRAP_SERVERS=localhost:9092 faststream run examples.faststream_app:app

FastStream's broker for confluent-kafka creates a ``Producer`` when it starts. One assignment before that
makes it use the adapter; consumers stay confluent-kafka's, and nothing else changes.
"""

from __future__ import annotations

import os
from typing import Any

from faststream import FastStream
from faststream.confluent import KafkaBroker
from faststream.confluent.helpers import client

from kproducer.compat.confluent_kafka import Producer

client.Producer = Producer

broker = KafkaBroker(os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"))
app = FastStream(broker)


@broker.subscriber("orders", group_id="invoices", auto_offset_reset="earliest")
@broker.publisher("invoices")
async def invoice(order: dict[str, Any]) -> dict[str, Any]:
    return {"customer": order["customer"], "total": order["quantity"] * order["price"]}

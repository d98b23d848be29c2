"""A Django site that sends one record per request, and answers once the record is delivered.

    pip install -e . django gunicorn
    export KAFKA_BOOTSTRAP_SERVERS=localhost:9092
    gunicorn --chdir examples --preload --workers 2 django_site:application
    curl -i localhost:8000/orders -d '{"customer": "alice", "item": "tea"}'

201: the record is in the topic, at the partition and offset in the body. 503: it was not delivered in time.
The producer is created by the first request of a process; a process that was forked with a producer gets
connections and a buffer of its own. At the end of a process, what was accepted is delivered.
``python examples/django_site.py runserver`` starts Django's own server, with reload.
"""

from __future__ import annotations

import functools
import os
import sys

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from kproducer import KafkaError, KafkaProducer

TOPIC = "orders"
DELIVERY_S = 10


@functools.cache
def producer() -> KafkaProducer:
    """One producer per process, which all of its threads share."""
    return KafkaProducer(
        os.environ.get("KAFKA_BOOTSTRAP_SERVERS", "localhost:9092"),
        # A client waits for the answer: see docs/guides/tuning.md.
        linger_ms=1,
        max_block_ms=2_000,
        request_timeout_ms=5_000,
        delivery_timeout_ms=DELIVERY_S * 1000,
    )


@csrf_exempt
@require_POST
def orders(request: HttpRequest) -> HttpResponse:
    try:
        metadata = producer().send(TOPIC, request.body).result(DELIVERY_S + 1)
    except KafkaError as error:
        outcome = None if error.outcome is None else error.outcome.name
        return JsonResponse({"error": str(error), "outcome": outcome}, status=503)
    found = {"partition": metadata.partition, "offset": metadata.offset, "process": os.getpid()}
    return JsonResponse(found, status=201)


settings.configure(
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    DEBUG=False,
    ROOT_URLCONF=__name__,
    SECRET_KEY="only an example: it has no sessions",
)
django.setup()
urlpatterns = [path("orders", orders)]
application = get_wsgi_application()

if os.environ.get("WARM_UP"):
    # With --preload, the workers are forked with a producer that is connected already.
    producer().partitions_for(TOPIC)

if __name__ == "__main__":
    execute_from_command_line(sys.argv)

"""What to tell somebody who called a method of another Kafka client that does not exist here.

Knows the names of confluent-kafka, kafka-python, aiokafka and Java, and nothing of our classes.
Source: the references of these clients.
"""

from __future__ import annotations

PRODUCER_METHODS = {
    "abort": "close(0) gives up what is not acknowledged",
    "list_topics": "partitions_for(topic) tells what is known of a topic",
    "partitions": "partitions_for(topic) tells them",
    "partitionsFor": "it is called partitions_for(topic)",
    "poll": "nothing has to be polled, callbacks run by themselves; leave it out",
    "produce_batch": "it is called send_many(topic, values, keys, headers, partitions, timestamps_ms)",
    "produce": "it is called send(topic, value, key, headers, partition, timestamp_ms, on_delivery)",
    "purge": "close(0) gives up what is not acknowledged",
    "send_and_wait": "write 'await producer.send(...)', or 'producer.send(...).result()' without asyncio",
    "start": "a producer runs once it is made; leave it out",
    "stop": "it is called close()",
}

FUTURE_METHODS = {
    "add_both": "add_done_callback(f) calls f(future) in either case",
    "add_callback": "give on_delivery to send(), or use add_done_callback(f), which calls f(future)",
    "add_errback": "give on_delivery to send(), or use add_done_callback(f), which calls f(future)",
    "failed": "once done() is true, exception() is None or tells the error",
    "is_done": "it is called done()",
    "succeeded": "once done() is true, exception() is None or tells the error",
    "value": "it is called result()",
}

SEND_MANY_RESULT_METHODS = {
    "future": "result[i] is the future of record i",
    "is_done": "it is called done()",
    "metadata": "result[i].result() is the metadata of record i",
    "succeeded": "succeeded_count and failed_count say how many",
    "failed": "succeeded_count and failed_count say how many; failures() tells which",
    "errors": "failures() tells (index, error) of each record that was not delivered",
}


def no_such_attribute(owner: object, name: str, known: dict[str, str]) -> AttributeError:
    """The error for an attribute that does not exist, with a hint if another client has it."""
    hint = f": {known[name]}" if name in known else ""
    text = f"{type(owner).__name__!r} object has no attribute {name!r}{hint}"
    # Name and object let Python itself suggest similar names.
    return AttributeError(text, name=name, obj=owner)

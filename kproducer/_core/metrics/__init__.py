"""Metrics of a producer: what is counted, the table of their names, and the samples of a moment.

The I/O thread records; any thread takes samples. It counts what other layers report, and imports none of
those with batches, requests or sockets.
Source: Kafka package ``org.apache.kafka.common.metrics``.
"""

"""Metrics of a producer: what is counted, the table of their names, and the samples of a moment.

The I/O thread records; any thread takes samples. Knows nothing of batches, requests and sockets.
Source: Kafka package ``org.apache.kafka.common.metrics``.
"""

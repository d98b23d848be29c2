"""Between ``send`` and a request: buffers, batches, queues, partitioning, and the Sender that empties them.

Callers' threads append; everything after that is the I/O thread's. Knows no sockets.
Source: Kafka package ``org.apache.kafka.clients.producer.internals``.
"""

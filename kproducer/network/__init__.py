"""Bytes in and out: Selector, channels, transports, frames. Knows no Kafka request, only size prefixes.

The only package that touches sockets, except for ``kproducer.spark.cluster_check``. I/O thread only, but for
the Selector's ``wakeup`` and the threads of ``BackgroundResolver``.
Source: Kafka package ``org.apache.kafka.common.network``.
"""

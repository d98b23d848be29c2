"""Bytes in and out: Selector, channels, transport layers, frames. Knows size prefixes, but no requests.

The only package that uses sockets, except for ``kproducer.spark.cluster_check``. I/O thread only, except for
``Selector.wakeup`` and the threads of ``BackgroundResolver``.
Source: Kafka package ``org.apache.kafka.common.network``.
"""

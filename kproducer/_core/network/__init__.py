"""Bytes in and out: Selector, channels, transport layers, frames. Knows size prefixes, but no requests.

The only package with sockets to brokers (``make lint`` checks it), except for
``kproducer.spark.cluster_check`` and ``kproducer.cli.doctor``, which try addresses without the client. I/O
thread only, except for ``Selector.wakeup`` and the threads of ``BackgroundResolver``.
Source: Kafka package ``org.apache.kafka.common.network``.
"""

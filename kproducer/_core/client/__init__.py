"""The Kafka client: connections to brokers, version negotiation, metadata. Knows nothing of producing.

``NetworkClient.poll`` is the unit that tests step. I/O thread only, except for metadata and for methods that
say "any thread".
Source: Kafka package ``org.apache.kafka.clients``.
"""

"""From security settings to the objects that connections need. Opens no connection.

Source: Kafka package ``org.apache.kafka.common.security``.
"""

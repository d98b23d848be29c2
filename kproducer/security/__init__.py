"""From security settings to what connections need: TLS contexts, SASL mechanisms. Opens no connection.

Source: Kafka package ``org.apache.kafka.common.security``.
"""
